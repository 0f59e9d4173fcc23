import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { addTry } from "../../store/outbox/attempts.ts";
import type { AttemptEnd } from "./attempt.ts";
import type { SendOutcome, Target } from "../target.ts";

/**
 * Called in the transaction that records that a message was delivered, is given up, or may have arrived and is not sent
 * again.
 */
export type Settled = (
  tx: Tx,
  row: OutboxRow,
  end: { readonly status: "delivered" } | { readonly status: "dead" | "unknown"; readonly error: string },
) => Promise<void>;

interface RecordOptions {
  /** Undefined where nobody knows the platform. */
  readonly target: Target | undefined;
  readonly rules: RetryRules;
  readonly settled?: Settled | undefined;
}

type Written = Decision | { readonly status: "released" };

/** What was written; `lost`: nothing, since somebody else answers for the message. */
export type Recorded = Written | { readonly status: "lost" };

/** {@link recordIn} in a transaction of its own. */
export async function recordEnd(
  store: Store,
  row: OutboxRow,
  end: AttemptEnd,
  options: RecordOptions,
): Promise<Recorded> {
  // Drawn before the transaction, which may run twice.
  const drawn = options.rules.random();
  const rules = { ...options.rules, random: () => drawn };
  return store.write((tx) => recordIn(tx, store, { row, end }, { ...options, rules }));
}

/**
 * Writes how an attempt went: delivered, due again, unknown or given up. What was cut by our own shutdown is given back
 * with its attempt.
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

/** Keeps how an attempt ended among those of its message, before its lease ends. */
export async function storeAttempt(
  tx: Tx,
  { outbox }: Store,
  { row, end }: { readonly row: OutboxRow; readonly end: AttemptEnd },
): Promise<void> {
  const isUncertain = end.status === "unknown" || end.status === "stopped";
  await outbox.note(tx, row.id, { attemptLog: attemptLogOf(row, end, tx.nowMs), isUncertain });
}

function attemptLogOf(row: OutboxRow, end: AttemptEnd, nowMs: number): string {
  const begunMs = row.tried_at ?? nowMs;
  const error = "error" in end ? { error: end.error } : {};
  return addTry(row.attempt_log, { atMs: begunMs, tookMs: nowMs - begunMs, outcome: end.status, ...error });
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

/** False when the lease was lost. */
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

/** What becomes of a message after an attempt. */
type Decision =
  | { readonly status: "delivered" }
  /** It is tried again; with `isCounted` false the attempt is as if it had not been. */
  | {
      readonly status: "again";
      readonly error: string;
      readonly delayMs: number;
      readonly isCounted: boolean;
    }
  /** It is given up. */
  | { readonly status: "dead"; readonly error: string }
  /** It may have arrived, and is not sent again. */
  | { readonly status: "unknown"; readonly error: string };

/** Longest that a platform may ask to wait, and longest that it may ask to slow down for, in all. */
const MAX_WAIT_MS = 86_400_000;
/** A platform that asks to slow down, and to come back at once, is not asked at once. */
const MIN_THROTTLED_MS = 1_000;

export type AttemptCounts = Pick<OutboxRow, "attempts" | "max_attempts" | "created_at" | "retried_at">;

/** The rules of a target: its own waits go before those of the configuration. */
export function rulesFor(target: Target | undefined, rules: RetryRules): RetryRules {
  return target?.retryDelaysMs ? { ...rules, delaysMs: target.retryDelaysMs } : rules;
}

/** Attempts that a message has in all. */
export function attemptsOf(
  { max_attempts: own }: Pick<AttemptCounts, "max_attempts">,
  rules: RetryRules,
): number {
  return own > 0 ? own : rules.delaysMs.length + 1;
}

/**
 * Judges the attempt that `row` counts already. `target` is undefined where nobody knows the platform; `rules` are
 * those of {@link rulesFor}.
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
    error: `${error} It was put off for a day: retry it once the platform takes messages again.`,
  };
}

/** How messages are tried again. */
export interface RetryRules {
  /** Waits before each further attempt, milliseconds; where more attempts are asked for, the last one is repeated. */
  readonly delaysMs: readonly number[];
  /** 0 up to, but not, 1. */
  readonly random: () => number;
}

export const DEFAULT_RETRY_DELAYS_MS: readonly number[] = [60_000, 300_000, 1_800_000];

/** What failed together does not come back together. */
const JITTER = 0.1;

/** How long to wait after that attempt, 1 for the first: as the rules say, and up to a tenth more. */
export function retryDelayMs(attempt: number, { delaysMs, random }: RetryRules): number {
  const [fallback = 0] = DEFAULT_RETRY_DELAYS_MS;
  const delayMs = delaysMs[attempt - 1] ?? delaysMs.at(-1) ?? fallback;
  return Math.floor(delayMs * (1 + JITTER * random()));
}
