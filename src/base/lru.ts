/** Bounded memory. Pure. */

/** A map of bounded size: a new entry evicts the one that was used longest ago. */
export class LruMap<K, V> {
  readonly #max: number;
  readonly #entries = new Map<K, V>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Returns the value, and marks it as used. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined && !this.#entries.has(key)) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value as V);
    return value;
  }

  /** Returns whether the key has a value, without marking it as used. */
  has(key: K): boolean {
    return this.#entries.has(key);
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#max) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      return;
    }
  }

  delete(key: K): boolean {
    return this.#entries.delete(key);
  }
}

/** Remembers results for as long as their version is the same. Concurrent callers share one computation. */
export class Memo<T> {
  readonly #known: LruMap<string, { readonly version: string; readonly value: Promise<T> }>;

  /** `max`: number of results that are remembered. */
  constructor(max: number) {
    this.#known = new LruMap(max);
  }

  /** Returns the remembered result, or that of `compute`. A failure is not remembered. */
  get(key: string, version: string, compute: () => Promise<T>): Promise<T> {
    const known = this.#known.get(key);
    if (known?.version === version) return known.value;
    const value = compute();
    this.#known.set(key, { version, value });
    value.catch(() => {
      if (this.#known.get(key)?.value === value) this.#known.delete(key);
    });
    return value;
  }
}
