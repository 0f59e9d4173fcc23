/** One prompt of the client, from its blocks to its answer. */
export class AcpTurn {
  readonly #cancelled = new AbortController();
  readonly #recorded = Promise.withResolvers<void>();
  readonly #answered = Promise.withResolvers<void>();
  #stop: ((reason: string) => void) | undefined;
  #stopReason: string | undefined;
  #endsWithQuestion = false;
  /** Undefined until the prompt is recorded. */
  runId: string | undefined;

  /** Aborts as soon as the client cancels: questions are withdrawn and answers to them do not count. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  /** True when the agent asked in its message, and the next prompt answers. */
  get endsWithQuestion(): boolean {
    return this.#endsWithQuestion;
  }

  /** Resolves when the prompt has its place in the queue of the session, or will never have one. */
  get recorded(): Promise<void> {
    return this.#recorded.promise;
  }

  /** Resolves when the answer is on its way: what later turns tell may follow it. */
  get answered(): Promise<void> {
    return this.#answered.promise;
  }

  /** Once; later calls change nothing. */
  cancel(): void {
    if (this.signal.aborted) return;
    this.#cancelled.abort();
    this.#end("The editor cancelled the prompt.");
  }

  /** The turn stops, and that is its regular end. */
  endWithQuestion(): void {
    this.#endsWithQuestion = true;
    this.#end("The question was put as a message; the next prompt answers it.");
  }

  /** The run of the turn, once there is one; `stop` is called at once when the turn was cancelled meanwhile. */
  started(runId: string, stop: (reason: string) => void): void {
    this.runId = runId;
    this.#stop = stop;
    this.#recorded.resolve();
    if (this.#stopReason !== undefined) stop(this.#stopReason);
  }

  /** The prompt has its place, or was given up before it had one. */
  admitted(): void {
    this.#recorded.resolve();
  }

  answerSent(): void {
    this.#recorded.resolve();
    this.#answered.resolve();
  }

  #end(reason: string): void {
    if (this.#stopReason !== undefined) return;
    this.#stopReason = reason;
    this.#stop?.(reason);
  }
}
