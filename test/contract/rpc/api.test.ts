import assert from "node:assert/strict";
import { test } from "node:test";
import { connectSocket, type Json } from "../../harness/rpc.ts";
import { startTestService } from "../../harness/service.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { openSession, rpcScenario, takeTurn } from "./scenario.ts";

test("on a server without keys no key can be made over a connection either", async () => {
  await using service = await startTestService({ requireKey: false });
  await using host = await connectSocket(service, "/api/ws");
  const body = { name: "a", scopes: ["admin"] };
  const { status, body: answer } = await host.result("api.call", { operation: "createKey", body });
  assert.deepEqual([status, (answer as Json).error.code], [403, "auth_required"]);
});

rpcScenario(
  "api.call",
  "parameters, headers and the body reach the operation, and the answer comes whole",
  async (host) => {
    const job = { schedule: "every 1h", prompt: "Look", name: "look" };
    const created = await host.result("api.call", {
      operation: "createJob",
      body: job,
      query: { dry_run: true },
    });
    assert.equal(created.status, 201, JSON.stringify(created.body));
    assert.equal(created.headers["x-agent-dry-run"], "true");
    const made = await host.result("api.call", {
      operation: "createJob",
      body: job,
      headers: { "Idempotency-Key": "k1" },
    });
    const again = await host.result("api.call", {
      operation: "createJob",
      body: job,
      headers: { "Idempotency-Key": "k1" },
    });
    assert.equal(again.headers["idempotency-replayed"], "true");
    const { id } = made.body as Json;
    const read = await host.result("api.call", { operation: "getJob", path: { job_id: id } });
    assert.equal((read.body as Json).name, "look");
    const current = {
      operation: "getJob",
      path: { job_id: id },
      headers: { "if-none-match": read.headers.etag },
    };
    assert.deepEqual(await host.result("api.call", current).then(({ status, body }) => ({ status, body })), {
      status: 304,
      body: null,
    });
    const listed = await host.result("api.call", {
      operation: "listJobs",
      query: { state: ["scheduled", "paused"] },
    });
    assert.deepEqual(
      (listed.body as Json).data.map((each: Json) => each.id),
      [id],
    );
  },
);

rpcScenario("error -32602", "what cannot be called is refused with the parameter at fault", async (host) => {
  const refused = async (params: Json, param: string) => {
    const { data } = await host.error("api.call", params, -32602);
    assert.equal(data.param, param, JSON.stringify(data));
  };
  await refused({ operation: "noSuchOperation" }, "operation");
  await refused({ operation: "constructor" }, "operation");
  await refused({ operation: "streamRunEvents", path: { run_id: "run_1" } }, "operation");
  await refused({ operation: "createChatCompletion", body: { stream: true, messages: [] } }, "operation");
  await refused({ operation: "getJob" }, "path.job_id");
  await refused({ operation: "getJob", path: { job_id: {} } }, "path.job_id");
  await refused({ operation: "listJobs", headers: { authorization: "Bearer x" } }, "headers.authorization");
});

rpcScenario(
  "api.call",
  "an operation requires its own scope, and reaches the owner's data alone",
  async (host, { connect }) => {
    const session_id = await openSession(host);
    await takeTurn(host, session_id, "hi");
    const listSessions = async (as: typeof host) =>
      (await as.result("api.call", { operation: "listSessions" })).body.data.length;
    assert.equal(await listSessions(host), 1);
    const stranger = await connect({ owner: "somebody-else", scopes: ["read"] });
    assert.equal(await listSessions(stranger), 0);
    const { status, body } = await stranger.result("api.call", { operation: "createJob", body: {} });
    assert.deepEqual([status, (body as Json).error.code], [403, "insufficient_scope"]);
  },
);

rpcScenario(
  ["events.subscribe", "event feed.event"],
  "changes follow the answer, as GET /v1/events lists them",
  async (host) => {
    const { cursor } = await host.result("events.subscribe", { types: ["run.*", "session.created"] });
    const answered = host.frames.length;
    const session_id = await openSession(host);
    await takeTurn(host, session_id, "hi");
    await host.event("feed.event", ({ payload }) => payload.data.status === "completed", answered);
    const sent = host.events().filter(({ type }) => type === "feed.event");
    const query = { after: cursor, types: ["run.*", "session.created"], limit: 100 };
    // In PostgreSQL an event can be read once all older transactions of the server have ended.
    let listed: Json[] = [];
    while (listed.length < sent.length) {
      const { body } = await host.result("api.call", { operation: "streamEvents", query });
      listed = (body as Json).data;
    }
    assert.deepEqual(
      sent.map(({ payload }) => payload),
      listed.slice(0, sent.length),
    );
    assert.ok(sent.length >= 3, JSON.stringify(sent));
  },
);

rpcScenario(
  ["events.unsubscribe", "event feed.closed"],
  "the subscription ends with the position to continue from",
  async (host) => {
    assert.deepEqual(await host.result("events.unsubscribe"), { unsubscribed: false });
    const { cursor } = await host.result("events.subscribe", {});
    assert.deepEqual(await host.result("events.unsubscribe"), { unsubscribed: true });
    const { payload } = await host.event("feed.closed");
    assert.deepEqual(payload, { reason: "unsubscribed", cursor });
    await openSession(host);
    assert.deepEqual(
      host.events().filter(({ type }) => type === "feed.event"),
      [],
    );
  },
);

rpcScenario("events.subscribe", "a later subscription of a connection replaces the first", async (host) => {
  const { cursor } = await host.result("events.subscribe", {});
  const from = host.frames.length;
  await host.result("events.subscribe", { after: cursor });
  const closed = host.events().find(({ type }) => type === "feed.closed");
  assert.equal(closed.payload.reason, "replaced");
  const session_id = await openSession(host);
  await takeTurn(host, session_id, "hi");
  await host.event("feed.event", ({ payload }) => payload.data.status === "completed", from);
  const ids = host.events().flatMap(({ type, payload }) => (type === "feed.event" ? [payload.id] : []));
  assert.equal(new Set(ids).size, ids.length, "no event comes twice");
});

rpcScenario(
  "events.subscribe",
  "a connection without the scope admin gets no changes of keys",
  async (host, { connect, owner }) => {
    const reader = await connect({ scopes: ["read"] });
    await reader.result("events.subscribe", {});
    await host.result("events.subscribe", { types: ["key.*", "session.created"] });
    const body = { name: `made-by-${owner}`, owner, scopes: ["read"] };
    const { status } = await host.result("api.call", { operation: "createKey", body });
    const session_id = await openSession(host);
    await takeTurn(host, session_id, "hi");
    const isSession = ({ payload }: Json) => payload.type === "session.created";
    for (const each of [host, reader]) await each.event("feed.event", isSession);
    const kinds = (of: typeof host) => of.events().flatMap(({ payload }) => payload.type ?? []);
    assert.equal(kinds(host).includes("key.created"), status === 201);
    assert.ok(!kinds(reader).includes("key.created"));
  },
);

rpcScenario("events.subscribe 4007", "a cursor of another database is refused", async (host) => {
  const { data } = await host.error("events.subscribe", { after: "0badc0de-0-1" }, 4007);
  assert.equal(data.reason, "events_expired");
});

rpcScenario("events.subscribe 4090", "the ninth stream of a key is refused", async (host, { connect }) => {
  for (let count = 0; count < 8; count++) await (await connect()).result("events.subscribe", {});
  const { data } = await host.error("events.subscribe", {}, 4090);
  assert.equal(data.reason, "too_many_subscribers");
});

const clock = new WatchedClock();
rpcScenario(
  "event feed.bookmark",
  { title: "a subscription to other types gets its position once a minute", clock },
  async (host) => {
    await host.result("events.subscribe", { types: ["message.created"] });
    await openSession(host);
    const { payload } = await clock.tickUntil(host.event("feed.bookmark"), 60_000);
    const { body } = await host.result("api.call", {
      operation: "streamEvents",
      query: { after: payload.cursor },
    });
    assert.deepEqual((body as Json).data, []);
  },
);
