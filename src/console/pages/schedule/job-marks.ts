/** How occurrences of jobs are marked, and what is said beside a mark. Pure. */
import type { Occurrence, OccurrenceStatus } from "../../../client/http.ts";
import { duration, plural } from "../../ui/format.ts";

/** Each has a shape, a colour and a word. */
export type Mark = "done" | "failed" | "late" | "missed" | "skipped" | "running" | "uncertain" | "planned";

const MARKS: Readonly<Record<OccurrenceStatus, Mark>> = {
  claimed: "running",
  running: "running",
  ok: "done",
  failed: "failed",
  missed: "missed",
  skipped: "skipped",
  unknown: "uncertain",
};

export function markOf({ status, timing }: Pick<Occurrence, "status" | "timing">): Mark {
  return status === "ok" && timing !== "on_time" ? "late" : MARKS[status];
}

type Times = Pick<Occurrence, "timing" | "started_at" | "claimed_at" | "scheduled_at">;

/** Returns `12 min late`, or that it made up for missed times. */
export function latenessOf({
  timing,
  started_at: started,
  claimed_at: claimed,
  scheduled_at: due,
}: Times): string {
  const late = `${duration(Math.max(0, Math.round((started ?? claimed) - due)))} late`;
  return timing === "catch_up" ? `caught up, ${late}` : late;
}

/** Returns what is to say about an occurrence beside its mark. */
export function noteOf(occurrence: Occurrence): string {
  const { covers_count: covers, reason, delivery_error: undelivered } = occurrence;
  const missed = covers > 1 ? plural(covers, "time") : "";
  return [missed, reason ?? "", undelivered ?? ""].filter((part) => part !== "").join(" · ");
}
