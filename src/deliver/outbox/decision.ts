import type { OutboxRow } from "../../store/schema/tables.ts";
import { retryDelayMs, type RetryRules } from "./backoff.ts";
import type { SendOutcome, Target } from "../target.ts";

/** What becomes of a message after an attempt. */
export type Verdict =
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
const MAX_ASKED_MS = 86_400_000;
/** A platform that asks to slow down, and to come back at once, is not asked at once. */
const MIN_THROTTLED_MS = 1_000;

export type Tried = Pick<OutboxRow, "attempts" | "max_attempts" | "created_at" | "retried_at">;

/** The rules of a target: its own waits go before those of the configuration. */
export function rulesFor(target: Target | undefined, rules: RetryRules): RetryRules {
  return target?.retryDelaysMs ? { ...rules, delaysMs: target.retryDelaysMs } : rules;
}

/** Attempts that a message has in all. */
export function attemptsOf({ max_attempts: own }: Pick<Tried, "max_attempts">, rules: RetryRules): number {
  return own > 0 ? own : rules.delaysMs.length + 1;
}

/**
 * Judges the attempt that `row` counts already. `target` is undefined where nobody knows the platform; `rules` are
 * those of {@link rulesFor}.
 */
export function evaluate(
  outcome: SendOutcome,
  row: Tried,
  {
    target,
    rules,
    nowMs,
  }: { readonly target: Target | undefined; readonly rules: RetryRules; readonly nowMs: number },
): Verdict {
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
      const delayMs = Math.min(Math.max(0, afterMs ?? retryDelayMs(row.attempts, rules)), MAX_ASKED_MS);
      if (isThrottled) return throttled(error, row, { delayMs: Math.max(delayMs, MIN_THROTTLED_MS), nowMs });
      return isLast(row, rules) ? { status: "dead", error } : again(error, delayMs);
    }
  }
}

function isLast(row: Tried, rules: RetryRules): boolean {
  return row.attempts >= attemptsOf(row, rules);
}

function again(error: string, delayMs: number): Verdict {
  return { status: "again", error, delayMs, isCounted: true };
}

function throttled(
  error: string,
  { created_at: createdAt, retried_at: retriedAt }: Tried,
  { delayMs, nowMs }: { readonly delayMs: number; readonly nowMs: number },
): Verdict {
  const isTooOld = nowMs + delayMs - (retriedAt ?? createdAt) > MAX_ASKED_MS;
  if (!isTooOld) return { status: "again", error, delayMs, isCounted: false };
  return {
    status: "dead",
    error: `${error} It was put off for a day: retry it once the platform takes messages again.`,
  };
}
