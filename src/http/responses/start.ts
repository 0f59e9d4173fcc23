import { responseIdOf, isFinalStatus, type Prompt } from "../../agent/run/run.ts";
import type { SessionAddress } from "../../agent/session/session.ts";
import type { ResponseRow, SessionRow } from "../../store/schema/tables.ts";
import type { ResponsePlan } from "./request.ts";
import { storeResponse } from "./queries.ts";
import type { HttpDeps } from "../deps.ts";
import { startRun, type StartedRun, type StartOptions } from "../prompt/submission.ts";
import { branchSession } from "../../agent/session/sessions.ts";
import type { Message } from "../../agent/engine.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Tx } from "../../store/store.ts";

/**
 * Starts the run of a response in its session. ServiceErrors of {@link startRun}; `session_busy` when it would
 * branch from a running response.
 */
export async function startResponse(
  plan: ResponsePlan,
  deps: HttpDeps,
  options: StartOptions,
): Promise<StartedRun> {
  const { previous, address } = plan;
  if (!previous) return submit(plan, { address }, deps, options);
  const { owner } = previous;
  if (!plan.record.request.echo.store) {
    // Nothing can continue this response, so it leaves the previous one unchanged.
    const opening = [...(await contextUpTo(deps, previous)), ...(plan.prompt.input.opening ?? [])];
    const input = { ...plan.prompt.input, opening };
    return submit({ ...plan, prompt: { ...plan.prompt, input } }, { address: { owner } }, deps, options);
  }
  if (await isLatest(deps, previous)) {
    try {
      const target = { address: { owner, id: previous.session_id }, claims: previous };
      return await submit(plan, target, deps, options);
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
  const branch = await branchFrom(deps, previous);
  if (!branch) return submit(plan, { address: { owner } }, deps, options);
  let inUse: string | undefined;
  try {
    const started = await submit(plan, { address: { owner, id: branch.id } }, deps, options);
    inUse = started.submitted.sessionId;
    return started;
  } finally {
    if (inUse !== branch.id) await deps.agent.sessions.deleteUnused(branch.id);
  }
}

interface Target {
  readonly address: SessionAddress;
  /** The response that this one continues in the same session. Only one response can. */
  readonly claims?: ResponseRow;
}

function submit(
  { prompt, record }: ResponsePlan,
  { address, claims }: Target,
  deps: HttpDeps,
  options: StartOptions,
): Promise<StartedRun> {
  const addressed: Prompt = {
    ...prompt,
    address,
    alsoRecord: async (tx, run) => {
      if (claims) await claimNext(tx, claims, responseIdOf(run.id));
      if (record.request.echo.store) await storeResponse(tx, run, record, deps.settings.maxStoredResponses);
    },
  };
  return startRun(addressed, deps, options);
}

/** Thrown inside the transaction of a run when another request has continued its session. */
class Overtaken extends Error {
  override readonly name = "Overtaken";
}

/** Returns true when a request may continue the session of `previous`: nothing happened there since. */
export async function isLatest({ runs }: HttpDeps, previous: ResponseRow): Promise<boolean> {
  if (previous.next_id !== null) return false;
  return !(await runs.reads.hasLaterRun(previous.session_id, previous.run_id));
}

/** Records `id` as the response that continues `previous`, inside its transaction. {@link Overtaken}. */
async function claimNext(tx: Tx, previous: ResponseRow, id: string): Promise<void> {
  const set = { next_id: id, used_at: tx.nowMs };
  if ((await tx.update("responses", { id: previous.id, next_id: null }, set)) === 1) return;
  throw new Overtaken();
}

/**
 * Creates a session with the conversation up to `previous`; undefined when that is empty. ServiceError
 * `session_busy` while `previous` is running: only one request can wait for its answer.
 */
export async function branchFrom(deps: HttpDeps, previous: ResponseRow): Promise<SessionRow | undefined> {
  return deps.store.write(async (tx) => {
    const throughSeq = await lastMessage(tx, previous, deps);
    if (throughSeq === undefined) return undefined;
    await tx.update("responses", { id: previous.id }, { used_at: tx.nowMs });
    const { session_id: id, owner } = previous;
    return branchSession(tx, { id, owner, throughSeq, source: "http" });
  });
}

/**
 * Returns the model's context of the conversation up to `previous`. ServiceError `session_busy` while it is
 * running.
 */
async function contextUpTo(deps: HttpDeps, previous: ResponseRow): Promise<readonly Message[]> {
  const { throughSeq, session } = await deps.store.write(async (tx) => {
    await tx.update("responses", { id: previous.id }, { used_at: tx.nowMs });
    return {
      throughSeq: await lastMessage(tx, previous, deps),
      session: await tx.find("sessions", { id: previous.session_id }),
    };
  });
  if (throughSeq === undefined || !session) return [];
  return deps.agent.sessions.reads.contextThrough(session, throughSeq);
}

/** Returns the number of the last message of the conversation up to `previous`. */
async function lastMessage(tx: Tx, previous: ResponseRow, { agent }: HttpDeps): Promise<number | undefined> {
  const run = await tx.find("runs", { id: previous.run_id });
  if (run && !isFinalStatus(run.status)) {
    throw new ServiceError(
      "session_busy",
      `${previous.id} is still running, and another request continues it. Wait until it ends.`,
      { param: "previous_response_id", retryAfterSeconds: 1 },
    );
  }
  // A run that was cancelled before it started has no messages. The messages before it count then.
  return agent.sessions.reads.lastMessageThrough(tx, previous.session_id, previous.run_id);
}
