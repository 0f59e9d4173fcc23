import { performance } from "node:perf_hooks";
import { createTestAgent } from "../harness/agent.ts";
import { abandonSessions, type Abandoned } from "../harness/abandoned.ts";
import type { Store } from "../../src/store/store.ts";
import { runAlone, type BenchRow } from "./row.ts";

const SESSIONS = 10_000;
/** Of the control: sessions in one transaction. */
const TOGETHER = 32;
const GOAL_SECONDS = 10;

/**
 * How long a start takes to settle what a dead process left open, by the least that any settling has to write: a run's
 * end, a final event and the lease given back.
 */
export async function run(): Promise<readonly BenchRow[]> {
  await using agent = await createTestAgent();
  const bare = await abandonSessions(agent.store, SESSIONS);
  const control = await seconds(() => endBarely(agent.store, bare));
  await abandonSessions(agent.store, SESSIONS);
  const value = await seconds(async () => {
    const count = await agent.recovery.recover();
    if (count !== SESSIONS) throw new Error(`${count} sessions were recovered`);
  });
  return [
    {
      name: `${SESSIONS} abandoned runs settled, by bare updates`,
      value,
      unit: "s",
      control,
      ratio: value / control,
      goal: `<= ${GOAL_SECONDS} s`,
      met: value <= GOAL_SECONDS,
    },
  ];
}

async function seconds(work: () => Promise<void>): Promise<number> {
  const before = performance.now();
  await work();
  return (performance.now() - before) / 1000;
}

async function endBarely({ write, journal }: Store, all: readonly Abandoned[]): Promise<void> {
  for (let start = 0; start < all.length; start += TOGETHER) {
    await write(async (tx) => {
      for (const { sessionId, runId } of all.slice(start, start + TOGETHER)) {
        await tx.update("runs", { id: runId }, { status: "interrupted", ended_at: tx.nowMs });
        await journal.append(tx, sessionId, [{ type: "run.interrupted", runId, data: {} }]);
        await tx.update("sessions", { id: sessionId }, { lease_owner: null, lease_until: 0 });
      }
    });
  }
}

await runAlone(import.meta.url, run);
