/** The registry that writes metrics as text for Prometheus: counters, gauges and histograms. Pure but for its own memory. */
/** Values of a metric's labels, in the order of their names. */
type LabelValues = readonly string[];

interface MetricOptions {
  /** One sentence for people. */
  readonly help: string;
  readonly labels?: readonly string[];
}

/** Limit of label sets per metric; further ones are counted together, with every label `other`. */
const MAX_SERIES = 1_000;
const OTHER = "other";

/**
 * The metrics of a process. RangeError for an invalid or duplicate name: such a mistake must not wait for the first
 * scrape.
 */
export class Metrics {
  readonly #families = new Map<string, Family>();
  readonly #collectors: (() => Promise<void> | void)[] = [];
  readonly #onProblem: (error: unknown) => void;
  #collecting: Promise<void> | undefined;

  /** `onProblem` receives errors of collectors; the other metrics are still returned. */
  constructor(options: { readonly onProblem?: (error: unknown) => void } = {}) {
    this.#onProblem = options.onProblem ?? (() => {});
  }

  /** The name ends in `_total`. */
  counter(name: string, options: MetricOptions): Counter {
    if (!name.endsWith("_total")) throw new RangeError(`The counter ${name} must end in _total.`);
    return this.#add(new Counter(name, options));
  }

  gauge(name: string, options: MetricOptions): Gauge {
    return this.#add(new Gauge(name, options));
  }

  /** `buckets` are ascending upper bounds, without the infinite one. */
  histogram(name: string, options: MetricOptions & { readonly buckets: readonly number[] }): Histogram {
    return this.#add(new Histogram(name, options));
  }

  /** Called before each {@link text}, to set gauges. */
  collect(run: () => Promise<void> | void): void {
    this.#collectors.push(run);
  }

  /** Returns everything in the text exposition format, version 0.0.4. Concurrent callers share one collection. */
  async text(): Promise<string> {
    await (this.#collecting ??= this.#collect().finally(() => (this.#collecting = undefined)));
    return [...this.#families.values()].map(print).join("");
  }

  async #collect(): Promise<void> {
    const ends = await Promise.allSettled(this.#collectors.map(async (run) => run()));
    for (const end of ends) if (end.status === "rejected") this.#onProblem(end.reason);
  }

  #add<F extends Family>(family: F): F {
    if (this.#families.has(family.name)) throw new RangeError(`Two metrics are named ${family.name}.`);
    this.#families.set(family.name, family);
    return family;
  }
}

interface Sample {
  readonly suffix?: string;
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly value: number;
}

abstract class Family {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  abstract readonly type: "counter" | "gauge" | "histogram";

  constructor(name: string, { help, labels = [] }: MetricOptions) {
    if (!/^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(name)) throw new RangeError(`${name} is not a valid metric name.`);
    const wrong = labels.find((label) => !/^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/.test(label) || label === "le");
    if (wrong !== undefined) throw new RangeError(`${wrong} is not a valid label name for ${name}.`);
    this.name = name;
    this.help = help;
    this.labels = labels;
  }

  abstract samples(): Iterable<Sample>;

  named(values: LabelValues): Sample["labels"] {
    return this.labels.map((label, index) => [label, values[index] ?? ""] as const);
  }
}

/** One state per label set, bounded. */
class Series<T> {
  readonly #family: Family;
  readonly #make: () => T;
  readonly #byKey = new Map<string, { readonly values: LabelValues; readonly state: T }>();

  constructor(family: Family, make: () => T) {
    this.#family = family;
    this.#make = make;
  }

  of(values: LabelValues): T {
    const key = keyOf(values);
    const known = this.#byKey.get(key);
    if (known) return known.state;
    if (this.#byKey.size >= MAX_SERIES && values[0] !== OTHER) {
      return this.of(this.#family.labels.map(() => OTHER));
    }
    const state = this.#make();
    this.#byKey.set(key, { values, state });
    return state;
  }

  clear(): void {
    this.#byKey.clear();
  }

  all(): Iterable<{ readonly values: LabelValues; readonly state: T }> {
    return this.#byKey.values();
  }
}

function keyOf(values: LabelValues): string {
  return values.length === 1 ? (values[0] ?? "") : values.join("\u0000");
}

/** A value that only grows. */
class Counter extends Family {
  readonly type = "counter";
  readonly #series = new Series(this, () => ({ value: 0 }));

  add(values: LabelValues = [], by = 1): void {
    this.#series.of(values).value += by;
  }

  *samples(): Iterable<Sample> {
    for (const { values, state } of this.#series.all()) {
      yield { labels: this.named(values), value: state.value };
    }
  }
}

/** A current value. */
class Gauge extends Family {
  readonly type = "gauge";
  readonly #series = new Series(this, () => ({ value: 0 }));

  set(value: number, values: LabelValues = []): void {
    this.#series.of(values).value = value;
  }

  /** Removes every label set; set the current ones again. */
  clear(): void {
    this.#series.clear();
  }

  *samples(): Iterable<Sample> {
    for (const { values, state } of this.#series.all()) {
      yield { labels: this.named(values), value: state.value };
    }
  }
}

/** Counts observations up to each bound. */
class Histogram extends Family {
  readonly type = "histogram";
  readonly #bounds: readonly number[];
  readonly #series: Series<{ readonly counts: number[]; sum: number; count: number }>;

  constructor(name: string, options: MetricOptions & { readonly buckets: readonly number[] }) {
    super(name, options);
    const { buckets } = options;
    const isRising = buckets.every((bound, index) => bound > (buckets[index - 1] ?? -Infinity));
    if (!isRising || !buckets.every(Number.isFinite)) {
      throw new RangeError(`The buckets of ${name} must be finite and ascending.`);
    }
    this.#bounds = buckets;
    this.#series = new Series(this, () => ({ counts: buckets.map(() => 0), sum: 0, count: 0 }));
  }

  observe(value: number, values: LabelValues = []): void {
    const state = this.#series.of(values);
    state.sum += value;
    state.count += 1;
    const at = this.#bounds.findIndex((bound) => value <= bound);
    if (at >= 0) state.counts[at] = (state.counts[at] ?? 0) + 1;
  }

  *samples(): Iterable<Sample> {
    for (const { values, state } of this.#series.all()) {
      const labels = this.named(values);
      let upTo = 0;
      for (const [index, bound] of this.#bounds.entries()) {
        upTo += state.counts[index] ?? 0;
        yield { suffix: "_bucket", labels: [...labels, ["le", printNumber(bound)]], value: upTo };
      }
      yield { suffix: "_bucket", labels: [...labels, ["le", "+Inf"]], value: state.count };
      yield { suffix: "_sum", labels, value: state.sum };
      yield { suffix: "_count", labels, value: state.count };
    }
  }
}

function print(family: Family): string {
  const { name, help, type } = family;
  const head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`;
  let lines = "";
  for (const { suffix = "", labels, value } of family.samples()) {
    const set = labels.map(([label, text]) => `${label}="${escapeLabel(text)}"`).join(",");
    lines += `${name}${suffix}${set === "" ? "" : `{${set}}`} ${printNumber(value)}\n`;
  }
  return head + lines;
}

function printNumber(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : String(value);
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapeLabel(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}
