import { refusal } from "../../../cron/job/job.ts";
import { previewSchedule as preview } from "../../../cron/schedule/preview.ts";
import { zoneProblem } from "../../../base/suggest.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";

/** GET /v1/scheduler/preview */
export function previewSchedule(
  { query }: HttpRequest<"previewSchedule", HttpContext>,
  { jobs, clock }: HttpDeps,
): HttpResponse<"previewSchedule"> {
  const { schedule, time_zone: zone = jobs.settings.zone, count } = query;
  const problem = zoneProblem(zone);
  if (problem !== undefined) throw refusal("time_zone", problem);
  return { status: 200, body: preview(schedule, { zone, count, nowMs: clock.now() }) };
}
