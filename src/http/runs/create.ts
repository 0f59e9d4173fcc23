import type { RunAccepted } from "../../../generated/http/client/types.gen.ts";
import type { Submitted } from "../../agent/run/prompt.ts";
import { nameOfId, type SessionAddress } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ResponseRow } from "../../store/schema/tables.ts";
import type { HttpResponse } from "../edge/contract.ts";
import {
  findRepeated,
  forgetKey,
  idempotencyOf,
  RepeatedRequest,
  type IdempotencyClaim,
} from "../edge/idempotency.ts";
import { inTurn } from "../edge/in-turn.ts";
import { branchFrom, dropBranch, isTip } from "../responses/chain.ts";
import type { HttpDeps } from "../deps.ts";
import { planRun, type CreateRunHttpRequest } from "./prompt.ts";
import { runHeaders, withClaim } from "../prompt/submission.ts";

type Created = HttpResponse<"createRun">;

/** POST /v1/runs: answers once the run is recorded; nobody has to stay for it. */
export async function createRun(request: CreateRunHttpRequest, deps: HttpDeps): Promise<Created> {
  const claim = idempotencyOf("createRun", request);
  return inTurn(deps.store, claim, () => create(request, deps, claim));
}

async function create(
  request: CreateRunHttpRequest,
  deps: HttpDeps,
  claim: IdempotencyClaim | undefined,
): Promise<Created> {
  const known = claim && (await findRepeated(deps.store, claim));
  const replayed = known === undefined ? undefined : await replay(known, request, deps, claim);
  if (replayed) return replayed;
  const { prompt, address, previous } = await planRun(request, deps);
  const submit = (place: SessionAddress) => {
    const placed = { ...prompt, address: place };
    return deps.runs.submit(claim ? withClaim(placed, deps, claim) : placed);
  };
  try {
    const submitted = previous ? await goOnFrom(previous, submit, deps) : await submit(address);
    // Text that was steered into the run at work made none of its own.
    const status = submitted.status === "queued" ? "queued" : "running";
    return accepted({ submitted, status, replayed: false });
  } catch (error) {
    if (!(error instanceof RepeatedRequest)) throw error;
    const made = await replay(error.runId, request, deps, claim);
    if (made) return made;
    throw new ServiceError("session_busy", "The same request is being made. Try again.", { cause: error });
  }
}

/** In the session of the response when nothing was said there since, else in a branch of its own. */
async function goOnFrom(
  previous: ResponseRow,
  submit: (address: SessionAddress) => Promise<Submitted>,
  deps: HttpDeps,
): Promise<Submitted> {
  const { owner } = previous;
  if (await isTip(deps.store, previous)) return submit({ owner, id: previous.session_id });
  const branch = await branchFrom(deps.store, previous);
  if (!branch) return submit({ owner });
  try {
    return await submit({ owner, id: branch.id });
  } catch (error) {
    await dropBranch(deps.store, branch.id);
    throw error;
  }
}

/** The run that the same request made before; undefined when it is gone, and with it what the key stood for. */
async function replay(
  runId: string,
  { ctx }: CreateRunHttpRequest,
  { store, agent }: HttpDeps,
  claim: IdempotencyClaim | undefined,
): Promise<Created | undefined> {
  const run = await agent.findRun(runId, ctx.identity.name).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === "run_not_found") return undefined;
    throw error;
  });
  if (!run) {
    if (claim) await forgetKey(store, claim, runId);
    return undefined;
  }
  const session = await store.read
    .selectFrom("sessions")
    .select("session_key")
    .where("id", "=", run.session_id)
    .executeTakeFirst();
  const submitted: Submitted = {
    runId,
    sessionId: run.session_id,
    sessionKey: session?.session_key ?? null,
    model: run.model,
    createdAtMs: run.created_at,
    status: run.status === "queued" ? "queued" : "running",
  };
  return accepted({ submitted, status: run.status, replayed: true });
}

function accepted(run: {
  readonly submitted: Submitted;
  readonly status: string;
  readonly replayed: boolean;
}): Created {
  const { runId: id, sessionId, createdAtMs } = run.submitted;
  const urls = {
    status: `/v1/runs/${id}`,
    events: `/v1/runs/${id}/events`,
    stop: `/v1/runs/${id}/stop`,
    approval: `/v1/runs/${id}/approval`,
  };
  return {
    status: 202,
    headers: { ...runHeaders(run), location: urls.status },
    body: {
      object: "agent.run",
      run_id: id,
      id,
      status: run.status as RunAccepted["status"],
      session_id: nameOfId(sessionId),
      created_at: createdAtMs / 1000,
      replayed: run.replayed,
      urls,
    },
  };
}
