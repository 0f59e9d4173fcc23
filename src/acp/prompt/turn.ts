/** The state of one prompt, from its request to its response. */
export class AcpTurn {
  readonly #cancelled = new AbortController();
  readonly #recorded = Promise.withResolvers<void>();
  readonly #answered = Promise.withResolvers<void>();
  #stop: ((reason: string) => void) | undefined;
  #stopReason: string | undefined;
  #endsWithQuestion = false;
  /** Undefined until the prompt is recorded. */
  runId: string | undefined;

  /** Aborts when the client cancels: open questions are withdrawn and their answers ignored. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  /** True if the agent asked in its message and the next prompt answers. */
  get endsWithQuestion(): boolean {
    return this.#endsWithQuestion;
  }

  /** Resolves when the prompt is in the session queue, or will never be. */
  get recorded(): Promise<void> {
    return this.#recorded.promise;
  }

  /** Resolves when the response is written: updates of later turns may follow it. */
  get answered(): Promise<void> {
    return this.#answered.promise;
  }

  /** Cancels the turn. Further calls have no effect. */
  cancel(): void {
    if (this.signal.aborted) return;
    this.#cancelled.abort();
    this.#end("The editor cancelled the prompt.");
  }

  /** Stops the turn as its regular end. */
  endWithQuestion(): void {
    this.#endsWithQuestion = true;
    this.#end("The agent asked in a message. The next prompt answers it.");
  }

  /** Sets the run of the turn. Calls `stop` at once if the turn is already cancelled. */
  started(runId: string, stop: (reason: string) => void): void {
    this.runId = runId;
    this.#stop = stop;
    this.#recorded.resolve();
    if (this.#stopReason !== undefined) stop(this.#stopReason);
  }

  /** Marks the prompt as queued, or as given up before that. */
  admitted(): void {
    this.#recorded.resolve();
  }

  /** Marks the response as written. */
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
