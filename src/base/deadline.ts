/** Waiting that ends: by a signal, or after a time. Pure. */
import type { Clock } from "./clock.ts";

/** Rejects with the signal's reason when it aborts first: the caller does not wait for work that hangs. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {});
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/**
 * Settles as `work` does, or resolves to undefined after `ms`, whichever comes first. The work itself goes on. The timer
 * keeps the process alive until then.
 */
export async function waitAtMost<T>(clock: Clock, ms: number, work: Promise<T>): Promise<T | undefined> {
  const over = new AbortController();
  const late = clock.sleep(ms, { signal: over.signal }).then(
    () => undefined,
    () => undefined,
  );
  try {
    return await Promise.race([work, late]);
  } finally {
    over.abort();
  }
}
