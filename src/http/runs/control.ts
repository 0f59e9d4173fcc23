import type { StopResult } from "../../../generated/http/client/types.gen.ts";
import { isFinalStatus, type RunView } from "../../agent/run/run.ts";
import { ServiceError } from "../../base/errors.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";

type SteerRequest = HttpRequest<"steerRun", HttpContext>;

/** POST /v1/runs/{run_id}/steer: the text is safe once this has answered; the model gets it at its next step. */
export async function steerRun(
  { path, body, ctx }: SteerRequest,
  deps: HttpDeps,
): Promise<HttpResponse<"steerRun">> {
  const owner = ctx.identity.name;
  const run = await deps.agent.findRun(path.run_id, owner);
  const text = steerText(body, deps);
  if (run.status !== "running") throw notSteerable(run);
  if (!(await deps.runs.steer(run.id, text))) {
    throw notSteerable(await deps.agent.findRun(run.id, owner));
  }
  return { status: 200, body: { object: "agent.run.steer", run_id: run.id, accepted: true } };
}

/** POST /v1/runs/{run_id}/stop: asks for the end, and tells how far it has come. */
export async function stopRun(
  { path, body, ctx }: HttpRequest<"stopRun", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"stopRun">> {
  const owner = ctx.identity.name;
  let run = await deps.agent.findRun(path.run_id, owner);
  // Again when it left the queue at this very moment: then it was neither to be cancelled nor at work yet.
  for (let i = 0; i < ATTEMPTS && !isStopping(run); i++) {
    await deps.runs.stop(run.id, body?.reason ?? `stopped by http:${owner}`);
    run = await deps.agent.findRun(run.id, owner);
  }
  const status = isFinalStatus(run.status) ? (run.status as StopResult["status"]) : "stopping";
  return { status: 200, body: { object: "agent.run.stop", run_id: run.id, status } };
}

const ATTEMPTS = 3;

function isStopping({ status }: RunView): boolean {
  return status === "stopping" || isFinalStatus(status);
}

/** The one text of the body, under whichever of its names. */
function steerText(body: SteerRequest["body"], { settings }: HttpDeps): string {
  const given = Object.entries(body).filter(([, text]) => text !== undefined);
  const [first] = given;
  if (!first || given.length > 1) {
    throw new ServiceError("invalid_steer_input", "Send the text as one of: input, message, text.", {
      param: given[1]?.[0] ?? "input",
    });
  }
  const [param, text] = first;
  if (text.trim() === "") throw new ServiceError("invalid_steer_input", `${param} is empty.`, { param });
  const bytes = new TextEncoder().encode(text).length;
  if (bytes <= settings.maxTextBytes) return text;
  const what = `${param} has ${bytes} bytes; the limit is ${settings.maxTextBytes} (limits.max_text_bytes).`;
  throw new ServiceError("invalid_steer_input", what, { param });
}

function notSteerable({ id, status }: RunView): ServiceError {
  if (isFinalStatus(status)) {
    return new ServiceError("run_not_active", `The run ${id} is over: ${status}. Start another one.`);
  }
  const what = `The run ${id} is ${status}; only a running turn takes steering. Try again when it runs.`;
  return new ServiceError("run_not_accepting_steer", what);
}
