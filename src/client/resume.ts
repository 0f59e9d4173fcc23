import { AgentApiError, StreamCutError } from "./api-error.ts";

export interface ResumeOptions {
  readonly signal?: AbortSignal | undefined;
  /** Connections in a row that may bring nothing before the stream is given up; default 10. */
  readonly maxAttempts?: number | undefined;
}

const MAX_ATTEMPTS = 10;
const BASE_MS = 50;
const MAX_WAIT_MS = 10_000;

/**
 * Goes on with a stream over as many connections as it takes. `connect` opens the next one where the last one stopped,
 * and returns true once the stream is over. Errors of the server that will not pass (4xx but 408 and 429) are thrown at
 * once; connections that bring nothing are tried again with growing waits, then StreamCutError.
 */
export async function* resumed<T>(
  connect: () => AsyncGenerator<T, boolean>,
  { signal, maxAttempts = MAX_ATTEMPTS }: ResumeOptions,
  runId: string | undefined,
): AsyncGenerator<T, void> {
  let failures = 0;
  for (;;) {
    let failure: unknown;
    try {
      const connection = connect();
      for (;;) {
        const next = await connection.next();
        if (next.done && next.value) return;
        if (next.done) break;
        failures = 0;
        let isTaken = false;
        try {
          yield next.value;
          isTaken = true;
        } finally {
          if (!isTaken) await connection.return(true);
        }
      }
    } catch (error) {
      if (isLasting(error) || signal?.aborted) throw error;
      failure = error;
    }
    failures += 1;
    if (failures > maxAttempts) throw new StreamCutError(runId, failure);
    await wait(waitMs(failures, failure), signal);
  }
}

function isLasting(error: unknown): boolean {
  if (error instanceof StreamCutError) return true;
  if (!(error instanceof AgentApiError)) return false;
  const { status } = error;
  return status < 500 && status !== 408 && status !== 429;
}

/** What the server asked for, else doubled each time, with jitter so that clients do not come back all at once. */
function waitMs(failures: number, failure: unknown): number {
  if (failure instanceof AgentApiError && failure.retryAfterSeconds !== undefined) {
    return Math.min(failure.retryAfterSeconds * 1000, MAX_WAIT_MS);
  }
  return Math.min(BASE_MS * 2 ** (failures - 1), MAX_WAIT_MS) * (0.5 + Math.random() / 2);
}

function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
