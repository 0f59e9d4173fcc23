import type { RunEvent, ErrorEnvelope } from "../../../generated/http/client/types.gen.ts";
import { isFinalEvent, toRunEvent } from "../../agent/run/event.ts";
import type { Prompt, Submitted } from "../../agent/run/prompt.ts";
import { findSubmission } from "../../agent/run/queries.ts";
import { isFinalStatus } from "../../agent/run/run.ts";
import { nameOfId } from "../../agent/session/session.ts";
import { ServiceError, errorTable, type ErrorCode } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import {
  claimKey,
  findRepeated,
  deleteKey,
  RepeatedRequest,
  type IdempotencyClaim,
  serialize,
} from "../edge/idempotency.ts";
import type { HttpDeps } from "../deps.ts";
import { errorEnvelope, retryHeaders, type Headers } from "../edge/answer.ts";

export type EventGroups = AsyncIterable<readonly JournalEvent[]>;

/** A run that this request, or an equal earlier one, started. */
export interface StartedRun {
  readonly submitted: Submitted;
  /** All events of the run, from the first. */
  readonly events: EventGroups;
  /** True when an earlier request with the same Idempotency-Key started the run. */
  readonly replayed: boolean;
  /** True when another request started the run. The run then continues when this client leaves. */
  readonly isJoined: boolean;
}

export interface StartOptions {
  readonly claim: IdempotencyClaim | undefined;
  readonly signal: AbortSignal;
}

/**
 * Submits a prompt and follows its run from before its first event is committed. A repeated request with the same
 * Idempotency-Key joins its run instead. ServiceErrors of {@link Turns.submit}, `idempotency_key_conflict`.
 */
export async function startRun(prompt: Prompt, deps: HttpDeps, options: StartOptions): Promise<StartedRun> {
  const { claim } = options;
  if (claim === undefined) return submit(prompt, deps, options);
  return serialize(deps.store, claim, () => startOnce(prompt, deps, { ...options, claim }));
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
    throw new ServiceError("session_busy", "An equal request is in progress. Try again.", { cause: error });
  }
}

/**
 * Joins the run of an earlier request with the same Idempotency-Key; undefined for a new request. For callers that
 * prepare work before they submit. ServiceError `idempotency_key_conflict`.
 */
export async function joinRepeated(deps: HttpDeps, options: StartOptions): Promise<StartedRun | undefined> {
  if (options.claim === undefined) return undefined;
  const earlier = await findRepeated(deps.store, options.claim);
  return earlier === undefined ? undefined : join(earlier, deps, options);
}

/**
 * Claims the key in the transaction that records the run, or that steers a text into one. RepeatedRequest when
 * another run has the key.
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

/** Joins a stored run. Undefined when the run is gone; its key is then free again. */
async function join(
  runId: string,
  { store }: HttpDeps,
  { claim, signal }: StartOptions,
): Promise<StartedRun | undefined> {
  const submitted = await findSubmission(store, runId);
  if (!submitted) {
    if (claim) await deleteKey(store, claim, runId);
    return undefined;
  }
  if (isFinalStatus(submitted.runStatus)) await requireEvents(store, runId);
  const events = store.journal.follow({ runId }, { signal });
  return { submitted, events, replayed: true, isJoined: true };
}

async function requireEvents(store: HttpDeps["store"], runId: string): Promise<void> {
  const [first] = await store.journal.read({ runId }, { limit: 1 });
  if (first) return;
  throw new ServiceError(
    "idempotency_key_conflict",
    `The run ${runId} of this Idempotency-Key has ended, and its events have expired. Use a new key.`,
    { param: "Idempotency-Key" },
  );
}

/** Yields the events of a run up to its final one. */
export async function* runEvents(groups: EventGroups): AsyncGenerator<RunEvent> {
  for await (const group of groups) {
    for (const entry of group) {
      const event = toRunEvent(entry);
      yield event;
      if (isFinalEvent(event.event)) return;
    }
  }
}

/** Cancels the run when the client leaves. The returned function stops watching. */
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

/** Returns the headers of every answer about a new run. */
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

/** Returns the error that a run's final event means for a waiting client; undefined for other events. */
export function failureOf(event: RunEvent): ServiceError | undefined {
  if (event.event === "run.failed") {
    const { code, message } = event.error;
    const ownCode: ErrorCode = Object.hasOwn(errorTable, code) ? (code as ErrorCode) : "internal_error";
    // The server accepted the model's name. A provider that does not have it is a provider error, not a bad
    // request.
    const { retry_after_seconds: retryAfterSeconds } = event;
    const options = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
    return new ServiceError(ownCode === "model_not_found" ? "provider_error" : ownCode, message, options);
  }
  if (event.event === "run.cancelled") {
    return new ServiceError("agent_incomplete", "The run was stopped before it finished.");
  }
  return event.event === "run.interrupted"
    ? new ServiceError("agent_incomplete", event.error.message)
    : undefined;
}

/**
 * Returns the answer to a request whose run failed. After a tool ran, it asks clients not to retry: a retry would
 * repeat the tool's effects.
 */
export function failedAnswer(
  failure: ServiceError,
  { headers, toolRan }: { readonly headers: Headers; readonly toolRan: boolean },
): {
  readonly status: 500 | 502 | 504;
  readonly headers: Headers;
  readonly body: ErrorEnvelope;
} {
  return {
    status: failure.row.http as 500 | 502 | 504,
    headers: {
      ...headers,
      ...retryHeaders(failure),
      ...(toolRan ? { "x-should-retry": "false" } : {}),
    },
    body: errorEnvelope(failure),
  };
}

/** Returns the error for answers that are still waiting when the server shuts down. */
export function shuttingDown(): ServiceError {
  return new ServiceError("server_draining", "The server is shutting down.", { retryAfterSeconds: 1 });
}
