/** The limits of a key hold for all that comes by it: HTTP, sockets, tickets. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { bodyOf, upgrade } from "../../harness/rpc-raw.ts";
import { connectSocket, type Json, type RpcHost } from "../../harness/rpc.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { openSession } from "./scenario.ts";

const OTHER = "other-key-0123456789";

/** Turns that work until they are stopped. */
const working: Script = async ({ signal }) => {
  if (!signal.aborted) await once(signal, "abort");
  return { text: "stopped" };
};

function limited(limits: { maxConcurrentRuns?: number; rateLimitRpm?: number }) {
  return [
    { key: KEY, name: "limited", scopes: ["admin"], ...limits },
    { key: OTHER, name: "free", scopes: ["admin"] },
  ];
}

async function ticketOf(service: TestService): Promise<string> {
  const answer = await service.request("/api/auth/ws-ticket", { method: "POST" });
  assert.equal(answer.status, 201);
  return (await answer.json()).ticket;
}

/** Connections of the key, by every way there is to make one. */
async function hostsOf(service: TestService): Promise<readonly RpcHost[]> {
  return [
    await connectSocket(service, `/api/ws?token=${KEY}`),
    await connectSocket(service, `/api/ws?ticket=${await ticketOf(service)}`),
    await connectSocket(service, `/api/ws?ticket=${await ticketOf(service)}`),
  ];
}

async function atWork({ service }: TestService, owner = "limited"): Promise<number> {
  const rows = await service.store.read
    .selectFrom("runs")
    .select("id")
    .where("owner", "=", owner)
    .where("ended_at", "is", null)
    .execute();
  return rows.length;
}

function assertTooManyRuns(error: Json): void {
  assert.equal(error?.code, 4090, JSON.stringify(error));
  assert.deepEqual(error.data, {
    reason: "too_many_concurrent_runs",
    retryable: true,
    retry_after_seconds: 1,
  });
  assert.match(error.message, /"limited".*max_concurrent_runs/);
}

test("prompts over any socket of a key count for the key's limit of runs", async () => {
  await using service = await startTestService({ keys: limited({ maxConcurrentRuns: 2 }), script: working });
  const hosts = await hostsOf(service);
  const prompts = [...hosts, ...hosts].map(async (host) => {
    const session_id = await openSession(host);
    return host.call("prompt.submit", { session_id, text: "work" });
  });
  const answers = await Promise.all(prompts);
  const refused = answers.filter(({ error }) => error);
  assert.equal(refused.length, 4);
  for (const { error } of refused) assertTooManyRuns(error);
  assert.equal(await atWork(service), 2);
  const post = await service.request("/v1/runs", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input: "work" }),
  });
  assert.equal(post.status, 429, "runs of the sockets count over HTTP");
  await using free = await connectSocket(service, `/api/ws?token=${OTHER}`);
  const other = await free.result("prompt.submit", { session_id: await openSession(free), text: "work" });
  assert.equal(other.status, "streaming", "another key has its own limit");
});

test("a run started over HTTP counts for its key on every socket", async () => {
  await using service = await startTestService({ keys: limited({ maxConcurrentRuns: 1 }), script: working });
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ input: "work" });
  assert.equal((await service.request("/v1/runs", { method: "POST", headers, body })).status, 202);
  for (const host of await hostsOf(service)) {
    const session_id = await openSession(host, { messages: [{ role: "user", content: "earlier" }] });
    const starts: readonly (readonly [string, Json])[] = [
      ["prompt.submit", { session_id, text: "work" }],
      ["prompt.submit", { session_id, text: "work", when_busy: "interrupt" }],
      ["prompt.submit", { session_id, text: "work", when_busy: "steer" }],
      ["prompt.background", { session_id, text: "work" }],
      ["session.compress", { session_id }],
      ["command.dispatch", { session_id, command: "/background work" }],
      ["command.dispatch", { session_id, name: "compress" }],
      ["slash.exec", { session_id, command: "bg work" }],
      ["slash.exec", { session_id, command: "compress" }],
    ];
    for (const [method, params] of starts) assertTooManyRuns((await host.call(method, params)).error);
  }
  assert.equal(await atWork(service), 1);
});

test("queued prompts and steered texts do not count as further runs", async () => {
  await using service = await startTestService({ keys: limited({ maxConcurrentRuns: 2 }), script: working });
  await using host = await connectSocket(service, `/api/ws?token=${KEY}`);
  const session_id = await openSession(host);
  const submit = (text: string, more: Json = {}) =>
    host.result("prompt.submit", { session_id, text, ...more });
  assert.equal((await submit("one")).status, "streaming");
  assert.equal((await submit("two")).status, "queued");
  assert.equal((await submit("three", { when_busy: "steer" })).status, "steered");
  const other = await openSession(host);
  const { status } = await host.result("prompt.submit", { session_id: other, text: "four" });
  assert.equal(status, "streaming", "a queued prompt does not count");
});

test("the rate limit of a key counts HTTP requests, sockets and tickets together", async () => {
  const clock = new FakeClock();
  await using service = await startTestService({ keys: limited({ rateLimitRpm: 8 }), clock });
  // Two tickets and three connections: five requests.
  const [first, second, third] = await hostsOf(service);
  assert.ok(first && second && third);
  clock.tick(15_000);
  assert.deepEqual(await first.result("ping"), { pong: true });
  assert.deepEqual(await second.result("ping"), { pong: true });
  assert.equal((await service.request("/v1/models")).status, 200);
  for (const host of [first, second, third]) {
    const { error } = await host.call("ping");
    assert.equal(error?.code, -32001);
    assert.deepEqual(error.data, { reason: "rate_limit_exceeded", retryable: true, retry_after_seconds: 45 });
    assert.match(error.message, /"limited" may make 8 requests a minute \(rate_limit_rpm\)/);
  }
  const answer = await service.request("/v1/models");
  assert.deepEqual([answer.status, answer.headers.get("retry-after")], [429, "45"]);
  const refused = await upgrade(service, `/api/ws?token=${KEY}`);
  assert.deepEqual([refused.status, refused.headers.get("retry-after")], [429, "45"]);
  assert.equal(JSON.parse(await bodyOf(refused)).error.code, "rate_limit_exceeded");
  await using free = await connectSocket(service, `/api/ws?token=${OTHER}`);
  assert.deepEqual(await free.result("ping"), { pong: true });
  clock.tick(45_000);
  assert.deepEqual(await third.result("ping"), { pong: true });
});

test("each member of a batch, and each notification, counts as a request of its key", async () => {
  await using service = await startTestService({
    keys: limited({ rateLimitRpm: 4 }),
    clock: new FakeClock(),
  });
  await using host = await connectSocket(service, `/api/ws?token=${KEY}`);
  host.send({ jsonrpc: "2.0", method: "ping" });
  host.send(["a", "b", "c"].map((id) => ({ jsonrpc: "2.0", id, method: "ping" })));
  const answers: readonly Json[] = await host.frame((frame) => Array.isArray(frame));
  assert.deepEqual(
    answers.map(({ id, result, error }) => [id, result?.pong ?? error.data.reason]),
    [
      ["a", true],
      ["b", true],
      ["c", "rate_limit_exceeded"],
    ],
  );
});

test("a call that the rate limit refuses has no effect", async () => {
  await using service = await startTestService({
    keys: limited({ rateLimitRpm: 2 }),
    clock: new FakeClock(),
  });
  await using host = await connectSocket(service, `/api/ws?token=${KEY}`);
  const session_id = await openSession(host);
  const { error } = await host.call("prompt.submit", { session_id, text: "hi" });
  assert.equal(error.data.reason, "rate_limit_exceeded");
  assert.equal(await atWork(service), 0);
  const runs = await service.service.store.read.selectFrom("runs").select("id").execute();
  assert.deepEqual(runs, []);
});
