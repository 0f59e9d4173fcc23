import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { addAttempt } from "../../store/outbox/outbox.ts";
import type { AttemptEnd } from "./attempt.ts";
import type { SendOutcome, Target } from "../target.ts";

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
}

type Written = Decision | { readonly status: "released" };

/** What was written. `lost`: nothing, because another process holds the lease. */
export type Recorded = Written | { readonly status: "lost" };

/** Runs {@link recordIn} in a transaction of its own. */
export async function recordEnd(
  store: Store,
  row: OutboxRow,
  end: AttemptEnd,
  options: RecordOptions,
): Promise<Recorded> {
  // The random number is drawn before the transaction, which may run twice.
  const drawn = options.rules.random();
  const rules = { ...options.rules, random: () => drawn };
  return store.write((tx) => recordIn(tx, store, { row, end }, { ...options, rules }));
}

/**
 * Records the outcome of an attempt: delivered, due again, unknown or dead. An attempt that our own shutdown cut is
 * released and does not count.
 */
export async function recordIn(
  tx: Tx,
  store: Store,
  { row, end }: { readonly row: OutboxRow; readonly end: AttemptEnd },
  { target, rules, settled }: RecordOptions,
): Promise<Recorded> {
  const decision = decide(end, (outcome) => evaluate(outcome, row, { target, rules, nowMs: tx.nowMs }));
  if (decision.status === "lost") return decision;
  await storeAttempt(tx, store, { row, end });
  if (!(await write(tx, store, row.id, decision))) return { status: "lost" };
  if (decision.status !== "released" && decision.status !== "again") await settled?.(tx, row, decision);
  return decision;
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

/** Resolves to false when the lease was lost. */
function write(tx: Tx, { outbox }: Store, id: string, decision: Written): Promise<boolean> {
  switch (decision.status) {
    case "delivered":
      return outbox.delivered(tx, id);
    case "again": {
      const { error, delayMs, isCounted } = decision;
      return outbox.retryAt(tx, id, { error, atMs: tx.nowMs + delayMs, isCounted });
    }
    case "dead":
      return outbox.dead(tx, id, decision.error);
    case "unknown":
      return outbox.unknown(tx, id, decision.error);
    case "released":
      return outbox.release(tx, id);
  }
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
