import type { Prompt } from "../agent/prompt.ts";
import { createSessionId } from "../base/ids.ts";
import { toServiceError } from "../base/errors.ts";
import { redact } from "../base/redact.ts";
import type { Tx } from "../store/store.ts";
import type { RunRow } from "../store/tables.ts";
import type { Claimed } from "./claim.ts";
import { endOccurrence } from "./end-occurrence.ts";
import { planOccurrence, type DeliveryPlan } from "./plan.ts";
import { jobPrompt } from "./prompt.ts";
import type { CronRoom } from "./room.ts";

/** Thrown inside the transaction that would begin a run: the claim is another process's by now. */
class LostClaim extends Error {
  override readonly name = "LostClaim";
}

/**
 * Runs a claimed occurrence. Resolves when it has ended here, or is another process's; never rejects. A crash before its
 * run is recorded leaves it claimed, for whoever takes it over.
 */
export async function fire(room: CronRoom, claimed: Claimed): Promise<void> {
  const { log, store, ends } = room;
  const { occurrence, job } = claimed;
  const plan = planOccurrence(claimed, room);
  const ended = ends.wait(occurrence.id);
  try {
    await room.turns.submit(promptOf(room, claimed, plan));
    await ended;
  } catch (error) {
    ends.told(occurrence.id);
    if (error instanceof LostClaim) return;
    const { message } = toServiceError(error);
    log.warn("a job could not be run", { job: job.id, error });
    const ending = { status: "failed", text: redact(message) } as const;
    await store.write((tx) => endOccurrence(tx, store, { plan, ending }));
  }
}

function promptOf(room: CronRoom, { occurrence, job }: Claimed, plan: DeliveryPlan): Prompt {
  const { definition } = job;
  const begin = async (tx: Tx, run: Pick<RunRow, "id" | "session_id" | "status">): Promise<void> => {
    const started = run.status === "running" ? { status: "running", started_at: tx.nowMs } : {};
    const columns = { run_id: run.id, session_id: run.session_id, ...started };
    const mine = { id: occurrence.id, lease_owner: room.store.owner, run_id: null, ended_at: null };
    if ((await tx.update("occurrences", mine, columns)) === 0) throw new LostClaim();
  };
  return {
    address: {
      owner: room.owner,
      id: createSessionId(room.clock.now()),
      key: `cron_${job.id}_${(occurrence.output_file ?? "").replace(/\.md$/, "").replaceAll("-", "")}`,
    },
    seed: {
      source: "cron",
      title: definition.name,
      transient: true,
      ...(definition.workdir === undefined ? {} : { cwd: definition.workdir }),
    },
    kind: "run",
    input: {
      prompt: [{ role: "user", text: jobPrompt(definition) }],
      settings: {},
      answerable: false,
      isDetached: true,
      slot: { group: "cron" },
    },
    delivery: JSON.stringify(plan),
    alsoRecord: begin,
  };
}
