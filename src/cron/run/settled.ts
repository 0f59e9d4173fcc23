import type { Tx } from "../../store/store.ts";
import type { OccurrenceRow, OutboxRow } from "../../store/schema/tables.ts";
import { clip } from "./message.ts";
import type { DeliveryStatus } from "../tick/occurrence.ts";
import { OUTPUT_TARGET } from "../output/name.ts";

/**
 * Notes in an occurrence, and in its job while that tells of it, how what was owed for it stands: after each message that
 * was sent, given up, dropped, or is to be sent again. A run is never repeated for it, and counts as no failure.
 */
export async function closeSettledOccurrence(tx: Tx, { ref }: Pick<OutboxRow, "ref">): Promise<void> {
  if (!ref?.startsWith("occ_")) return;
  // Locked before it is read: its messages may end at once, in several processes.
  if ((await tx.increment("occurrences", { id: ref }, "covers_count", 0)) === undefined) return;
  const row = await tx.find("occurrences", { id: ref });
  if (!row) return;
  const messages = await tx.db
    .selectFrom("outbox")
    .select(["target", "status", "last_error"])
    .where("ref", "=", ref)
    .orderBy("id")
    .execute();
  const { status, error } = standOf(messages);
  const columns = { delivery_status: status ?? row.delivery_status, delivery_error: error };
  await tx.update("occurrences", { id: ref }, columns);
  await noteInJob(tx, row, { status, error });
}

type Message = Pick<OutboxRow, "target" | "status" | "last_error">;

interface Stand {
  /** Undefined where people are owed nothing: the occurrence says why. */
  readonly status: DeliveryStatus | undefined;
  /** What did not arrive, or may not have. */
  readonly error: string | null;
}

const OWED: ReadonlySet<string> = new Set(["due", "leased"]);
const LOST: ReadonlySet<string> = new Set(["dead", "dropped"]);

function standOf(messages: readonly Message[]): Stand {
  const told = messages.filter(({ target }) => target !== OUTPUT_TARGET);
  const lost = messages.filter(({ status }) => LOST.has(status));
  const doubtful = messages.filter(({ status }) => status === "unknown");
  const all = [...lost, ...doubtful].map(errorOf).join(" ");
  const error = all === "" ? null : clip(all, MAX_ERROR_CHARACTERS);
  if (told.length === 0) return { status: undefined, error };
  if (told.some(({ status }) => OWED.has(status))) return { status: "pending", error };
  if (lost.length > 0) return { status: "failed", error };
  // Only what a platform confirmed has been delivered.
  return { status: doubtful.length > 0 ? "unknown" : "delivered", error };
}

const MAX_ERROR_CHARACTERS = 500;

/** What a dropped one said last is not why it ended. */
function errorOf({ target, status, last_error: error }: Message): string {
  return `${target}: ${status === "dropped" ? "It was dropped." : (error ?? "It was given up.")}`;
}

/** A newer end of the job has columns of its own to tell of; a run that failed stays one, whatever became of its message. */
async function noteInJob(tx: Tx, { id, job_id: jobId }: OccurrenceRow, { error }: Stand): Promise<void> {
  const mine = { id: jobId, last_occurrence: id };
  await tx.update("cron_jobs", mine, { last_delivery_error: error });
  const [from, to] = error === null ? ["delivery_failed", "ok"] : ["ok", "delivery_failed"];
  await tx.update("cron_jobs", { ...mine, last_status: from }, { last_status: to });
}
