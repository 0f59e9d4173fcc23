/** Calls `run` when the signal aborts, at once if it has. Returns what takes that back. */
export function whenAborted(signal: AbortSignal | undefined, run: () => void): () => void {
  if (signal?.aborted) run();
  else signal?.addEventListener("abort", run);
  return () => signal?.removeEventListener("abort", run);
}
