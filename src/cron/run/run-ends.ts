/** Who waits in this process for the ends of occurrences. */
export class RunEnds {
  readonly #waiting = new Map<string, () => void>();

  /** Resolves when the occurrence has ended by a run of this process, or {@link told} is called for it. */
  wait(occurrenceId: string): Promise<void> {
    return new Promise((resolve) => this.#waiting.set(occurrenceId, resolve));
  }

  told(occurrenceId: string): void {
    const resolve = this.#waiting.get(occurrenceId);
    this.#waiting.delete(occurrenceId);
    resolve?.();
  }
}
