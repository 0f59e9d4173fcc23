import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { DetailedHealth } from "../../../generated/http/client/types.gen.ts";
import type { McpStatus } from "../../../src/agent/mcp/connection.ts";
import { createModelCatalog, type ModelProvider } from "../../../src/agent/model.ts";
import { newRun } from "../../../src/agent/run/run.ts";
import { newSession } from "../../../src/agent/session/session.ts";
import { createId } from "../../../src/base/text.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { silentLog } from "../../../src/base/observe.ts";
import { getDetailedHealth } from "../../../src/http/meta/health.ts";
import type { CronStats, HttpDeps, ServiceStats } from "../../../src/http/deps.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { deliveryRow } from "../store/rows.ts";

interface Changes {
  readonly serviceStats?: Partial<ServiceStats>;
  readonly providers?: readonly ModelProvider[];
  readonly draining?: boolean;
  readonly requireKey?: boolean;
  readonly store?: Partial<Store>;
}

/** The dependencies that the report reads. */
async function createRoom(t: TestContext, changes: Changes = {}) {
  const clock = new FakeClock();
  const { store } = await openTestStore(t);
  const serviceStats: ServiceStats = {
    pid: 42,
    startedAtMs: clock.now(),
    configProblems: [],
    liveSessions: () => 3,
    isRecovering: () => false,
    mcp: () => [],
    freeBytes: () => Promise.resolve(10e9),
    ...changes.serviceStats,
  };
  const deps: Partial<HttpDeps> = {
    store: { ...store, read: store.read, dialect: store.dialect, ...changes.store },
    clock,
    log: silentLog,
    serviceStats,
    version: "1.2.3",
    models: createModelCatalog({ providers: changes.providers ?? [] }),
    keys: { required: changes.requireKey !== false, find: () => undefined },
    runs: { draining: changes.draining === true, waiting: 4 } as HttpDeps["runs"],
    settings: { maxConcurrentRuns: 10 } as HttpDeps["settings"],
  };
  const ask = async (strict?: boolean) => {
    const query = strict === undefined ? {} : { strict };
    const { status, body } = await getDetailedHealth({ query } as never, deps as HttpDeps);
    return { status, body: body as DetailedHealth };
  };
  return { ask, clock, store };
}

test("a healthy server reports ok, its age and its version", async (t) => {
  const { ask, clock } = await createRoom(t);
  clock.tick(61_500);
  const { status, body } = await ask();
  assert.equal(status, 200);
  assert.deepEqual(
    [body.status, body.readiness.status, body.version, body.pid, body.uptime_seconds, body.draining],
    ["ok", "ok", "1.2.3", 42, 61, false],
  );
  assert.equal(body.started_at, "2026-01-01T00:00:00.000Z");
  assert.deepEqual(Object.keys(body.readiness.checks), [
    "state_store",
    "config",
    "model",
    "disk",
    "api_server",
    "webhook",
  ]);
  assert.deepEqual(body.readiness.checks.webhook, { status: "ok", waiting: 0, given_up: 0 });
});

test("the outbox is counted by platform and status, with the age of the oldest due message", async (t) => {
  const { ask, clock, store } = await createRoom(t);
  assert.deepEqual((await ask()).body.outbox, {
    due: 0,
    sending: 0,
    dead: 0,
    unknown: 0,
    oldest_due_seconds: null,
    platforms: {},
  });
  const enqueue = (target: string) =>
    store.write((tx) =>
      store.outbox.enqueue(tx, { owner: "default", target, payload: {}, orderingKey: null }),
    );
  const [, dead, unknown, dropped] = [
    await enqueue("telegram:-1"),
    await enqueue("telegram:-1"),
    await enqueue("sms:+15550100"),
    await enqueue("slack:C1"),
  ];
  for (const [id, status] of [
    [dead, "dead"],
    [unknown, "unknown"],
    [dropped, "dropped"],
  ] as const) {
    await store.write((tx) => tx.update("outbox", { id }, { status }));
  }
  const [{ created_at: owedAtMs = 0 } = {}] = await store.read
    .selectFrom("outbox")
    .select("created_at")
    .limit(1)
    .execute();
  clock.tick(Math.max(0, owedAtMs + 61_000 - clock.now()));
  const { outbox } = (await ask()).body;
  assert.ok((outbox?.oldest_due_seconds ?? 0) >= 61);
  const none = { due: 0, sending: 0, dead: 0, unknown: 0 };
  assert.deepEqual(
    { ...outbox, oldest_due_seconds: 0 },
    {
      ...none,
      due: 1,
      dead: 1,
      unknown: 1,
      oldest_due_seconds: 0,
      platforms: { sms: { ...none, unknown: 1 }, telegram: { ...none, due: 1, dead: 1 } },
    },
  );
});

test("runs are counted by status without ended ones and sub-agents; transient sessions are not counted", async (t) => {
  const { ask, store } = await createRoom(t);
  const kept = newSession({ owner: "a" }, { source: "http" }, 1);
  const passing = { ...newSession({ owner: "b" }, { source: "http" }, 1), transient: 1 };
  const input = { prompt: [], settings: {}, answerable: false };
  const made = (id: string, status: string, more: object = {}) => ({
    ...newRun(id, kept, { kind: "run", model: "demo:demo", input, metadata: {}, nowMs: 1 }),
    status,
    ...more,
  });
  await store.write(async (tx) => {
    await tx.insert("sessions", [{ ...kept, transient: 0 }, passing]);
    await tx.insert("runs", [
      made("r1", "queued"),
      made("r2", "running"),
      made("r3", "running"),
      made("r4", "waiting_for_approval"),
      made("r5", "stopping"),
      made("r6", "completed", { ended_at: 5 }),
      made("r7", "running", { kind: "subagent" }),
    ]);
  });
  const { body } = await ask();
  const expected = { queued: 1, running: 2, waiting_for_approval: 1, stopping: 1, limit: 10 };
  assert.deepEqual(body.runs, expected);
  assert.deepEqual(body.sessions, { live: 3, stored: 1 });
});

test("an almost full disk is degraded, and answers 503 only with strict", async (t) => {
  const { ask } = await createRoom(t, { serviceStats: { freeBytes: () => Promise.resolve(99_999_999) } });
  const { status, body } = await ask();
  assert.deepEqual([status, body.status, body.readiness.checks.disk?.status], [200, "degraded", "degraded"]);
  assert.equal((await ask(false)).status, 200);
  assert.equal((await ask(true)).status, 503);
});

test("an unknown disk is left out", async (t) => {
  const { ask } = await createRoom(t, { serviceStats: { freeBytes: () => Promise.resolve(undefined) } });
  const { status, body } = await ask(true);
  assert.equal(status, 200);
  assert.ok(!("disk" in body.readiness.checks));
});

test("configuration problems are reported, and the server stays ready", async (t) => {
  const configProblems = ["a x", "b x", "c x", "d x", "e x", "f x"];
  const { ask } = await createRoom(t, { serviceStats: { configProblems } });
  const { status, body } = await ask(true);
  assert.equal(status, 200);
  assert.deepEqual(body.readiness.checks.config, {
    status: "ok",
    warnings: 6,
    detail: "a x, b x, c x, d x, e x and 1 more.",
  });
});

const cloud = { name: "openai", type: "openai", models: ["gpt-5"] };
for (const [what, providers, status, detail] of [
  ["the demo model answers, and that is said", [], "ok", /demo model/],
  ["a provider with its key is fine", [{ ...cloud, hasKey: true }], "ok", undefined],
  ["a provider without its key is not", [{ ...cloud, hasKey: false }], "degraded", /openai has no key/],
  [
    "a server of one's own needs none",
    [{ name: "local", type: "openai_compatible", models: ["qwen"], hasKey: false }],
    "ok",
    undefined,
  ],
] as const) {
  test(`the default model: ${what}`, async (t) => {
    const { ask } = await createRoom(t, { providers });
    const { model } = (await ask()).body.readiness.checks;
    assert.equal(model.status, status);
    assert.match(model.detail ?? "", detail ?? /^$/);
  });
}

test("MCP servers that failed are named", async (t) => {
  const servers: McpStatus[] = [
    { name: "good", status: "connected", tools: 2 },
    { name: "slow", status: "connecting", tools: 0 },
  ];
  const { ask } = await createRoom(t, { serviceStats: { mcp: () => servers } });
  assert.deepEqual((await ask()).body.readiness.checks.mcp, {
    status: "ok",
    connected: 1,
    connecting: 1,
    failed: 0,
  });
  servers.push({ name: "bad", status: "failed", tools: 0, error: "secret-looking reason" });
  assert.deepEqual((await ask()).body.readiness.checks.mcp, {
    status: "degraded",
    connected: 1,
    connecting: 1,
    failed: 1,
    detail: "These MCP servers are not usable: bad.",
  });
});

test("the webhook receiver is reported with the deliveries of the last hour", async (t) => {
  const receiver = { url: "http://0.0.0.0:8644" as string | undefined, routes: 2 };
  const { ask, clock, store } = await createRoom(t, { serviceStats: { receiver: () => receiver } });
  const made = (status: string, agoMs: number) =>
    deliveryRow({ id: createId("dlv", clock.now() - agoMs), status, ended_at: 1 });
  await store.write((tx) =>
    tx.insert("deliveries", [made("completed", 0), made("ignored", 3_600_000), made("failed", 3_600_001)]),
  );
  const none = {
    accepted: 0,
    running: 0,
    failed: 0,
    delivered: 0,
    unknown: 0,
    duplicate: 0,
    refused: 0,
    interrupted: 0,
  };
  const stats = { ...receiver, waiting: 4, ...none, completed: 1, ignored: 1 };
  assert.deepEqual((await ask()).body.readiness.checks["webhooks"], { status: "ok", ...stats });
  receiver.routes = 0;
  assert.match((await ask()).body.readiness.checks["webhooks"]?.detail ?? "", /webhook subscribe/);
  receiver.url = undefined;
  const { status, body } = await ask(true);
  const { webhooks } = body.readiness.checks;
  assert.deepEqual([status, webhooks?.status, webhooks?.["url"]], [503, "degraded", null]);
});

test("without a webhook receiver the report omits it", async (t) => {
  const { ask } = await createRoom(t);
  assert.ok(!("webhooks" in (await ask()).body.readiness.checks));
});

/** Jobs in order. */
const jobsInOrder: CronStats = {
  isEnabled: true,
  state: "ticking",
  lastTickAtMs: Date.UTC(2026, 0, 1),
  jobs: { scheduled: 2, paused: 1, completed: 0, missed: 0, error: 0 },
  broken: 0,
  late: { count: 0, oldestDueAtMs: undefined, named: [] },
  corrected: undefined,
  next: { dueAtMs: Date.UTC(2026, 0, 2) },
  open: 1,
  failures: { count: 0 },
};

test("the report shows the last tick, late jobs and the next due time", async (t) => {
  const { ask } = await createRoom(t, { serviceStats: { cron: () => Promise.resolve(jobsInOrder) } });
  assert.deepEqual((await ask()).body.readiness.checks.cron, {
    status: "ok",
    enabled: true,
    scheduler: "ticking",
    last_tick_at: "2026-01-01T00:00:00.000Z",
    next_due_at: "2026-01-02T00:00:00.000Z",
    late: 0,
    late_since: null,
    scheduled: 2,
    paused: 1,
    completed: 0,
    missed: 0,
    error: 0,
    broken: 0,
    at_work: 1,
    failing: 0,
  });
});

const oldestDueAtMs = Date.UTC(2026, 0, 1);
const named = [{ id: "0123456789ab", name: "digest of sk-proj-0123456789abcdefghijklmnop" }];
for (const [what, changes, status, detail] of [
  ["a scheduler that is off is reported as ok", { isEnabled: false, state: "none" }, 200, /cron\.enabled/],
  ["status stale after 200 s: a stalled scheduler is degraded", { state: "stalled" }, 503, /has stalled/],
  ["a server whose scheduler does not run is degraded", { state: "none" }, 503, /No scheduler/],
  [
    "late jobs are degraded and named",
    { late: { count: 2, oldestDueAtMs, named } },
    503,
    /2 jobs .* and 1 more/,
  ],
  ["jobs that cannot be read are degraded", { broken: 1 }, 503, /A job cannot be read/],
  ["failed runs are counted, and no fault of the server's", { failures: { count: 3 } }, 200, /^$/],
] as const) {
  test(`scheduled jobs: ${what}`, async (t) => {
    const cron = () => Promise.resolve({ ...jobsInOrder, ...changes });
    const { ask, clock } = await createRoom(t, { serviceStats: { cron } });
    clock.tick(10_000);
    const { status: answered, body } = await ask(true);
    assert.equal(answered, status);
    assert.match(body.readiness.checks.cron?.detail ?? "", detail);
    assert.doesNotMatch(JSON.stringify(body), /sk-proj/);
  });
}

test("a server that has just started has time to start its scheduler", async (t) => {
  const late = { count: 2, oldestDueAtMs, named };
  const cron = () => Promise.resolve({ ...jobsInOrder, state: "none" as const, late });
  const { ask, clock } = await createRoom(t, { serviceStats: { cron } });
  clock.tick(9_999);
  assert.equal((await ask(true)).status, 200);
  clock.tick(1);
  assert.equal((await ask(true)).status, 503);
});

test("a database that cannot read jobs is degraded, and the report omits jobs", async (t) => {
  const cron = () => Promise.reject(new Error("no such table"));
  const { ask } = await createRoom(t, { serviceStats: { cron } });
  const { checks } = (await ask()).body.readiness;
  assert.equal(checks.state_store.status, "degraded");
  assert.ok(!("cron" in checks));
});

test("a server that shuts down is not ready", async (t) => {
  const { ask } = await createRoom(t, { draining: true });
  const { status, body } = await ask(true);
  assert.deepEqual([status, body.draining, body.readiness.checks.api_server.status], [503, true, "degraded"]);
});

test("the report says when keys are off", async (t) => {
  const { ask } = await createRoom(t, { requireKey: false });
  const { api_server: server } = (await ask()).body.readiness.checks;
  assert.deepEqual([server.status, server["keys_required"]], ["ok", false]);
  assert.match(server.detail ?? "", /No key/);
});

test("a failing database is reported without its message, and the rest of the report stays", async (t) => {
  const read = {
    selectFrom: () => {
      throw new Error("connection to postgres://me:hunter2@db failed");
    },
  } as never;
  const { ask } = await createRoom(t, { store: { read } });
  const { status, body } = await ask();
  assert.equal(status, 200);
  assert.equal(body.readiness.checks.state_store.status, "degraded");
  assert.equal(body.runs.running, 0);
  assert.ok(!JSON.stringify(body).includes("hunter2"));
});

test("a hanging database times out after two seconds", async (t) => {
  const hanging: unknown = new Proxy(() => hanging, {
    get: (_target, name) => (name === "then" ? () => {} : hanging),
  });
  const read = { selectFrom: () => hanging, getExecutor: () => hanging } as never;
  const { ask, clock } = await createRoom(t, { store: { read } });
  const report = ask();
  clock.tick(1_999);
  let isDone = false;
  void report.then(() => (isDone = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isDone, false);
  clock.tick(1);
  assert.equal((await report).body.readiness.checks.state_store.status, "degraded");
  assert.equal(clock.pending, 0);
});
