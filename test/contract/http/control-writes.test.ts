/** What every write of the control API does: a dry run changes nothing, and a real one leaves its author in the feed. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { FeedEvent, Grant, ResponseObject } from "../../../generated/http/client/types.gen.ts";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import { schemas } from "../../../generated/http/schemas.gen.ts";
import { operations, type OperationId } from "../../../generated/http/server.gen.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { testTool } from "../../harness/agent.ts";
import { everything } from "../../harness/canaries.ts";
import { askQuestion, createJob, list, storedEvents } from "../../harness/control.ts";
import { createKey } from "../../harness/keys.ts";
import { addMessage } from "../../harness/outbox.ts";
import { fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService, type TestServiceOptions } from "../../harness/service.ts";
import { WebhookService, withReceiver } from "../../harness/webhook.ts";
import { createRoute } from "../../harness/webhook-routes.ts";

/** A request that changes something. */
interface Write {
  readonly path: string;
  readonly body?: object | Uint8Array<ArrayBuffer>;
}

/** Asks for approval of a command when the prompt of a run says hi, which is what askQuestion sends. */
const script: Script = ({ step, toolResults, user }) =>
  step === 0 && user === "hi"
    ? { calls: [{ tool: "terminal", input: { command: "make all" } }] }
    : { text: toolResults.map(({ text }) => text).join() || "hello" };

const options: TestServiceOptions = {
  ...withReceiver({ routes: { hook: { owner: "default" } }, config: { cron: { enabled: false } } }),
  keys: [{ key: KEY, name: "ops", owner: "default", scopes: ["admin"] }],
  tools: [testTool(async ({ command }) => `ran ${command}`)],
  script,
};

let count = 0;
const fresh = (word: string) => `${word}-${++count}`;

async function aSession(service: TestService): Promise<string> {
  const id = fresh("s");
  for (let turn = 0; turn < 12; turn++) {
    const body = { messages: [{ role: "user", content: `turn ${turn}` }] };
    await (await service.chat(body, { headers: { "x-agent-session-id": id } })).text();
  }
  const titleOf = async () => (await (await service.request(`/v1/sessions/${id}`)).json()).title as unknown;
  while ((await titleOf()) === null);
  return id;
}

async function aDelivery(service: TestService): Promise<string> {
  const receiver = new WebhookService(service);
  const known = (await receiver.deliveries()).length;
  await receiver.post("hook", {}, { headers: { "x-github-event": "push", "x-request-id": fresh("r") } });
  const rows = await receiver.recorded(
    (all) => all.length > known && all.every((row) => row.ended_at !== null),
  );
  return rows.at(-1)?.id ?? assert.fail();
}

async function aGrant(service: TestService): Promise<string> {
  const { id, run_id: run } = await askQuestion(service);
  await post(service, `/v1/questions/${id}/answer`, { choice: "always" });
  await (await service.request(`/v1/runs/${run}?wait=30`)).text();
  return (await list<Grant>(service, "/v1/grants"))[0]?.id ?? assert.fail();
}

const messageTo = async (service: TestService, verb: string): Promise<Write> => ({
  path: `/v1/outbox/${await addMessage(service, { status: "dead" })}/${verb}`,
  body: {},
});
const messagesTo = async (service: TestService, verb: string): Promise<Write> => ({
  path: `/v1/outbox/${verb}`,
  body: { ids: [await addMessage(service, { status: "dead" })] },
});
const jobTo = async (service: TestService, verb: string): Promise<Write> => ({
  path: `/v1/jobs/${(await createJob(service, { name: fresh("job") })).id}${verb}`,
});
const keyTo = async (service: TestService, verb = ""): Promise<Write> => ({
  path: `/v1/keys/${(await createKey(service, { name: fresh("key") })).id}${verb}`,
});
const routeTo = async (service: TestService, verb = ""): Promise<Write> => ({
  path: `/v1/webhooks/routes/${(await createRoute(service, { name: fresh("route") })).name}${verb}`,
});

/** Makes what an operation works on, and returns a request that it accepts. */
const writes: Partial<Record<OperationId, (service: TestService) => Promise<Write>>> = {
  createSession: async () => ({ path: "/v1/sessions", body: { id: fresh("s") } }),
  updateSession: async (service) => ({
    path: `/v1/sessions/${await aSession(service)}`,
    body: { title: fresh("t") },
  }),
  deleteSession: async (service) => ({ path: `/v1/sessions/${await aSession(service)}` }),
  forkSession: async (service) => ({ path: `/v1/sessions/${await aSession(service)}/fork`, body: {} }),
  compressSession: async (service) => ({
    path: `/v1/sessions/${await aSession(service)}/compress`,
    body: {},
  }),
  undoSession: async (service) => ({ path: `/v1/sessions/${await aSession(service)}/undo`, body: {} }),
  answerQuestion: async (service) => ({
    path: `/v1/questions/${(await askQuestion(service)).id}/answer`,
    body: { choice: "deny" },
  }),
  deleteGrant: async (service) => ({ path: `/v1/grants/${await aGrant(service)}` }),
  createRoute: async () => ({ path: "/v1/webhooks/routes", body: { name: fresh("route") } }),
  updateRoute: async (service) => ({ ...(await routeTo(service)), body: { description: "mine" } }),
  deleteRoute: async (service) => routeTo(service),
  rotateRouteSecret: async (service) => ({ ...(await routeTo(service, "/rotate-secret")), body: {} }),
  replayDelivery: async (service) => ({
    path: `/v1/webhooks/deliveries/${await aDelivery(service)}/replay`,
    body: {},
  }),
  replayDeliveries: async (service) => {
    await aDelivery(service);
    return {
      path: "/v1/webhooks/deliveries/replay",
      body: { route: "hook", from: 0, status: ["completed"], limit: 1 },
    };
  },
  createJob: async () => ({ path: "/v1/jobs", body: { schedule: "every 1h", prompt: "make tea" } }),
  importJobs: async () => ({
    path: "/v1/jobs/import",
    body: { jobs: [{ id: "0123456789ab", schedule: "every 1h", prompt: "make tea" }] },
  }),
  updateJob: async (service) => ({ ...(await jobTo(service, "")), body: { prompt: "make coffee" } }),
  deleteJob: async (service) => jobTo(service, ""),
  pauseJob: async (service) => ({ ...(await jobTo(service, "/pause")), body: {} }),
  resumeJob: async (service) => {
    const { id } = await createJob(service, { name: fresh("job"), paused: true });
    return { path: `/v1/jobs/${id}/resume`, body: {} };
  },
  runJob: async (service) => jobTo(service, "/run"),
  sendMessage: async () => ({ path: "/v1/outbox", body: { target: "local", text: "words" } }),
  retryMessage: async (service) => messageTo(service, "retry"),
  dropMessage: async (service) => messageTo(service, "drop"),
  retryMessages: async (service) => messagesTo(service, "retry"),
  dropMessages: async (service) => messagesTo(service, "drop"),
  updateConfig: async () => ({ path: "/v1/config", body: { agent: { max_steps: 10 + ++count } } }),
  createKey: async () => ({ path: "/v1/keys", body: { name: fresh("key"), scopes: ["read"] } }),
  updateKey: async (service) => ({ ...(await keyTo(service)), body: { rate_limit_rpm: 5 } }),
  rotateKey: async (service) => ({ ...(await keyTo(service, "/rotate")), body: {} }),
  deleteKey: async (service) => keyTo(service),
  putVariable: async () => ({ path: `/v1/variables/${fresh("V").replace("-", "_")}`, body: { value: "x" } }),
  deleteVariable: async (service) => {
    const path = `/v1/variables/${fresh("V").replace("-", "_")}`;
    await request(service, "putVariable", { path, body: { value: "x" } });
    return { path };
  },
  reloadService: async (service) => {
    const file = join(service.home, "agentd", "config.yaml");
    await writeFile(file, `log: { level: ${++count % 2 ? "error" : "warn"} }\n`);
    return { path: "/v1/service/reload", body: {} };
  },
  importBackup: async (service) => {
    const archive = await post(service, "/v1/backup", {});
    return { path: "/v1/backup/import", body: new Uint8Array(await archive.arrayBuffer()) };
  },
  stopRun: async (service) => {
    const { run_id: run } = await (await post(service, "/v1/runs", { input: "hello" })).json();
    return { path: `/v1/runs/${run}/stop` };
  },
  testRoute: async (service) => routeTo(service, "/test"),
  testModel: async () => ({ path: "/v1/providers/test" }),
  detectProviders: async () => ({ path: "/v1/providers/detect" }),
  reloadMcp: async () => ({ path: "/v1/mcp/reload" }),
  createBackup: async () => ({ path: "/v1/backup" }),
  createConsoleCode: async () => ({ path: "/api/console/codes" }),
  drainService: async () => ({ path: "/v1/service/drain", body: { grace_seconds: 0 } }),
};

/**
 * They change nothing that the service keeps: a trial, a message outside the outbox, a look, a download; or sign in. The
 * servers of MCP say how they stand when they change, and a backup that is staged brings a feed of its own.
 */
const NOT_KEPT: ReadonlySet<string> = new Set([
  "reloadMcp",
  "importBackup",
  "testRoute",
  "testPlatform",
  "testModel",
  "detectProviders",
  "createBackup",
  "createConsoleCode",
  "deleteConsoleSession",
  "deleteConsoleSessions",
]);

const all = Object.entries(operations) as [OperationId, OperationMeta][];

/** It ends the service: it comes last. */
const isDrain = ([id]: (typeof all)[number]) => Number(id === "drainService");

async function request(
  service: TestService,
  id: OperationId,
  { path, body }: Write,
  query = "",
): Promise<Response> {
  const isArchive = body instanceof Uint8Array;
  const headers: Record<string, string> = {
    ...(id === "updateConfig" ? { "if-match": "*" } : {}),
    ...(body ? { "content-type": isArchive ? "application/gzip" : "application/json" } : {}),
  };
  return service.request(path + query, {
    method: operations[id].method,
    headers,
    ...(body ? { body: isArchive ? body : JSON.stringify(body) } : {}),
  });
}

/** Rows and files. The pages of the database file are its own affair, and the file of a lock has nothing in it. */
async function keptBy(service: TestService): Promise<ReadonlyMap<string, string>> {
  const { store } = service.service;
  const databaseUrl = service.database.url;
  const kept = await everything({ store, databaseUrl, folders: [service.home], logLines: [] });
  return new Map([...kept].filter(([where]) => !where.startsWith(databaseUrl) && !where.endsWith("/.lock")));
}

const feed = (service: TestService) =>
  storedEvents<FeedEvent>(service, "?limit=100", { "x-agent-owner": "*" });

async function start(): Promise<TestService> {
  const service = await startTestService(options);
  await mkdir(join(service.home, "agentd"), { recursive: true });
  return service;
}

test("a dry run of any operation that has one changes no row, no message, no event and no file", async () => {
  await using service = await start();
  const dry = all.filter(([, meta]) => meta.query?.coerce["dry_run"] !== undefined);
  assert.ok(dry.length >= 17, `${dry.length} operations`);
  for (const [id] of dry) {
    const write = await (writes[id] ?? assert.fail(`add a request for ${id}`))(service);
    const before = await keptBy(service);
    const response = await request(service, id, write, "?dry_run=true");
    const text = await response.text();
    assert.ok(response.ok, `${id}: ${response.status} ${text}`);
    assert.equal(response.headers.get("x-agent-dry-run"), "true", id);
    const after = await keptBy(service);
    const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
      (where) => before.get(where) !== after.get(where),
    );
    assert.deepEqual(changed, [], id);
  }
});

test("an operation whose body is optional takes a request without one for {}", async () => {
  await using service = await start();
  const optional = all.filter(([, { body }]) => body && !body.raw && !body.required);
  assert.ok(optional.length >= 20, `${optional.length} operations`);
  for (const [id] of optional.toSorted((a, b) => isDrain(a) - isDrain(b))) {
    if (id === "testPlatform") {
      const response = await request(service, id, { path: "/v1/platforms/telegram/test" });
      await assertError(response, 409, "platform_not_ready");
      continue;
    }
    const { path } = await (writes[id] ?? assert.fail(`add a request for ${id}`))(service);
    const response = await request(service, id, { path });
    const text = await response.text();
    assert.ok(response.ok, `${id}: ${response.status} ${text}`);
  }
});

/** Any of their fields may be absent, but not all: a request without one would say nothing. */
const NEED_A_FIELD: readonly string[] = [
  "answerQuestion",
  "createConsoleSession",
  "createResponse",
  "dropMessages",
  "retryMessages",
  "steerRun",
];

test("a POST requires a body only where a field is required, or one of several", () => {
  const isFree = ({ body }: OperationMeta) => {
    if (!body || body.raw || !body.required) return false;
    const name = /^#\/components\/schemas\/(\w+)$/.exec(String(body.schema["$ref"]))?.[1] ?? "";
    return (schemas[name] ?? assert.fail(name))["required"] === undefined;
  };
  const free = all.filter(([, meta]) => meta.method === "POST" && isFree(meta)).map(([id]) => id);
  assert.deepEqual(free.toSorted(), NEED_A_FIELD);
});

test("each write of the control API leaves an event in the feed that names the key", async () => {
  await using service = await start();
  const changing = all.filter(
    ([id, { method, strict }]) => strict === true && method !== "GET" && !NOT_KEPT.has(id),
  );
  const unnamed: string[] = [];
  for (const [id] of changing.toSorted((a, b) => isDrain(a) - isDrain(b))) {
    const write = await (writes[id] ?? assert.fail(`add a request for ${id}`))(service);
    const before = (await feed(service)).length;
    const response = await request(service, id, write);
    assert.ok(response.ok, `${id}: ${response.status} ${await response.text()}`);
    const added = (await feed(service)).slice(before);
    const said = added.map(({ type, actor }) => `${type} by ${actor}`);
    if (!said.some((each) => /by (?:http:)?ops$/.test(each))) unnamed.push(`${id}: ${said.join()}`);
  }
  assert.deepEqual(unnamed, []);
});

/** Starts a run that goes on when it is asked to stop, until the gate opens: the stop is recorded before it ends. */
async function stubbornRun(service: TestService): Promise<string> {
  const response = await post(service, "/v1/responses", { input: "go on", background: true });
  const { agent } = (await response.json()) as ResponseObject;
  const run = agent?.run_id ?? assert.fail();
  await runEvent(service, run, "message.delta");
  return run;
}

const responseOf = (run: string) => `/v1/responses/resp_${run.slice("run_".length)}`;

/** Sends a request that stops a run, and lets the run end once the stop is recorded: some requests wait for its end. */
async function stopBy(service: TestService, run: string, send: () => Promise<Response>): Promise<void> {
  const sent = send();
  await runEvent(service, run, "run.stopping");
  gate.open();
  const response = await sent;
  assert.ok(response.ok, await response.text());
  await (await service.request(`/v1/runs/${run}?wait=30`)).text();
}

/** Calls each operation that accepts unknown parameters, as those for runs and responses do. Resolves to the event that names the key. */
const others: Readonly<Record<string, (service: TestService) => Promise<string>>> = {
  createRun: async (service) => {
    await startRun(service);
    return "run.created running ops";
  },
  createResponse: async (service) => {
    await (await post(service, "/v1/responses", { input: "hello" })).text();
    return "run.created running ops";
  },
  createChatCompletion: async (service) => {
    await (await service.chat({ messages: [{ role: "user", content: "hello" }] })).text();
    return "run.created running ops";
  },
  resolveRunApproval: async (service) => {
    const { run_id: run } = await askQuestion(service);
    await post(service, `/v1/runs/${run}/approval`, { choice: "deny" });
    return "question.updated answered http:ops";
  },
  stopRun: async (service) => {
    const run = await stubbornRun(service);
    await stopBy(service, run, () => post(service, `/v1/runs/${run}/stop`, { reason: "enough" }));
    return "run.updated stopping ops";
  },
  cancelResponse: async (service) => {
    const run = await stubbornRun(service);
    await stopBy(service, run, () => post(service, `${responseOf(run)}/cancel`, undefined));
    return "run.updated stopping ops";
  },
  deleteResponse: async (service) => {
    const run = await stubbornRun(service);
    await stopBy(service, run, () => service.request(responseOf(run), { method: "DELETE" }));
    return "run.updated stopping ops";
  },
};

/**
 * They change no state, which is what the feed tells of: text for a running model is an event of the run, and a sign-in or a
 * ticket is for the one who asks.
 */
const NO_STATE: readonly string[] = ["steerRun", "createConsoleSession", "createSocketTicket"];

let gate = createGate();
const answering: TestServiceOptions = {
  ...options,
  script: (state) => (state.user === "go on" ? { text: untilOpen() } : script(state)),
};
async function* untilOpen() {
  yield "before ";
  await gate.opened;
  yield "after";
}
function createGate() {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  return { opened, open };
}

test("each write of the APIs for runs and responses leaves an event in the feed that names the key", async () => {
  const changing = all.filter(([, { method, strict }]) => strict !== true && method !== "GET");
  assert.deepEqual(changing.map(([id]) => id).toSorted(), [...Object.keys(others), ...NO_STATE].toSorted());
  for (const [id, act] of Object.entries(others)) {
    gate = createGate();
    await using service = await startTestService(answering);
    const expected = await act(service);
    const said = (await feed(service)).map(({ type, data, actor }) => `${type} ${data["status"]} ${actor}`);
    assert.ok(said.includes(expected), `${id}: ${said.join()}`);
  }
});

test("the stop of a run whose session is deleted names the key too", async () => {
  gate = createGate();
  await using service = await startTestService(answering);
  const run = await stubbornRun(service);
  const { session_id: session } = await fetchRun(service, run);
  await stopBy(service, run, () =>
    service.request(`/v1/sessions/${session}?force=true`, { method: "DELETE" }),
  );
  const said = (await feed(service)).map(({ type, data, actor }) => `${type} ${data["status"]} ${actor}`);
  assert.ok(said.includes("run.updated stopping ops"), said.join());
});
