/** Occurrences that this process has in hand: each takes a place until it has ended. */
export class AtWork {
  readonly #works = new Map<string, Work>();
  readonly #freed: () => void;

  /** `freed` is called each time a place is free again. */
  constructor(freed: () => void) {
    this.#freed = freed;
  }

  get size(): number {
    return this.#works.size;
  }

  get ids(): readonly string[] {
    return [...this.#works.keys()];
  }

  has(id: string): boolean {
    return this.#works.has(id);
  }

  add(id: string, work: Promise<void>): void {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#works.set(id, { over, end: resolve });
    const free = () => this.free(id);
    work.then(free, free);
  }

  /** The place is free, whether or not the work has ended: somebody else ended the occurrence. */
  free(id: string): void {
    const work = this.#works.get(id);
    if (!work) return;
    this.#works.delete(id);
    work.end();
    this.#freed();
  }

  /** Resolves when nothing is in hand of what is now. */
  async settled(): Promise<void> {
    await Promise.all(Array.from(this.#works.values(), ({ over }) => over));
  }
}

interface Work {
  readonly over: Promise<void>;
  readonly end: () => void;
}
