import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { addAttempt } from "../../store/outbox/outbox.ts";
import type { AttemptEnd } from "./attempt.ts";
import type { RetryRules } from "./backoff.ts";
import type { SendOutcome, Target } from "../target.ts";
import { evaluate, type Verdict } from "./decision.ts";

/**
 * Called in the transaction that records that a message was delivered, is given up, or may have arrived and is not sent
 * again.
 */
export type Settled = (
  tx: Tx,
  row: OutboxRow,
  end: { readonly status: "delivered" } | { readonly status: "dead" | "unknown"; readonly error: string },
) => Promise<void>;

export interface RecordOptions {
  /** Undefined where nobody knows the platform. */
  readonly target: Target | undefined;
  readonly rules: RetryRules;
  readonly settled?: Settled | undefined;
}

type Written = Verdict | { readonly status: "released" };

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
  const verdict = verdictOn(end, (outcome) => evaluate(outcome, row, { target, rules, nowMs: tx.nowMs }));
  if (verdict.status === "lost") return verdict;
  await noteAttempt(tx, store, { row, end });
  if (!(await write(tx, store, row.id, verdict))) return { status: "lost" };
  if (verdict.status !== "released" && verdict.status !== "again") await settled?.(tx, row, verdict);
  return verdict;
}

/** Keeps how an attempt ended among those of its message, before its lease ends. */
export async function noteAttempt(
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

function verdictOn(end: AttemptEnd, evaluated: (outcome: SendOutcome) => Verdict): Recorded {
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
function write(tx: Tx, { outbox }: Store, id: string, verdict: Written): Promise<boolean> {
  switch (verdict.status) {
    case "delivered":
      return outbox.delivered(tx, id);
    case "again": {
      const { error, delayMs, isCounted } = verdict;
      return outbox.retryAt(tx, id, { error, atMs: tx.nowMs + delayMs, isCounted });
    }
    case "dead":
      return outbox.dead(tx, id, verdict.error);
    case "unknown":
      return outbox.unknown(tx, id, verdict.error);
    case "released":
      return outbox.release(tx, id);
  }
}
