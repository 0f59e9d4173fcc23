import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

/** GET /v1/runs/{run_id}/trace */
export async function getRunTrace(
  { path, query, ctx }: HttpRequest<"getRunTrace", HttpContext>,
  { runs, agent }: HttpDeps,
): Promise<HttpResponse<"getRunTrace">> {
  const run = await agent.findRun(path.run_id, ctx.identity.owner);
  const hasContent = query.include?.includes("content") ?? false;
  return { status: 200, body: await runs.reads.trace(run, { hasContent }) };
}
