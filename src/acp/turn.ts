/** One prompt of the client, from its blocks to its answer. */
export class AcpTurn {
  readonly #cancelled = new AbortController();
  /** Undefined until the prompt is recorded. */
  runId: string | undefined;

  /** Aborts as soon as the client cancels: questions are withdrawn and answers to them do not count. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  cancel(): void {
    this.#cancelled.abort();
  }
}
