/** What was found out, for as long as the question has the same version. Of many who ask at once one looks. */
export class Memo<T> {
  readonly #max: number;
  readonly #known = new Map<string, { readonly version: string; readonly value: Promise<T> }>();

  /** `max`: so many questions are remembered; the one that was asked first goes first. */
  constructor(max: number) {
    this.#max = max;
  }

  /** A look that fails is not remembered. */
  get(key: string, version: string, look: () => Promise<T>): Promise<T> {
    const known = this.#known.get(key);
    if (known?.version === version) return known.value;
    const value = look();
    this.#known.delete(key);
    this.#known.set(key, { version, value });
    const [oldest] = this.#known.keys();
    if (this.#known.size > this.#max && oldest !== undefined) this.#known.delete(oldest);
    value.catch(() => {
      if (this.#known.get(key)?.value === value) this.#known.delete(key);
    });
    return value;
  }
}
