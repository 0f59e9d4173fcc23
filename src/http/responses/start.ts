import { responseIdOf } from "../../agent/run/run.ts";
import type { Prompt } from "../../agent/run/prompt.ts";
import type { SessionAddress } from "../../agent/session/session.ts";
import type { ResponseRow } from "../../store/schema/tables.ts";
import { branchFrom, claimNext, contextUpTo, dropBranch, isTip, Overtaken } from "./chain.ts";
import type { ResponsePlan } from "./request.ts";
import { keepResponse } from "./store.ts";
import type { HttpDeps } from "../deps.ts";
import { startRun, type StartedRun, type StartOptions } from "../prompt/submission.ts";

/**
 * Starts the run of a response in the session it belongs to. ServiceErrors of {@link startRun}; `session_busy` when it
 * would need a branch from a response that is at work.
 */
export async function startResponse(
  plan: ResponsePlan,
  deps: HttpDeps,
  options: StartOptions,
): Promise<StartedRun> {
  const { previous, address } = plan;
  if (!previous) return submit(plan, { address }, deps, options);
  const { owner } = previous;
  if (!plan.kept.request.echo.store) {
    // Nobody can go on from it: it leaves no mark on what it goes on from.
    const opening = [...(await contextUpTo(deps.store, previous)), ...(plan.prompt.input.opening ?? [])];
    const input = { ...plan.prompt.input, opening };
    return submit({ ...plan, prompt: { ...plan.prompt, input } }, { address: { owner } }, deps, options);
  }
  if (await isTip(deps.store, previous)) {
    try {
      const place = { address: { owner, id: previous.session_id }, claims: previous };
      return await submit(plan, place, deps, options);
    } catch (error) {
      if (!(error instanceof Overtaken)) throw error;
    }
  }
  return inBranch(plan, previous, deps, options);
}

async function inBranch(
  plan: ResponsePlan,
  previous: ResponseRow,
  deps: HttpDeps,
  options: StartOptions,
): Promise<StartedRun> {
  const { owner } = previous;
  const branch = await branchFrom(deps.store, previous);
  if (!branch) return submit(plan, { address: { owner } }, deps, options);
  let inUse: string | undefined;
  try {
    const started = await submit(plan, { address: { owner, id: branch.id } }, deps, options);
    inUse = started.submitted.sessionId;
    return started;
  } finally {
    if (inUse !== branch.id) await dropBranch(deps.store, branch.id);
  }
}

interface Place {
  readonly address: SessionAddress;
  /** The response whose one successor in its session this is to be. */
  readonly claims?: ResponseRow;
}

function submit(
  { prompt, kept }: ResponsePlan,
  { address, claims }: Place,
  deps: HttpDeps,
  options: StartOptions,
): Promise<StartedRun> {
  const placed: Prompt = {
    ...prompt,
    address,
    alsoRecord: async (tx, run) => {
      if (claims) await claimNext(tx, claims, responseIdOf(run.id));
      if (kept.request.echo.store) await keepResponse(tx, run, kept, deps.settings.maxStoredResponses);
    },
  };
  return startRun(placed, deps, options);
}
