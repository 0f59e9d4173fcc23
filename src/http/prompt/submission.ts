import type { RunEvent, ErrorEnvelope } from "../../../generated/http/client/types.gen.ts";
import { isFinalEvent, toRunEvent, type Prompt, type Submitted, isFinalStatus } from "../../agent/run/run.ts";
import { nameOfId } from "../../agent/session/session.ts";
import { ServiceError, errorTable, type ErrorCode } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { HttpDeps, HttpContext } from "../deps.ts";
import { errorEnvelope, retryHeaders, type Headers } from "../edge/answer.ts";
import { waitAtMost, type Clock } from "../../base/time.ts";
import { sha256 } from "../../base/text.ts";
import type { ClaimRequest } from "../../store/leases.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { LedgerRow } from "../../store/schema/tables.ts";

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
  { store, runs }: HttpDeps,
  { claim, signal }: StartOptions,
): Promise<StartedRun | undefined> {
  const submitted = await runs.reads.findSubmission(runId);
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
export async function* runEvents(groups: EventGroups): AsyncGenerator<RunEvent, void> {
  for await (const group of groups) {
    for (const entry of group) {
      const event = toRunEvent(entry);
      yield event;
      if (isFinalEvent(event.event)) return;
    }
  }
}

/** The start of an answer that is a stream. */
export interface OpenedAnswer {
  /** The run's events, from the first. */
  readonly events: AsyncIterable<RunEvent>;
  /** Set when the run failed before it had anything to show: the answer can still have the status of the failure. */
  readonly failure?: ServiceError | undefined;
  /** The final event behind `failure`. */
  readonly end?: RunEvent | undefined;
}

/** How long the status of a stream waits for the first word: clients retry a failed request, not a failed stream. */
const FIRST_WORD_MS = 5_000;

/** How long it waits for a queued run to start: a client behind other prompts learns its run's id now, not later. */
const START_MS = 1_000;

/** Waits for the first event of a run that its client can see, or for some time. */
export async function openAnswer(groups: EventGroups, clock: Clock): Promise<OpenedAnswer> {
  const events = runEvents(groups);
  const openedAtMs = clock.now();
  let untilMs = openedAtMs + START_MS;
  const seen: RunEvent[] = [];
  let next = events.next();
  for (;;) {
    // A failing store is reported when the stream reads it.
    next.catch(() => {});
    const result = await waitAtMost(clock, Math.max(0, untilMs - clock.now()), next);
    if (result === undefined || result.done === true) break;
    seen.push(result.value);
    if (result.value.event === "run.started") untilMs = openedAtMs + FIRST_WORD_MS;
    const failure = failureOf(result.value);
    if (failure) return { events, failure, end: result.value };
    next = events.next();
    if (!SILENT.has(result.value.event)) break;
  }
  return { events: resumed(seen, next, events) };
}

/** Events that show nothing of the answer. */
const SILENT: ReadonlySet<RunEvent["event"]> = new Set([
  "run.queued",
  "run.started",
  "run.notice",
  "run.steer_accepted",
  "run.steered",
  "usage.updated",
]);

async function* resumed(
  seen: readonly RunEvent[],
  next: Promise<IteratorResult<RunEvent, void>>,
  events: AsyncGenerator<RunEvent, void>,
): AsyncGenerator<RunEvent> {
  try {
    yield* seen;
    const { done, value } = await next;
    if (done !== true && value) yield value;
    yield* events;
  } finally {
    await events.return();
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

interface FailureContext {
  readonly headers: Headers;
  /** Whether a tool of the agent ran. */
  readonly toolRan: boolean;
  /** The final event of the run. */
  readonly event?: RunEvent | undefined;
  /** `param` of the error, which is about no field. */
  readonly noParam?: "" | null;
}

/** Returns true for a run that would end the same way again, or that a client stopped. */
function wouldRepeat(event: RunEvent | undefined): boolean {
  if (event?.event === "run.cancelled") return true;
  return event?.event === "run.failed" && event.failure?.retryable === false;
}

/**
 * Returns the answer to a request whose run failed. After a tool ran, it asks clients not to retry: a retry would
 * repeat the tool's effects.
 */
export function failedAnswer(
  failure: ServiceError,
  { headers, toolRan, event, noParam }: FailureContext,
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
      ...(toolRan || wouldRepeat(event) ? { "x-should-retry": "false" } : {}),
    },
    body: errorEnvelope(failure, noParam),
  };
}

/** Returns the error for answers that are still waiting when the server shuts down. */
export function shuttingDown(): ServiceError {
  return new ServiceError("server_draining", "The server is shutting down.", { retryAfterSeconds: 1 });
}

/** Identifies a request that must not run twice. */
export type IdempotencyClaim = Pick<ClaimRequest, "scope" | "key" | "fingerprint">;

interface Repeatable {
  readonly ctx: HttpContext;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: unknown;
}

/**
 * Returns the claim of a request with an Idempotency-Key, else undefined. The fingerprint covers the body in
 * canonical form (RFC 8785), and the headers that change the result.
 */
export function idempotencyOf(operation: string, request: Repeatable): IdempotencyClaim | undefined {
  const { ctx, headers, body } = request;
  const key = headers["idempotency-key"];
  if (key === undefined) return undefined;
  const content = [body, ...FINGERPRINTED.map((name) => headers[name] ?? null)];
  const fingerprint = sha256(canonicalJson(content));
  return { scope: `idempotency:${ctx.identity.owner}:${operation}`, key, fingerprint };
}

const FINGERPRINTED = ["x-agent-session-id", "x-agent-session-key", "x-agent-model"];

/** The stored result of a key: the run that the first request started. */
interface StoredResult {
  readonly run_id: string;
}

/** Returns the run that an earlier, equal request started. ServiceError `idempotency_key_conflict`. */
export async function findRepeated(store: Store, claim: IdempotencyClaim): Promise<string | undefined> {
  const { scope, key } = claim;
  const row = await store.find("ledger", { scope, key });
  return row === undefined ? undefined : runOf(row, claim);
}

/** Thrown inside the transaction of a run when an earlier request has the key. */
export class RepeatedRequest extends Error {
  override readonly name = "RepeatedRequest";
  readonly runId: string;

  constructor(runId: string) {
    super("An earlier request has this Idempotency-Key.");
    this.runId = runId;
  }
}

/**
 * Claims the key for a run, in the transaction that records the run. RepeatedRequest when another run has the key;
 * ServiceError `idempotency_key_conflict`.
 */
async function claimKey(
  tx: Tx,
  store: Store,
  { claim, runId }: { readonly claim: IdempotencyClaim; readonly runId: string },
): Promise<void> {
  const kept: StoredResult = { run_id: runId };
  const taken = await store.ledger.record(tx, { ...claim, result: kept, keepMs: KEEP_MS });
  if (!taken.claimed) throw new RepeatedRequest(runOf(taken.row, claim));
}

/** Deletes a key whose run no longer exists. Runs expire some time after their end, and their keys with them. */
export async function deleteKey(
  store: Store,
  { scope, key }: IdempotencyClaim,
  runId: string,
): Promise<void> {
  const kept: StoredResult = { run_id: runId };
  await store.write((tx) => store.ledger.forget(tx, { scope, key }, kept));
}

/** Longer than runs are normally kept. A key without a run is deleted when a request uses it. */
const KEEP_MS = 30 * 86_400_000;

function runOf(row: LedgerRow, { fingerprint }: IdempotencyClaim): string {
  if (row.fingerprint !== fingerprint) {
    throw new ServiceError(
      "idempotency_key_conflict",
      "Another request used this Idempotency-Key. Use a new key for each request.",
      { param: "Idempotency-Key" },
    );
  }
  return (JSON.parse(row.result ?? "{}") as StoredResult).run_id;
}

/**
 * Returns JSON with sorted object members, so that equal values give equal text (RFC 8785; JavaScript already
 * prints numbers this way).
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  });
}

/** The newest work of each key in this process. Between processes, the transaction that claims the key decides. */
const queues = new WeakMap<Store, Map<string, Promise<unknown>>>();

/**
 * Runs `work` after earlier work of the same Idempotency-Key. Until the first request records its run, a repeated
 * one would count as another run and could hit a limit.
 */
export async function serialize<T>(
  store: Store,
  claim: IdempotencyClaim | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (claim === undefined) return work();
  const queue = queues.get(store) ?? new Map<string, Promise<unknown>>();
  queues.set(store, queue);
  const key = JSON.stringify([claim.scope, claim.key]);
  const before = queue.get(key);
  const own = (async () => {
    await before?.catch(() => {});
    return work();
  })();
  queue.set(key, own);
  try {
    return await own;
  } finally {
    if (queue.get(key) === own) queue.delete(key);
  }
}
