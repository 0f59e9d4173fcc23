/** The attempts at a message, as its row keeps them. Pure. */

/** How an attempt ended. lost: its process was gone. stopped: the service ended. */
export type TryOutcome = "delivered" | "retry" | "permanent" | "unknown" | "stopped" | "lost";

export interface Try {
  /** When it began, or its last part; Unix milliseconds. */
  readonly atMs: number;
  /** How long it took; absent when nobody knows. */
  readonly tookMs?: number;
  readonly outcome: TryOutcome;
  /** Why it did not deliver the message, for people. */
  readonly error?: string;
}

/** Of a message that is retried by hand again and again, the latest. */
const MAX_ATTEMPTS = 20;

/** The column with one more. */
export function addTry(attemptLog: string | null, one: Try): string {
  return JSON.stringify([...readAttemptLog(attemptLog), one].slice(-MAX_ATTEMPTS));
}

/** Oldest first. */
export function readAttemptLog(attemptLog: string | null): readonly Try[] {
  return attemptLog === null ? [] : (JSON.parse(attemptLog) as readonly Try[]);
}
