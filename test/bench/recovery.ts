import { performance } from "node:perf_hooks";
import process from "node:process";
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
  const control = await measure(() => endBarely(agent.store, bare));
  await abandonSessions(agent.store, SESSIONS);
  const value = await measure(async () => {
    const count = await agent.recovery.recover();
    if (count !== SESSIONS) throw new Error(`${count} sessions were recovered`);
  });
  return [
    {
      name: `${SESSIONS} abandoned runs settled, by bare updates`,
      ...row(value.seconds, control.seconds),
      goal: `<= ${GOAL_SECONDS} s`,
      met: value.seconds <= GOAL_SECONDS,
    },
    // Of this process: what other work on the machine does not change.
    { name: "  CPU time", ...row(value.cpuSeconds, control.cpuSeconds) },
  ];
}

interface Measured {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

async function measure(work: () => Promise<void>): Promise<Measured> {
  const beforeMs = performance.now();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { seconds: (performance.now() - beforeMs) / 1_000, cpuSeconds: (user + system) / 1_000_000 };
}

function row(value: number, control: number): Pick<BenchRow, "value" | "unit" | "control" | "ratio"> {
  return { value, unit: "s", control, ratio: value / control };
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
