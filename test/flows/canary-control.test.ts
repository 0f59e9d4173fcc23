/** What the control API and the change feed say about a home with planted secrets. */
import assert from "node:assert/strict";
import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import openApi from "../../generated/specs/http.openapi.json" with { type: "json" };
import { defineTool } from "../../src/agent/tool/tool.ts";
import { createScriptedEngine } from "../../src/agent/engines/scripted.ts";
import { startFromHome } from "../../src/app/start.ts";
import { createLog } from "../../src/base/observe.ts";
import { systemClock } from "../../src/base/time.ts";
import {
  assertAbsent,
  everything,
  ordinary,
  plantHome,
  planted,
  plantedValues,
} from "../harness/canaries.ts";
import { KEY } from "../harness/service.ts";
import { createTestDatabase } from "../harness/store.ts";

/** What an operation requires. */
const QUERIES: Readonly<Record<string, string>> = { previewSchedule: "?schedule=every+1h" };
/** Streams that do not end, which are read by themselves, and answers about one thing of a kind that this home does not have. */
const LEFT_OUT = new Set([
  "streamEvents",
  "streamSessionEvents",
  "getResponse",
  "listResponseInputItems",
  "getMessage",
  "getDelivery",
  "getSkill",
  "getSessionAttachment",
]);

test("no answer of the control API and no change of the feed repeats a secret of the home", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "agentd-home-"));
  const database = await createTestDatabase();
  t.after(async () => {
    await database.drop();
    await rm(home, { recursive: true, force: true });
  });
  await plantHome(home, { api_server: { key: KEY } });
  const speak = defineTool<object>({
    name: "speak",
    toolset: "planning",
    description: "Says all it knows.",
    parameters: { type: "object" },
    inspect: () => ({ kind: "tool", effect: "none", title: `speak ${planted.dotEnvName}` }),
    run: async () => [...plantedValues, ...ordinary].join(" "),
  });
  const act = defineTool<object>({
    name: "act",
    toolset: "planning",
    description: "Needs approval.",
    parameters: { type: "object" },
    inspect: () => ({ kind: "tool", title: `act ${planted.dotEnvName} ${planted.addedLater}` }),
    run: async () => "done",
  });
  // A model knows only what people and tools say, so its own words hold no secret.
  const turn = [
    { text: "first", calls: [{ tool: "speak", input: {} }] },
    { text: ordinary.join(" "), calls: [{ tool: "act", input: {} }] },
  ];
  await appendFile(join(home, ".env"), `LATER_TOKEN=${planted.addedLater}\n`);
  const logLines: string[] = [];
  const started = await startFromHome({
    env: { AGENTD_DATABASE_URL: database.url, MINE_API_KEY: planted.process },
    home,
    port: 0,
    log: createLog("debug", (line) => void logLines.push(line)),
    tools: [speak, act],
    engine: createScriptedEngine(({ step }) => turn[step] ?? { text: "done" }, { clock: systemClock }),
  });
  await using stopping = new AsyncDisposableStack();
  stopping.defer(() => started.service.stop({ graceMs: 0 }));
  const { url, store } = started.service;
  const answers = new Map<string, string>();
  const call = async (method: string, path: string, body?: object, headers: Record<string, string> = {}) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json", ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    answers.set(`${method} ${path}`, text);
    assert.ok(response.status < 300, `${method} ${path}: ${response.status} ${text}`);
    const isJson = response.headers.get("content-type")?.includes("json") === true;
    return (isJson ? JSON.parse(text) : {}) as Record<string, string>;
  };

  const { run_id: run = "" } = await call("POST", "/v1/runs", {
    input: "go",
    session_id: "canary",
  });
  await call("GET", `/v1/runs/${run}?wait=30`);
  const { id: job = "" } = await call("POST", "/v1/jobs", {
    schedule: "every 1h",
    prompt: "go",
  });
  await call("POST", `/v1/jobs/${job}/run?wait=30`);
  await call("POST", "/v1/keys", { name: "second", scopes: ["chat"] });
  await call("POST", "/v1/webhooks/routes", { name: "pushes", prompt: "Look at {ref}." });

  const asked = await readAll(call);
  assert.deepEqual(asked.missing, [], "each operation that only reads was called");
  // In PostgreSQL an event can be read once all older transactions of the server have ended.
  while (!answers.get("GET /v1/events?limit=100")?.includes('"route.created"')) {
    await call("GET", "/v1/events?limit=100", undefined, { accept: "application/json" });
  }
  const session = `${url}/v1/sessions/canary/events?after=0`;
  answers.set("the events of the session", await readStream(session, "approval.request"));
  const isSource = (where: string) => where === join(home, ".env") || where === join(home, "config.yaml");
  assertAbsent(plantedValues, answers, () => false);
  const kept = await everything({ store, databaseUrl: database.url, folders: [home], logLines });
  assertAbsent(plantedValues, kept, isSource);
  const events = [...answers].find(([what]) => /\/v1\/runs\/.+\/events/.test(what))?.[1] ?? "";
  for (const value of ordinary) assert.ok(events.includes(value), `${value} was said`);
  assert.match(events, /\[redacted\]/);
});

type Call = (method: string, path: string) => Promise<Record<string, unknown>>;

/** Calls every operation that only reads, about the first thing of each list. Returns those that it could not call. */
async function readAll(call: Call): Promise<{ readonly missing: readonly string[] }> {
  const operations = Object.entries(openApi.paths).flatMap(([path, item]) => {
    const id = "get" in item ? item.get.operationId : undefined;
    return id === undefined || !path.startsWith("/v1/") || LEFT_OUT.has(id) ? [] : { path, id };
  });
  const firsts = new Map<string, string>();
  const missing: string[] = [];
  for (const { path, id } of operations.toSorted((a, b) => depth(a.path) - depth(b.path))) {
    const parent = path.replace(/\/\{[^}]+\}.*$/, "");
    const first = firsts.get(parent);
    if (path.includes("{") && first === undefined) {
      missing.push(id);
      continue;
    }
    const answer = await call(
      "GET",
      `${path.replace(/\{[^}]+\}/, encodeURIComponent(first ?? ""))}${QUERIES[id] ?? ""}`,
    );
    const rows = (Array.isArray(answer["data"]) ? answer["data"] : []) as Record<string, unknown>[];
    const [row] = rows;
    if (row && !path.includes("{")) firsts.set(path, String(row["id"] ?? row["run_id"] ?? row["name"]));
  }
  return { missing };
}

const depth = (path: string): number => path.split("{").length;

/** Reads a stream until it reports an event of `type`. */
async function readStream(url: string, type: string): Promise<string> {
  const abort = new AbortController();
  const response = await fetch(url, {
    headers: { authorization: `Bearer ${KEY}` },
    signal: abort.signal,
  });
  const decoder = new TextDecoder();
  let said = "";
  for await (const piece of response.body ?? []) {
    said += decoder.decode(piece, { stream: true });
    if (said.includes(type)) break;
  }
  abort.abort();
  return said;
}
