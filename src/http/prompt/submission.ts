import type { RunEvent } from "../../../generated/http/client/types.gen.ts";
import { isFinalEvent, toRunEvent } from "../../agent/run/event.ts";
import type { Prompt, Submitted } from "../../agent/run/prompt.ts";
import { isFinalStatus } from "../../agent/run/run.ts";
import { nameOfId } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import {
  claimKey,
  findRepeated,
  forgetKey,
  RepeatedRequest,
  type IdempotencyClaim,
} from "../edge/idempotency.ts";
import { inTurn } from "../edge/in-turn.ts";
import type { HttpDeps } from "../deps.ts";

export type EventGroups = AsyncIterable<readonly JournalEvent[]>;

/** A run that a request made, or made before. */
export interface StartedRun {
  readonly submitted: Submitted;
  /** All events of the run, from its first. Undefined unless asked for. */
  readonly events: EventGroups;
  /** True when the Idempotency-Key of the request had made the run before. */
  readonly replayed: boolean;
  /** True when another request began the run: it does not end because the client of this one leaves. */
  readonly isJoined: boolean;
}

export interface StartOptions {
  readonly claim: IdempotencyClaim | undefined;
  readonly signal: AbortSignal;
}

/**
 * Submits a prompt and follows its run from before its first event is committed. A request that was made before under
 * the same Idempotency-Key joins its run instead. ServiceErrors of {@link Turns.submit}, `idempotency_key_conflict`.
 */
export async function startRun(prompt: Prompt, deps: HttpDeps, options: StartOptions): Promise<StartedRun> {
  const { claim } = options;
  if (claim === undefined) return submit(prompt, deps, options);
  return inTurn(deps.store, claim, () => startOnce(prompt, deps, { ...options, claim }));
}

async function startOnce(
  prompt: Prompt,
  deps: HttpDeps,
  options: StartOptions & { readonly claim: IdempotencyClaim },
): Promise<StartedRun> {
  const joined = await joinRepeated(deps, options);
  if (joined) return joined;
  try {
    return await submit(withClaim(prompt, deps, options.claim), deps, options);
  } catch (error) {
    if (!(error instanceof RepeatedRequest)) throw error;
    const other = await join(error.runId, deps, options);
    if (other) return other;
    throw new ServiceError("session_busy", "The same request is being made. Try again.", { cause: error });
  }
}

/**
 * The run of a request that was made before under the same Idempotency-Key; undefined for a new one. For those who have
 * work to do before they can submit. ServiceError `idempotency_key_conflict`.
 */
export async function joinRepeated(deps: HttpDeps, options: StartOptions): Promise<StartedRun | undefined> {
  if (options.claim === undefined) return undefined;
  const known = await findRepeated(deps.store, options.claim);
  return known === undefined ? undefined : join(known, deps, options);
}

/**
 * Claims the key for the run, in the transaction that records it or gives it the text. RepeatedRequest when another run has
 * the key.
 */
export function withClaim(prompt: Prompt, { store }: HttpDeps, claim: IdempotencyClaim): Prompt {
  const { alsoRecord, alsoSteer } = prompt;
  const claimed: Prompt = {
    ...prompt,
    alsoRecord: async (tx, run) => {
      await claimKey(tx, store, { claim, runId: run.id });
      await alsoRecord?.(tx, run);
    },
  };
  if (alsoRecord && !alsoSteer) return claimed;
  return {
    ...claimed,
    alsoSteer: async (tx, runId) => {
      await claimKey(tx, store, { claim, runId });
      await alsoSteer?.(tx, runId);
    },
  };
}

async function submit(prompt: Prompt, deps: HttpDeps, { signal }: StartOptions): Promise<StartedRun> {
  const { journal } = deps.store;
  let events: EventGroups | undefined;
  const beforeStart = (runId: string) => {
    events = journal.follow({ runId }, { fresh: true, signal });
  };
  try {
    const submitted = await deps.runs.submit({ ...prompt, beforeStart });
    const followed = events ?? journal.follow({ runId: submitted.runId }, { signal });
    return { submitted, events: followed, replayed: false, isJoined: submitted.status === "steered" };
  } catch (error) {
    if (events) await end(events);
    throw error;
  }
}

/** The run of a request that was made before; undefined when it is gone, and with it what the key stood for. */
async function join(
  runId: string,
  { store }: HttpDeps,
  { claim, signal }: StartOptions,
): Promise<StartedRun | undefined> {
  const run = await store.read
    .selectFrom("runs")
    .innerJoin("sessions", "sessions.id", "runs.session_id")
    .select(["runs.status", "runs.session_id", "runs.model", "runs.created_at", "sessions.session_key"])
    .where("runs.id", "=", runId)
    .executeTakeFirst();
  if (!run) {
    if (claim) await forgetKey(store, claim, runId);
    return undefined;
  }
  if (isFinalStatus(run.status)) await requireEvents(store, runId);
  return {
    submitted: {
      runId,
      sessionId: run.session_id,
      sessionKey: run.session_key,
      model: run.model,
      createdAtMs: run.created_at,
      status: run.status === "queued" ? "queued" : "running",
    },
    events: store.journal.follow({ runId }, { signal }),
    replayed: true,
    isJoined: true,
  };
}

async function requireEvents(store: HttpDeps["store"], runId: string): Promise<void> {
  const [first] = await store.journal.read({ runId }, { limit: 1 });
  if (first) return;
  throw new ServiceError(
    "idempotency_key_conflict",
    `The run ${runId} of this Idempotency-Key is over and its events are no longer kept. Use a new key.`,
    { param: "Idempotency-Key" },
  );
}

/** The events of a run up to its final one. */
export async function* runEvents(groups: EventGroups): AsyncGenerator<RunEvent> {
  for await (const group of groups) {
    for (const entry of group) {
      const event = toRunEvent(entry);
      yield event;
      if (isFinalEvent(event.event)) return;
    }
  }
}

/** Cancels the run when the client leaves; the returned function ends the watch. */
export function stopWhenGone(signal: AbortSignal, runId: string, deps: HttpDeps): () => void {
  const stop = () => {
    deps.runs.stop(runId, "the client left").catch((error: unknown) => {
      deps.log.error("a run could not be stopped", { run: runId, error });
    });
  };
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  return () => signal.removeEventListener("abort", stop);
}

/** Headers that every answer about a new run carries. */
export function runHeaders({ submitted, replayed }: Pick<StartedRun, "submitted" | "replayed">) {
  return {
    "x-agent-run-id": submitted.runId,
    "x-agent-session-id": nameOfId(submitted.sessionId),
    "x-agent-model": submitted.model,
    ...(submitted.sessionKey === null ? {} : { "x-agent-session-key": submitted.sessionKey }),
    ...(replayed ? { "idempotency-replayed": "true" } : {}),
  };
}

async function end(events: EventGroups): Promise<void> {
  await events[Symbol.asyncIterator]().return?.();
}
