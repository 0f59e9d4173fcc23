/** Gateways that are killed while they settle what another left. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { abandonSessions } from "../harness/abandoned.ts";
import { createGatewayPlace } from "../harness/gateway.ts";

/** What is left: enough that a kill falls into the middle of its recovery. */
const SESSIONS = 1_000;

async function openRuns(store: Store): Promise<number> {
  const { count } = await store.read
    .selectFrom("runs")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("ended_at", "is", null)
    .executeTakeFirstOrThrow();
  return Number(count);
}

async function untilFewer(store: Store, count: number): Promise<void> {
  while ((await openRuns(store)) >= count) await new Promise((resolve) => setTimeout(resolve, 2));
}

test("SIGKILL in the middle of recovery: the next process settles the rest, and each run has one end", async (t) => {
  await using place = await createGatewayPlace();
  const store = await openStore({ url: place.database });
  t.after(() => store.close());
  await abandonSessions(store, SESSIONS, "default");
  const left: number[] = [];
  for (const enough of [SESSIONS, (SESSIONS * 2) / 3, SESSIONS / 3]) {
    await t.test(`killed with fewer than ${Math.round(enough)} runs open`, async () => {
      const gateway = await place.start();
      await untilFewer(store, enough);
      await gateway.kill("SIGKILL");
      left.push(await openRuns(store));
    });
  }
  const last = await place.start();
  await untilFewer(store, 1);
  assert.equal(await last.kill("SIGTERM"), 0, last.stderr());
  t.diagnostic(`${left.join(", ")} of ${SESSIONS} runs were open after the kills`);
  const ends = await store.read
    .selectFrom("events")
    .select(["run_id", "run_seq"])
    .where("type", "=", "run.interrupted")
    .execute();
  assert.equal(ends.length, SESSIONS);
  assert.equal(new Set(ends.map(({ run_id: id }) => id)).size, SESSIONS);
  // run.started, message.delta, tool.started, tool.completed.
  assert.ok(ends.every(({ run_seq: seq }) => seq === 5));
  const answers = await store.read.selectFrom("messages").select("session_id").execute();
  assert.equal(answers.length, 2 * SESSIONS);
  const leased = store.read.selectFrom("sessions").select("id").where("lease_owner", "is not", null);
  assert.deepEqual(await leased.execute(), []);
});
