/** What the commands that work on a server are called with, to see that they say the same of the home of that server. */
import { setImmediate } from "node:timers/promises";
import type { Store } from "../../../src/store/store.ts";
import { addMessage } from "../../harness/outbox.ts";

/** Things that exist on the server. */
interface Known {
  readonly job: string;
  readonly run: string;
  readonly session: string;
  readonly delivery: string;
  readonly question: string;
  readonly message: string;
}

/** Commands that change nothing, for the server and for its home. */
export function readsOf(known: Known): readonly (readonly string[])[] {
  const { job, run, session, delivery, question, message } = known;
  return [
    ["cron", "list"],
    ["cron", "list", "--all", "--json"],
    ["cron", "show", job],
    ["cron", "show", "tea", "--json"],
    ["cron", "runs"],
    ["cron", "runs", "tea", "--json"],
    ["cron", "status"],
    ["cron", "status", "--json"],
    ["cron", "show", "nobody"],
    ["runs", "list"],
    ["runs", "list", "--json"],
    ["runs", "show", run, "--json"],
    ["runs", "follow", run, "--json"],
    ["runs", "show", "run_nobody"],
    ["keys", "list"],
    ["keys", "list", "--json"],
    ["usage", "--json"],
    ["usage", "--by", "model"],
    ["sessions", "list"],
    ["sessions", "list", "--all", "--json"],
    ["sessions", "show", session],
    ["sessions", "show", session, "--json"],
    ["sessions", "show", session, "--all", "--json"],
    ["sessions", "export", session, "--format", "jsonl"],
    ["sessions", "export", session, "--format", "markdown"],
    ["sessions", "export", "nobody"],
    ["platforms", "list"],
    ["platforms", "list", "--json"],
    ["outbox", "list"],
    ["outbox", "list", "--json"],
    ["outbox", "show", "out_nobody"],
    ["config", "get", "cron"],
    ["config", "get", "platforms.webhook", "--json"],
    ["config", "get", "api_server.prot"],
    ["skills", "list"],
    ["skills", "show", "webhook-subscriptions", "--json"],
    ["skills", "show", "nobody"],
    ["tools", "list", "--json"],
    ["questions", "list"],
    ["questions", "list", "--status", "answered", "--json"],
    ["questions", "show", "ask_nobody"],
    ["grants", "list"],
    ["grants", "list", "--json"],
    ["events", "--types", "run.*,route.*"],
    ["events", "--json", "--limit", "5"],
    ["webhook", "list"],
    ["webhook", "list", "--json"],
    ["webhook", "remove", "nobody"],
    ["webhook", "test", "nobody", "--dry-run"],
    ["webhook", "test", "pushes", "--dry-run"],
    ["webhook", "test", "pushes", "--dry-run", "--json"],
    ["webhook", "deliveries", "list"],
    ["webhook", "deliveries", "list", "--route", "pushes", "--json"],
    ["webhook", "deliveries", "show", delivery],
    ["webhook", "deliveries", "show", delivery, "--json"],
    ["webhook", "deliveries", "replay", delivery, "--dry-run", "--json"],
    ["webhook", "deliveries", "show", "dlv_nobody"],
    ["questions", "show", question, "--json"],
    ["outbox", "show", message, "--json"],
    ["skills", "list", "--json"],
    ["config", "check", "--json"],
    ["platforms", "test", "telegram", "--json"],
    ["model", "detect", "--json"],
    ["mcp", "list", "--json"],
  ];
}

/** Returns the words for the home. These commands ask its gateway, which is on another port than it is configured for. */
export function atHome(words: readonly string[], url: string): readonly string[] {
  return words[0] === "mcp" ? [...words, "--port", new URL(url).port] : words;
}

/** A command that changes something. It is given a thing of its own each time. */
export interface Change {
  /** `THING` stands for what `make` returns; without it, for a new name. */
  readonly words: readonly string[];
  readonly make?: (server: Server, name: string) => Promise<string>;
}

/** The server over HTTP, and its database. */
export interface Server {
  call(method: string, path: string, body?: object): Promise<Record<string, string>>;
  readonly store: Store;
}

const asked = async (server: Server, input: string): Promise<string> => {
  const { run_id: run = "" } = await server.call("POST", "/v1/runs", { input });
  while ((await server.call("GET", `/v1/runs/${run}?wait=30`))["status"] !== "waiting_for_approval")
    await setImmediate();
  return run;
};
const aRun = (server: Server) => asked(server, "run: rm -r old");
const aQuestion = async (server: Server): Promise<string> => {
  const run = await aRun(server);
  const { data } = (await server.call("GET", `/v1/questions?run_id=${run}`)) as unknown as Rows;
  return data[0]?.id ?? "";
};
interface Rows {
  readonly data: readonly { readonly id: string }[];
}
const aGrant = async (server: Server): Promise<string> => {
  const run = await asked(server, "run: curl http://127.0.0.1:1/");
  await server.call("POST", `/v1/runs/${run}/approval`, { choice: "always" });
  for (;;) {
    const { data } = (await server.call("GET", "/v1/grants")) as unknown as Rows;
    if (data[0]) return data[0].id;
    await setImmediate();
  }
};
const aJob = async (server: Server) =>
  (await server.call("POST", "/v1/jobs", { schedule: "every 1h", prompt: "Look." }))["id"] ?? "";
const aPausedJob = async (server: Server) =>
  (await server.call("POST", "/v1/jobs", { schedule: "every 1h", prompt: "Look.", paused: true }))["id"] ??
  "";
const aMessage = ({ store }: Server) => addMessage({ service: { store } });
const aDeadMessage = ({ store }: Server) => addMessage({ service: { store } }, { status: "dead" });
const aNumber = async (_: Server, name: string) => name.replace("thing-", "10");
const aSetting = async ({ call }: Server, name: string) => {
  await call("PATCH", "/v1/config", { cron: { history_days: 77 } });
  return name;
};
const aSession = async (server: Server, id: string) =>
  (await server.call("POST", "/v1/sessions", { id }))["id"] ?? "";
const aKey = async (server: Server, name: string) =>
  (await server.call("POST", "/v1/keys", { name, scopes: ["read"] }))["name"] ?? "";
const aRoute = async (server: Server, name: string) =>
  (await server.call("POST", "/v1/webhooks/routes", { name }))["name"] ?? "";

/** Makes an answered question and a dead message: how long they wait is no part of what is compared. */
export async function settled(server: Server): Promise<Pick<Known, "question" | "message">> {
  const question = await aQuestion(server);
  const { run_id: run = "" } = await server.call("POST", `/v1/questions/${question}/answer`, {
    choice: "deny",
  });
  await server.call("GET", `/v1/runs/${run}?wait=60`);
  return { question, message: await aDeadMessage(server) };
}

export const changes: readonly Change[] = [
  { words: ["runs", "approve", "THING"], make: aRun },
  { words: ["runs", "deny", "THING", "--reason", "keep it"], make: aRun },
  { words: ["runs", "stop", "THING"], make: aRun },
  { words: ["questions", "answer", "THING", "deny"], make: aQuestion },
  { words: ["grants", "revoke", "THING", "--yes"], make: aGrant },
  { words: ["sessions", "delete", "THING", "--yes"], make: aSession },
  { words: ["cron", "create", "every 2h", "Look.", "--name", "THING"] },
  { words: ["cron", "edit", "THING", "--prompt", "Look again."], make: aJob },
  { words: ["cron", "pause", "THING", "--reason", "later"], make: aJob },
  { words: ["cron", "resume", "THING"], make: aPausedJob },
  { words: ["cron", "run", "THING"], make: aJob },
  { words: ["cron", "remove", "THING", "--yes"], make: aJob },
  { words: ["webhook", "subscribe", "THING", "--events", "push", "--prompt", "see {a}"] },
  { words: ["webhook", "remove", "THING"], make: aRoute },
  { words: ["outbox", "retry", "THING"], make: aDeadMessage },
  { words: ["outbox", "drop", "THING", "--yes"], make: aMessage },
  { words: ["keys", "create", "THING", "--scopes", "read"] },
  { words: ["keys", "rotate", "THING"], make: aKey },
  { words: ["keys", "revoke", "THING"], make: aKey },
  { words: ["config", "set", "cron.history_days", "THING"], make: aNumber },
  { words: ["config", "unset", "cron.history_days"], make: aSetting },
  { words: ["mcp", "reload"] },
];

/** Commands that differ on a server on purpose, or are compared by a test of their own, and why. */
export const exceptions: Readonly<Record<string, string>> = {
  status: "it says where the gateway is; read from elsewhere in a test of servers.test.ts",
  doctor: "on a server it checks what the server can see; read from elsewhere in a test of servers.test.ts",
  logs: "the log file has lines of earlier starts; read from elsewhere in a test of servers.test.ts",
  backup: "it writes a file; a test of servers.test.ts compares what it contains",
  "cron import": "a test of servers.test.ts compares a dry run, then imports",
  "model list": "compared in a test of servers.test.ts with the other commands on models",
  "model show": "compared in a test of servers.test.ts with the other commands on models",
  "model set": "compared in a test of servers.test.ts with the other commands on models",
  "model test": "compared in a test of servers.test.ts with the other commands on models",
  "webhook listen": "it runs until it is stopped",
};
