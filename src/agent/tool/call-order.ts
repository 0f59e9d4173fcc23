/** A place among calls that were made at once. */
export interface CallPosition {
  /** Resolves when every call before has left its place. */
  readonly reached: Promise<void>;
  /** Once; later calls change nothing. */
  leave(): void;
}

/** Calls that a model makes at once are told of in its order, however long it takes to look at each. */
export class CallOrder {
  #last: Promise<void> = Promise.resolve();

  place(): CallPosition {
    const { promise: left, resolve } = Promise.withResolvers<void>();
    const reached = this.#last;
    this.#last = reached.then(() => left);
    return { reached, leave: resolve };
  }
}
