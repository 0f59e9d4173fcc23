/** Runs of jobs, and instants without one, as people read them. Pure. */
import type { Occurrence, OccurrenceStatus } from "../../cron/tick/occurrence.ts";
import { zonedTime } from "../../cron/schedule/zoned-time.ts";
import { shown } from "./text.ts";
import { toTable } from "../kit/table.ts";

const STATUS_WORDS: Readonly<Record<OccurrenceStatus, string>> = {
  claimed: "starting",
  running: "running",
  ok: "ok",
  failed: "failed",
  missed: "missed",
  skipped: "skipped",
  unknown: "unknown",
};

/** Newest first, with all times in one zone. Without `isOneJob` each line names its job. */
export function runsTable(
  occurrences: readonly Occurrence[],
  { zone, isOneJob }: { readonly zone: string; readonly isOneJob: boolean },
): string {
  const rows = occurrences.map((each) => [
    each.id,
    ...(isOneJob ? [] : [`${each.jobId} ${shown(each.jobName)}`]),
    timeIn(each.scheduledAtMs, zone),
    causeText(each),
    statusText(each),
    tookText(each),
    deliveryText(each),
    each.outputFile !== undefined && each.endedAtMs !== undefined ? each.outputFile : "-",
    noteText(each),
  ]);
  const head = ["ID", ...(isOneJob ? [] : ["JOB"]), `DUE (${zone})`];
  return toTable([...head, "CAUSE", "STATUS", "TOOK", "DELIVERY", "OUTPUT", "NOTE"], rows);
}

/** `ok after 3.2 s`, with the reason of what is not, and with what became of messages that did not arrive. */
export function endText(occurrence: Occurrence): string {
  const took = tookText(occurrence);
  const reason = occurrence.reason === undefined ? "" : `: ${shown(occurrence.reason)}`;
  const delivery = lostText(occurrence);
  return `${statusText(occurrence)}${took === "-" ? "" : ` after ${took}`}${reason}${delivery}`;
}

function lostText({ deliveryStatus, deliveryError }: Occurrence): string {
  if (deliveryStatus === "pending") return "; its message is still on its way";
  if (deliveryStatus !== "failed" && deliveryStatus !== "unknown") return "";
  const what = deliveryStatus === "failed" ? "delivery failed" : "nobody knows whether its message arrived";
  return `; ${what}${deliveryError === undefined ? "" : `: ${shown(deliveryError)}`}`;
}

export function deliveryText({ deliveryStatus }: Occurrence): string {
  if (deliveryStatus === undefined || deliveryStatus === "none") return "-";
  return deliveryStatus;
}

function statusText({ status, coversCount }: Occurrence): string {
  return coversCount > 1 ? `${STATUS_WORDS[status]} x${coversCount}` : STATUS_WORDS[status];
}

function causeText({ cause, timing }: Occurrence): string {
  if (timing === "on_time") return cause;
  return `${cause}, ${timing === "late" ? "late" : "made up for"}`;
}

function tookText({ startedAtMs, endedAtMs }: Occurrence): string {
  if (startedAtMs === undefined || endedAtMs === undefined) return "-";
  return `${(Math.max(0, endedAtMs - startedAtMs) / 1000).toFixed(1)} s`;
}

function noteText({ status, reason, deliveryError }: Occurrence): string {
  const notes = [status === "ok" ? undefined : reason, deliveryError].filter((note) => note !== undefined);
  return notes.map(shown).join("; ");
}

/** The zone stands in the head of the table. */
function timeIn(atMs: number, zone: string): string {
  return zonedTime(atMs, zone).replace(/ \(.*\)$/, "");
}
