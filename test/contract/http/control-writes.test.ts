/** What every write of the control API does: a dry run changes nothing, and a real one leaves its author in the feed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FeedEvent, ResponseObject } from "../../../generated/http/client/types.gen.ts";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import { schemas } from "../../../generated/http/schemas.gen.ts";
import { operations, type OperationId } from "../../../generated/http/server.gen.ts";
import { everything } from "../../harness/canaries.ts";
import { askQuestion, storedEvents } from "../../harness/control.ts";
import { fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError } from "../../harness/scenario.ts";
import { startTestService, type TestService, type TestServiceOptions } from "../../harness/service.ts";
import { sendWrite, startForWrites, writes, writeOptions, writeScript } from "../../harness/writes.ts";

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

/** Rows and files. The pages of the database file are its own affair, and the file of a lock has nothing in it. */
async function keptBy(service: TestService): Promise<ReadonlyMap<string, string>> {
  const { store } = service.service;
  const databaseUrl = service.database.url;
  const kept = await everything({ store, databaseUrl, folders: [service.home], logLines: [] });
  return new Map([...kept].filter(([where]) => !where.startsWith(databaseUrl) && !where.endsWith("/.lock")));
}

const feed = (service: TestService) =>
  storedEvents<FeedEvent>(service, "?limit=100", { "x-agent-owner": "*" });

test("a dry run of any operation that has one changes no row, no message, no event and no file", async () => {
  await using service = await startForWrites();
  const dry = all.filter(([, meta]) => meta.query?.coerce["dry_run"] !== undefined);
  assert.ok(dry.length >= 17, `${dry.length} operations`);
  for (const [id] of dry) {
    const write = await (writes[id] ?? assert.fail(`add a request for ${id}`))(service);
    const before = await keptBy(service);
    const response = await sendWrite(service, id, write, "?dry_run=true");
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
  await using service = await startForWrites();
  const optional = all.filter(([, { body }]) => body && !body.raw && !body.required);
  assert.ok(optional.length >= 20, `${optional.length} operations`);
  for (const [id] of optional.toSorted((a, b) => isDrain(a) - isDrain(b))) {
    if (id === "testPlatform") {
      const response = await sendWrite(service, id, { path: "/v1/platforms/telegram/test" });
      await assertError(response, 409, "platform_not_ready");
      continue;
    }
    const make = id === "createBackup" ? () => ({ path: "/v1/backup" }) : writes[id];
    const { path } = await (make ?? assert.fail(`add a request for ${id}`))(service);
    const response = await sendWrite(service, id, { path });
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
  await using service = await startForWrites();
  const changing = all.filter(
    ([id, { method, strict }]) => strict === true && method !== "GET" && !NOT_KEPT.has(id),
  );
  const unnamed: string[] = [];
  for (const [id] of changing.toSorted((a, b) => isDrain(a) - isDrain(b))) {
    const write = await (writes[id] ?? assert.fail(`add a request for ${id}`))(service);
    const before = (await feed(service)).length;
    const response = await sendWrite(service, id, write);
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
  ...writeOptions,
  script: (state) => (state.user === "go on" ? { text: untilOpen() } : writeScript(state)),
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
