/** A service starts on a database in which a dead process left runs open. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { unavailable } from "../../../src/store/tx/group.ts";
import { openStore } from "../../../src/store/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { abandonSessions, type Abandoned } from "../../harness/abandoned.ts";
import { startTestService, type TestService } from "../../harness/service.ts";

interface Place {
  readonly service: TestService;
  readonly left: readonly Abandoned[];
}

/** A service that is stopped, leaves runs open in its database, and starts again with its writes in the test's hand. */
async function startBehind(count: number, wrapStore: (store: Store) => Store): Promise<Place> {
  const before = await startTestService();
  const store = await openStore({ url: before.database.url });
  const left = await abandonSessions(store, count, "default");
  await store.close();
  return {
    service: await before.restart({ wrapStore, script: ({ user }) => ({ text: `did ${user}` }) }),
    left,
  };
}

async function isRecovering(service: TestService): Promise<boolean> {
  const response = await service.request("/health/detailed");
  assert.equal(response.status, 200);
  return ((await response.json()) as { readonly recovering: boolean }).recovering;
}

function prompt(service: TestService, { sessionId }: Abandoned, input: string): Promise<Response> {
  return service.request("/v1/runs", {
    method: "POST",
    headers: { "content-type": "application/json", "x-agent-session-id": sessionId },
    body: JSON.stringify({ input }),
  });
}

/** A store that asks `hold` before it tells which leases there are: the first thing that recovery wants to know. */
function holdingLeases(store: Store, hold: () => Promise<void>): Store {
  const asked = new WeakSet<object>();
  const read = store.read.withPlugin({
    transformQuery: ({ node, queryId }) => {
      if (store.read.getExecutor().compileQuery(node, queryId).sql.includes("min(")) asked.add(queryId);
      return node;
    },
    transformResult: async ({ queryId, result }) => {
      if (asked.has(queryId)) await hold();
      return result;
    },
  });
  return { ...store, read };
}

test("the port answers during recovery, and prompts to recovering sessions run afterwards, in order", async () => {
  const gate = Promise.withResolvers<void>();
  const { service, left } = await startBehind(3, (store) => holdingLeases(store, () => gate.promise));
  await using _ = service;
  assert.equal(await isRecovering(service), true);
  const runs: string[] = [];
  for (const input of ["one", "two"]) {
    const response = await prompt(service, left[0]!, input);
    const body = (await response.json()) as { readonly run_id: string; readonly status: string };
    assert.deepEqual([response.status, body.status], [202, "queued"]);
    runs.push(body.run_id);
  }
  gate.resolve();
  await service.service.agent.recovered;
  assert.equal(await isRecovering(service), false);
  for (const run of [left[0]!.runId, ...runs]) await service.request(`/v1/runs/${run}?wait=20`);
  const rows = await service.service.store.read
    .selectFrom("runs")
    .select(["id", "status", "started_at", "ended_at"])
    .where("session_id", "=", left[0]!.sessionId)
    .execute();
  const [dead, one, two] = [left[0]!.runId, ...runs].map((id) => rows.find((row) => row.id === id)!);
  assert.deepEqual([dead?.status, one?.status, two?.status], ["interrupted", "completed", "completed"]);
  assert.ok(dead!.ended_at! <= one!.started_at! && one!.ended_at! <= two!.started_at!);
});

test("a database failure during recovery does not end the service, and recovery resumes later", async () => {
  let failures = 0;
  const { service, left } = await startBehind(3, (store) =>
    holdingLeases(store, async () => {
      if (failures++ < 2) throw unavailable("The database is away (a test).");
    }),
  );
  await using _ = service;
  assert.equal((await service.request("/health")).status, 200);
  await service.service.agent.recovered;
  for (const { runId } of left) {
    const run = await service.service.store.find("runs", { id: runId });
    assert.equal(run?.status, "interrupted");
  }
});

test("a service stopped during recovery ends, and the next one recovers the rest", async () => {
  const [started, begun, gate] = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
  let writes = 0;
  const { service, left } = await startBehind(200, (store) => {
    const write: Store["write"] = async (...args) => {
      if (writes > 0 && ++writes === 3) {
        begun!.resolve();
        await gate!.promise;
      }
      return store.write(...args);
    };
    return holdingLeases({ ...store, write }, async () => {
      await started!.promise;
      writes = 1;
    });
  });
  started!.resolve();
  await begun!.promise;
  const restarted = service.restart();
  gate!.resolve();
  await using next = await restarted;
  await next.service.agent.recovered;
  for (const { runId } of left) {
    const events = await next.service.store.journal.read({ runId });
    assert.equal(events.filter(({ type }) => type === "run.interrupted").length, 1);
  }
});
