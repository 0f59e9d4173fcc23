import { type Clock, waitAtMost } from "../../base/time.ts";
import { redact, type Span, type Tracer } from "../../base/observe.ts";
import {
  type Delivery,
  type SendOptions,
  type SendOutcome,
  type Target,
  canRepeat,
  parseTarget,
  type Targets,
  idProblem,
} from "../target.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { addAttempt } from "../../store/outbox/outbox.ts";
import { keptFiles, stageFiles, type OutboundFiles } from "./files.ts";

/** lost: another process may be sending the message. stopped: the service stops. */
type Cut = "lost" | "stopped";
export type AttemptEnd = SendOutcome | { readonly status: Cut };

const MAX_ERROR_CHARACTERS = 500;

interface AttemptOptions {
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly timeoutMs: number;
  /**
   * Stores how many parts have arrived. Resolves to false when the lease is lost, which ends the attempt. Default:
   * stores nothing.
   */
  readonly saveProgress?: (partsSent: number) => Promise<boolean>;
  /**
   * Stores that the request starts, before it does. Resolves to false when the lease is lost; then nothing is sent.
   * Default: stores nothing.
   */
  readonly start?: () => Promise<boolean>;
}

/**
 * One attempt at one message. It ends with the target's outcome, at its timeout, or when it is cut, whatever the target
 * does.
 */
export class Attempt {
  readonly #abort = new AbortController();
  readonly #end = Promise.withResolvers<AttemptEnd>();
  #isSent = false;

  /** Whether a part of the message may have left this machine. */
  get isSent(): boolean {
    return this.#isSent;
  }

  /** Makes the attempt. Never rejects. */ async run(
    target: Target,
    delivery: Delivery,
    options: AttemptOptions,
  ): Promise<AttemptEnd> {
    const { clock, tracer, timeoutMs } = options;
    const cancel = clock.after(timeoutMs, () => this.#finish(tooLong(timeoutMs, this.#isSent)));
    const span = startSpan(tracer, target, delivery);
    void this.#send(target, delivery, { options, span }).then(this.#end.resolve);
    const end = await this.#end.promise;
    cancel();
    if (end.status !== "delivered") span.fail(end.status);
    span.end();
    return end;
  }

  async #send(
    target: Target,
    delivery: Delivery,
    { options: { saveProgress, start }, span }: { readonly options: AttemptOptions; readonly span: Span },
  ): Promise<AttemptEnd> {
    const { signal } = this.#abort;
    try {
      if (start && !(await start())) return { status: "lost" };
      signal.throwIfAborted();
      this.#isSent = true;
      return clean(await target.send(delivery, { signal, span, progress: this.#progress(saveProgress) }));
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      return clean({ status: "retry", error: `The attempt failed: ${detail}` });
    }
  }

  #progress(saveProgress: AttemptOptions["saveProgress"]): SendOptions["progress"] {
    return async (partsSent) => {
      // After a cut another attempt at the same message may be running.
      this.#abort.signal.throwIfAborted();
      if (await (saveProgress?.(partsSent) ?? true)) return;
      this.cut("lost");
      throw new Error("The message's lease was lost.");
    };
  }

  cut(why: Cut): void {
    this.#finish({ status: why });
  }

  #finish(end: AttemptEnd): void {
    this.#end.resolve(end);
    this.#abort.abort(new Error("The attempt is over."));
  }
}

/** The span names only the platform: addresses may be private. */
function startSpan(tracer: Tracer, { name }: Target, { id, attempt, payload }: Delivery): Span {
  const { traceparent } = Object(payload) as { readonly traceparent?: unknown };
  return tracer.start(`send ${name}`, {
    kind: "producer",
    parent: typeof traceparent === "string" ? traceparent : undefined,
    attributes: {
      "messaging.operation.type": "send",
      "messaging.system": name,
      "messaging.message.id": id,
      "agentd.delivery.attempt": attempt,
    },
  });
}

function tooLong(timeoutMs: number, isSent: boolean): SendOutcome {
  const seconds = timeoutMs / 1000;
  if (isSent)
    return {
      status: "unknown",
      error: `The attempt had no outcome within ${seconds} s. The message may have arrived.`,
    };
  return { status: "retry", error: `The database did not record the attempt within ${seconds} s.` };
}

function clean(outcome: SendOutcome): SendOutcome {
  if (outcome.status === "delivered") return outcome;
  return { ...outcome, error: redact(outcome.error).slice(0, MAX_ERROR_CHARACTERS) };
}

interface SendRowOptions extends Omit<AttemptOptions, "note" | "start"> {
  readonly targets: Targets;
  /** Records the start of the request, and how many parts have arrived. */
  readonly store: Store;
  /** Absent: the lines of files stay text. */
  readonly files?: OutboundFiles | undefined;
}

/** An attempt cut by our own shutdown, on a platform that does not deduplicate. */
const CUT = {
  status: "unknown",
  error: "The service stopped during the attempt. The message may have arrived.",
} as const;

/** Makes one attempt at an outbox message whose lease the caller holds. Never rejects. */
export async function sendRow(
  row: OutboxRow,
  attempt: Attempt,
  { targets, store, files, ...options }: SendRowOptions,
): Promise<AttemptEnd> {
  const { platform } = parseTarget(row.target);
  const target = targets.get(platform);
  // Another process, newer or with other settings, may have the target.
  if (!target) {
    const hint =
      "If the name is correct, start a version of agentd that has this target; otherwise drop the message.";
    return { status: "retry", error: `This process has no delivery target ${platform}. ${hint}` };
  }
  const payload = parsePayload(row.payload);
  if (payload === undefined) return { status: "permanent", error: "The message is not valid JSON." };
  const problem = idProblem(platform, payload.value);
  if (problem !== undefined) return { status: "permanent", error: problem };
  const hasFiles = namesFiles(row);
  const staged = hasFiles
    ? await stageFiles(row, payload.value, { platform, store, files })
    : { payload: payload.value };
  if ("status" in staged) return staged;
  const kept = hasFiles ? keptFiles(staged.payload) : [];
  const delivery: Delivery = {
    id: row.id,
    address: addressOf(target, row),
    payload: staged.payload,
    ...(files && kept.length > 0 ? { files: files.open(row.id, kept) } : {}),
    ref: row.ref ?? undefined,
    attempt: row.attempts,
    partsSent: row.parts_sent,
    createdAtMs: row.created_at,
    ...(row.uncertain_at === null ? {} : { uncertainSinceMs: row.uncertain_at }),
  };
  const saveProgress = (partsSent: number) =>
    store.write((tx) => store.outbox.recordProgress(tx, row.id, partsSent));
  if (canRepeat(target, delivery)) return attempt.run(target, delivery, { ...options, saveProgress });
  const start = () => store.write((tx) => store.outbox.start(tx, row.id));
  const isStarted = row.started_at !== null;
  const end = await attempt.run(target, delivery, {
    ...options,
    saveProgress,
    ...(isStarted ? {} : { start }),
  });
  return end.status === "stopped" && attempt.isSent ? CUT : end;
}

/** The files of a message are copied before its first attempt. Most messages name none. */
function namesFiles({ payload }: Pick<OutboxRow, "payload">): boolean {
  return /"files":|MEDIA:/.test(payload);
}

/**
 * Records, inside the transaction that claims a message, that its request begins, where nothing else comes before it. So
 * the attempt needs no transaction of its own. Returns the row as it is then.
 */
export async function startClaimed(
  tx: Tx,
  { outbox }: Store,
  { row, target }: { readonly row: OutboxRow; readonly target: Target | undefined },
): Promise<OutboxRow> {
  if (!target || namesFiles(row) || canRepeatRow(target, row)) return row;
  return (await outbox.start(tx, row.id)) ? { ...row, started_at: tx.nowMs } : row;
}

/** Returns whether its target can safely send an outbox message again that may have arrived. */
export function canRepeatRow(target: Target, row: OutboxRow): boolean {
  const payload = parsePayload(row.payload)?.value;
  return canRepeat(target, { address: addressOf(target, row), payload });
}

/** An address that is only a platform means its home channel. */
function addressOf({ home }: Target, row: OutboxRow): string {
  return parseTarget(row.target).address || (home ?? "");
}

function parsePayload(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

/** Called in the transaction that gives a message its final status: delivered, dead, or unknown. */
export type Settled = (
  tx: Tx,
  row: OutboxRow,
  end: { readonly status: "delivered" } | { readonly status: "dead" | "unknown"; readonly error: string },
) => Promise<void>;

interface RecordOptions {
  /** Undefined when this process does not have the platform. */
  readonly target: Target | undefined;
  readonly rules: RetryRules;
  readonly settled?: Settled | undefined;
  /** Present: the sender leases the next message of the ordering key for this time, and sends it next. */
  readonly nextLeaseMs?: number | undefined;
}

type Written = Decision | { readonly status: "released" };

/** What was written. `lost`: nothing, because another process holds the lease. */
export type Recorded = Written | { readonly status: "lost" };

/** `next`: the next message of the ordering key, which this sender holds now. */
interface RecordedEnd {
  readonly recorded: Recorded;
  readonly next?: OutboxRow;
}

/** Runs {@link recordIn} in a transaction of its own. */
export async function recordEnd(
  store: Store,
  row: OutboxRow,
  end: AttemptEnd,
  options: RecordOptions,
): Promise<RecordedEnd> {
  // The random number is drawn before the transaction, which may run twice.
  const drawn = options.rules.random();
  const rules = { ...options.rules, random: () => drawn };
  return store.write((tx) => recordIn(tx, store, { row, end }, { ...options, rules }));
}

/**
 * Records the outcome of an attempt: delivered, due again, unknown or dead. An attempt that our own shutdown cut is
 * released and does not count.
 */
async function recordIn(
  tx: Tx,
  store: Store,
  { row, end }: { readonly row: OutboxRow; readonly end: AttemptEnd },
  { target, rules, settled, nextLeaseMs }: RecordOptions,
): Promise<RecordedEnd> {
  const recorded = decide(end, (outcome) => evaluate(outcome, row, { target, rules, nowMs: tx.nowMs }));
  if (recorded.status === "lost") return { recorded };
  await storeAttempt(tx, store, { row, end });
  if (recorded.status === "released" || recorded.status === "again") {
    const isHeld = await postpone(tx, store, row.id, recorded);
    return { recorded: isHeld ? recorded : { status: "lost" } };
  }
  const ended = await store.outbox.end(tx, row.id, { ...recorded, nextLeaseMs });
  if (!ended) return { recorded: { status: "lost" } };
  await settled?.(tx, row, recorded);
  // The messages of one ordering key have one target.
  const { next } = ended;
  return next ? { recorded, next: await startClaimed(tx, store, { row: next, target }) } : { recorded };
}

/** Appends the outcome to the attempt log of the message, before its lease ends. */
export async function storeAttempt(
  tx: Tx,
  { outbox }: Store,
  { row, end }: { readonly row: OutboxRow; readonly end: AttemptEnd },
): Promise<void> {
  const isUncertain = end.status === "unknown" || end.status === "stopped";
  await outbox.recordAttempt(tx, row.id, { attemptLog: attemptLogOf(row, end, tx.nowMs), isUncertain });
}

function attemptLogOf(row: OutboxRow, end: AttemptEnd, nowMs: number): string {
  const begunMs = row.attempted_at ?? nowMs;
  const error = "error" in end ? { error: end.error } : {};
  return addAttempt(row.attempt_log, {
    atMs: begunMs,
    tookMs: nowMs - begunMs,
    outcome: end.status,
    ...error,
  });
}

function decide(end: AttemptEnd, evaluated: (outcome: SendOutcome) => Decision): Recorded {
  switch (end.status) {
    case "stopped":
      return { status: "released" };
    case "lost":
      return { status: "lost" };
    default:
      return evaluated(end);
  }
}

/** Makes the message due again. Resolves to false when the lease was lost. */
function postpone(
  tx: Tx,
  { outbox }: Store,
  id: string,
  decision: Extract<Written, { readonly status: "again" | "released" }>,
): Promise<boolean> {
  if (decision.status === "released") return outbox.release(tx, id);
  const { error, delayMs, isCounted } = decision;
  return outbox.retryAt(tx, id, { error, atMs: tx.nowMs + delayMs, isCounted });
}

/** What happens to a message after an attempt. */
type Decision =
  | { readonly status: "delivered" }
  /** It is retried. With `isCounted` false the attempt does not count. */
  | {
      readonly status: "again";
      readonly error: string;
      readonly delayMs: number;
      readonly isCounted: boolean;
    }
  /** No attempt is left. */
  | { readonly status: "dead"; readonly error: string }
  /** It may have arrived and is not sent again. */
  | { readonly status: "unknown"; readonly error: string };

/** Longest wait that a platform may ask for, and longest total time that it may throttle a message. */
const MAX_WAIT_MS = 86_400_000;
/** Shortest wait after a throttled attempt, even when the platform asks for less. */
const MIN_THROTTLED_MS = 1_000;

export type AttemptCounts = Pick<OutboxRow, "attempts" | "max_attempts" | "created_at" | "retried_at">;

/** Returns the retry rules of a target: its own delays take precedence over those of the configuration. */
export function rulesFor(target: Target | undefined, rules: RetryRules): RetryRules {
  return target?.retryDelaysMs ? { ...rules, delaysMs: target.retryDelaysMs } : rules;
}

/** Returns how many attempts a message has in total. */
export function attemptsOf(
  { max_attempts: own }: Pick<AttemptCounts, "max_attempts">,
  rules: RetryRules,
): number {
  return own > 0 ? own : rules.delaysMs.length + 1;
}

/**
 * Decides what follows from the outcome of an attempt that `row` already counts. `rules` are those of {@link rulesFor}.
 */
export function evaluate(
  outcome: SendOutcome,
  row: AttemptCounts,
  {
    target,
    rules,
    nowMs,
  }: { readonly target: Target | undefined; readonly rules: RetryRules; readonly nowMs: number },
): Decision {
  switch (outcome.status) {
    case "delivered":
      return outcome;
    case "permanent":
      return { status: "dead", error: outcome.error };
    case "unknown":
      return target?.supportsIdempotency && !outcome.isFinal && !isLast(row, rules)
        ? again(outcome.error, retryDelayMs(row.attempts, rules))
        : { status: "unknown", error: outcome.error };
    case "retry": {
      const { error, afterMs, isThrottled = false } = outcome;
      const delayMs = Math.min(Math.max(0, afterMs ?? retryDelayMs(row.attempts, rules)), MAX_WAIT_MS);
      if (isThrottled) return throttled(error, row, { delayMs: Math.max(delayMs, MIN_THROTTLED_MS), nowMs });
      return isLast(row, rules) ? { status: "dead", error } : again(error, delayMs);
    }
  }
}

function isLast(row: AttemptCounts, rules: RetryRules): boolean {
  return row.attempts >= attemptsOf(row, rules);
}

function again(error: string, delayMs: number): Decision {
  return { status: "again", error, delayMs, isCounted: true };
}

function throttled(
  error: string,
  { created_at: createdAt, retried_at: retriedAt }: AttemptCounts,
  { delayMs, nowMs }: { readonly delayMs: number; readonly nowMs: number },
): Decision {
  const isTooOld = nowMs + delayMs - (retriedAt ?? createdAt) > MAX_WAIT_MS;
  if (!isTooOld) return { status: "again", error, delayMs, isCounted: false };
  return {
    status: "dead",
    error: `${error} The platform throttled it for a day. Retry the message when the platform accepts messages again.`,
  };
}

/** How messages are retried. */
export interface RetryRules {
  /** Delays before each retry, milliseconds. Further retries repeat the last delay. */
  readonly delaysMs: readonly number[];
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
}

export const DEFAULT_RETRY_DELAYS_MS: readonly number[] = [60_000, 300_000, 1_800_000];

/** Messages that failed together are not retried at the same instant. */
const JITTER = 0.1;

/** Returns the delay after attempt number `attempt` (1 for the first): the delay of the rules plus up to a tenth. */
export function retryDelayMs(attempt: number, { delaysMs, random }: RetryRules): number {
  const [fallback = 0] = DEFAULT_RETRY_DELAYS_MS;
  const delayMs = delaysMs[attempt - 1] ?? delaysMs.at(-1) ?? fallback;
  return Math.floor(delayMs * (1 + JITTER * random()));
}

interface DirectSendsOptions {
  readonly targets: Targets;
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly store: Store;
  /** Delays before each retry where the target has none of its own, milliseconds. */
  readonly retryDelaysMs: readonly number[];
}

/** Makes attempts at messages whose senders wait for the outcome; the callers hold the leases. */
export class DirectSends {
  readonly #options: DirectSendsOptions;
  readonly #attempts = new Map<Attempt, Promise<AttemptEnd>>();
  #isClosed = false;

  constructor(options: DirectSendsOptions) {
    this.#options = options;
  }

  /** Makes one attempt. `stopped`: the service stops, and the message will be sent again. Never rejects. */
  async send(row: OutboxRow, timeoutMs: number): Promise<AttemptEnd> {
    if (this.#isClosed) return { status: "stopped" };
    const { platform } = parseTarget(row.target);
    if (this.#options.targets.get(platform)?.isReady?.() === false) return notReady(platform);
    const attempt = new Attempt();
    const end = sendRow(row, attempt, { ...this.#options, timeoutMs });
    this.#attempts.set(attempt, end);
    await end;
    this.#attempts.delete(attempt);
    return end;
  }

  /**
   * Records the outcome of an attempt like the dispatcher, which sends the message from then on if it is still pending.
   */
  async record(tx: Tx, row: OutboxRow, end: AttemptEnd): Promise<Recorded> {
    const { targets, store, retryDelaysMs: delaysMs } = this.#options;
    const target = targets.get(parseTarget(row.target).platform);
    const rules = rulesFor(target, { delaysMs, random: Math.random });
    const { recorded } = await recordIn(tx, store, { row, end }, { target, rules });
    return recorded;
  }

  /** Waits up to `graceMs` for the running attempts and cuts the rest. */
  async close(graceMs: number): Promise<void> {
    await waitAtMost(this.#options.clock, graceMs, Promise.all(this.#attempts.values()));
    this.#isClosed = true;
    for (const attempt of this.#attempts.keys()) attempt.cut("stopped");
    await Promise.all(this.#attempts.values());
  }
}

/** Another process may hold the platform's only connection, or the platform asked to wait. */
function notReady(platform: string): AttemptEnd {
  return {
    status: "retry",
    isThrottled: true,
    error: `${platform} accepts no messages from this process for now.`,
  };
}
