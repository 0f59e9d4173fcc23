import { eventsOfTypes, firstKept } from "../../agent/run/queries.ts";
import { TRACE_EVENTS, traceOf } from "../../agent/run/trace.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

/** Events of a run that a trace has at most. */
const MAX_EVENTS = 5_000;

/** GET /v1/runs/{run_id}/trace */
export async function getRunTrace(
  { path, query, ctx }: HttpRequest<"getRunTrace", HttpContext>,
  { store, agent }: HttpDeps,
): Promise<HttpResponse<"getRunTrace">> {
  const run = await agent.findRun(path.run_id, ctx.identity.owner);
  const found = await eventsOfTypes(store, run.id, { types: TRACE_EVENTS, limit: MAX_EVENTS + 1 });
  const first = await firstKept(store, run.id);
  const isTruncated = found.length > MAX_EVENTS || (run.last_seq > 0 && first?.seq !== 1);
  const hasContent = query.include?.includes("content") ?? false;
  const events = found.slice(0, MAX_EVENTS);
  return { status: 200, body: traceOf(run, { events, isTruncated, hasContent }) };
}
