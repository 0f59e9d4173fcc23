import { zoneProblem } from "../../../base/suggest.ts";
import type { CalendarEntry } from "../../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import { toJob, type Job, refusal } from "../../../cron/job/job.ts";
import { listJobs, listOccurrencesIn } from "../../../cron/queries.ts";
import { plannedBetween } from "../../../cron/schedule/times.ts";
import type { OccurrenceRow } from "../../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { ownerFilter, timeWindow } from "../page.ts";

const DAY_MS = 86_400_000;
const MAX_DAYS = 93;
const DEFAULT_DAYS = 7;
const MAX_ENTRIES = 2_000;

/** GET /v1/calendar: what ran, and what is planned, earliest first. */
export async function getCalendar(
  { query, ctx }: HttpRequest<"getCalendar", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getCalendar">> {
  const nowMs = deps.clock.now();
  const { fromMs, toMs } = windowOf(query, nowMs);
  const { job_id: jobId } = query;
  const whose = ownerFilter(ctx);
  // Jobs first: an instant that is claimed in between is read twice, and shown once.
  const rows = await listJobs(deps.store, whose);
  const jobs = rows
    .filter(({ id }) => jobId === undefined || id === jobId)
    .flatMap((row) => toJob(row) ?? []);
  const limit = MAX_ENTRIES + 1;
  const occurrences = await listOccurrencesIn(deps.store, { ...whose, jobId, fromMs, toMs, limit });
  const claimed = new Set(occurrences.filter(({ cause }) => cause === "schedule").map(keyOf));
  const planned = plannedIn(jobs, { fromMs, toMs, nowMs, limit }).filter(
    ({ job, atMs }) => !claimed.has(keyOf({ job_id: job.id, scheduled_at: atMs })),
  );
  const all = [...occurrences.map(pastEntry), ...planned.map(plannedEntry)].toSorted(
    (a, b) => a.scheduled_at - b.scheduled_at,
  );
  return {
    status: 200,
    body: {
      object: "agent.calendar",
      from: fromMs / 1000,
      to: toMs / 1000,
      data: all.slice(0, MAX_ENTRIES),
      truncated: all.length > MAX_ENTRIES,
    },
  };
}

/** ServiceError `invalid_request` for a window that is too long or ends before it begins. */
function windowOf(
  query: HttpRequest<"getCalendar", HttpContext>["query"],
  nowMs: number,
): { readonly fromMs: number; readonly toMs: number } {
  const given = timeWindow(query);
  const fromMs = given.fromMs ?? (given.toMs === undefined ? nowMs : given.toMs - DEFAULT_DAYS * DAY_MS);
  const toMs = given.toMs ?? fromMs + DEFAULT_DAYS * DAY_MS;
  if (toMs >= fromMs && toMs - fromMs <= MAX_DAYS * DAY_MS) return { fromMs, toMs };
  const what = `The window from ... to must be at most ${MAX_DAYS} days long, and to must not be before from.`;
  throw new ServiceError("invalid_request", what, { param: "to" });
}

/** An instant that is due stays planned until it is claimed; the others in the past will not run. */
function plannedIn(
  jobs: readonly Job[],
  { fromMs, toMs, nowMs, limit }: Readonly<Record<"fromMs" | "toMs" | "nowMs" | "limit", number>>,
) {
  const due = jobs.flatMap((job) => {
    const atMs = job.state === "scheduled" ? job.nextRunAtMs : undefined;
    return atMs !== undefined && atMs >= fromMs && atMs < Math.min(nowMs, toMs) ? [{ job, atMs }] : [];
  });
  return [...due, ...plannedBetween(jobs, { fromMs: Math.max(fromMs, nowMs), toMs, limit })];
}

function keyOf(row: Pick<OccurrenceRow, "job_id" | "scheduled_at">): string {
  return `${row.job_id} ${row.scheduled_at}`;
}

function pastEntry(row: OccurrenceRow): CalendarEntry {
  return {
    kind: "occurrence",
    job_id: row.job_id,
    job_name: redact(row.job_name),
    scheduled_at: row.scheduled_at / 1000,
    status: row.status as CalendarEntry["status"],
    occurrence_id: row.id,
    covers_count: row.covers_count,
  };
}

function plannedEntry({ job, atMs }: { readonly job: Job; readonly atMs: number }): CalendarEntry {
  return {
    kind: "planned",
    job_id: job.id,
    job_name: redact(job.definition.name),
    scheduled_at: atMs / 1000,
    status: null,
    occurrence_id: null,
    covers_count: 1,
  };
}

/** GET /v1/scheduler/preview */
export async function previewSchedule(
  { query }: HttpRequest<"previewSchedule", HttpContext>,
  { jobs, clock }: HttpDeps,
): Promise<HttpResponse<"previewSchedule">> {
  const { schedule, time_zone: zone = jobs.settings.zone, count } = query;
  const problem = zoneProblem(zone);
  if (problem !== undefined) throw refusal("time_zone", problem);
  // Its package for words is not needed by a calendar.
  const { previewSchedule: preview } = await import("../../../cron/schedule/preview.ts");
  return { status: 200, body: preview(schedule, { zone, count, nowMs: clock.now() }) };
}
