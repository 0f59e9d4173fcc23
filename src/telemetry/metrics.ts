/** The metrics of a service, and the registry that writes them as text for Prometheus. */
import type { Log } from "../base/observe.ts";
import { currentRuntime, residentBytes, watchEventLoop } from "../base/system/machine.ts";
import type { CronMetrics } from "../cron/deps.ts";
import { readCronStatus } from "../cron/tick/status.ts";
import { type DeliveryMetrics } from "../deliver/target.ts";
import { type OutboxCounts, readOutboxStats } from "../deliver/outbox/stats.ts";
import type { HttpMetrics } from "../http/deps.ts";
import { readStats } from "../store/stats.ts";
import type { Store } from "../store/store.ts";
import type { WebhookMetrics } from "../webhook/deps.ts";

interface ServiceMetricsOptions {
  readonly store: Store;
  readonly version: string;
  readonly log: Log;
  /** When the service started. Default: now. */
  readonly startedAtMs?: number;
}

/** The metrics of a service. */
interface ServiceMetrics {
  readonly http: HttpMetrics;
  readonly webhook: WebhookMetrics;
  readonly delivery: DeliveryMetrics;
  readonly cron: CronMetrics;
  /** Counts a run that ended in this process. */
  runEnded(kind: string, status: string): void;
  /** Stops measuring. */
  close(): void;
}

const OPEN_STATUSES = ["queued", "running", "waiting_for_approval", "stopping"];
const OUTBOX_STATUSES: readonly (keyof OutboxCounts)[] = ["due", "sending", "dead", "unknown"];
const OPEN_DELIVERY_STATUSES = ["accepted", "running"];
/** From an answer served from memory to a slow model. */
const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
/** From a rejected request to a slow target. */
const RECEIVE_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** From an immediate message to one whose platform recovered the next day. */
const DELIVERY_BUCKETS = [
  0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1_800, 3_600, 21_600, 86_400,
];

/** From a job on time to one that caught up after a long outage. */
const LAG_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400];
const JOB_STATES = ["scheduled", "paused", "completed", "missed", "error"] as const;

/** Creates all metrics of `GET /metrics`. Costly ones are measured from the first request on. */
export function createServiceMetrics(options: ServiceMetricsOptions): ServiceMetrics {
  const { store, log } = options;
  const metrics = new Metrics({
    onProblem: (error) => log.warn("some metrics could not be read", { error }),
  });
  const endedRuns = metrics.counter("agentd_runs_total", {
    help: "Runs that ended in this process.",
    labels: ["kind", "status"],
  });
  collectStore(metrics, store);
  collectOutbox(metrics, store);
  const http = httpMetrics(metrics);
  const webhook = webhookMetrics(metrics);
  const delivery = deliveryMetrics(metrics);
  const cron = cronMetrics(metrics, store);
  const stop = collectProcess(metrics, options);
  return {
    http,
    webhook,
    delivery,
    cron,
    runEnded: (kind, status) => endedRuns.add([kind, status]),
    close: stop,
  };
}

function collectStore(metrics: Metrics, store: Store): void {
  const runs = metrics.gauge("agentd_runs", {
    help: "Open runs of the whole database.",
    labels: ["status"],
  });
  const queue = metrics.gauge("agentd_queue_depth", { help: "Queued runs." });
  const deliveries = metrics.gauge("agentd_webhook_deliveries", {
    help: "Webhook deliveries that have not finished.",
    labels: ["status"],
  });
  metrics.collect(async () => {
    const stats = await readStats(store);
    for (const status of OPEN_STATUSES) runs.set(stats.runs.get(status) ?? 0, [status]);
    for (const status of OPEN_DELIVERY_STATUSES) {
      deliveries.set(stats.deliveries.get(status) ?? 0, [status]);
    }
    queue.set(stats.runs.get("queued") ?? 0);
  });
}

function collectOutbox(metrics: Metrics, store: Store): void {
  const messages = metrics.gauge("agentd_outbox_messages", {
    help: "Messages of the whole database: due, sending, dead (given up), or unknown (perhaps arrived).",
    labels: ["platform", "status"],
  });
  const oldest = metrics.gauge("agentd_outbox_oldest_due_seconds", {
    help: "Age of the oldest due message; 0 when none is due.",
  });
  const seen = new Set<string>();
  metrics.collect(async () => {
    const { byPlatform, oldestDueAtMs } = await readOutboxStats(store);
    for (const platform of byPlatform.keys()) seen.add(platform);
    // A platform without messages is reported as 0, not with its last value.
    for (const platform of seen) {
      for (const status of OUTBOX_STATUSES) {
        messages.set(byPlatform.get(platform)?.[status] ?? 0, [platform, status]);
      }
    }
    oldest.set(oldestDueAtMs === undefined ? 0 : Math.max(0, Date.now() - oldestDueAtMs) / 1000);
  });
}

function deliveryMetrics(metrics: Metrics): DeliveryMetrics {
  const attempts = metrics.counter("agentd_delivery_attempts_total", {
    help: "Delivery attempts that finished in this process.",
    labels: ["platform", "outcome"],
  });
  const durations = metrics.histogram("agentd_delivery_seconds", {
    help: "Time from enqueuing a message to its delivery.",
    labels: ["platform"],
    buckets: DELIVERY_BUCKETS,
  });
  return {
    attempted: (platform, outcome) => attempts.add([platform, outcome]),
    delivered: (platform, seconds) => durations.observe(seconds, [platform]),
  };
}

function cronMetrics(metrics: Metrics, store: Store): CronMetrics {
  const ended = metrics.counter("agentd_cron_occurrences_total", {
    help: "Runs of scheduled jobs that started in this process and finished.",
    labels: ["status"],
  });
  const lag = metrics.histogram("agentd_cron_lag_seconds", {
    help: "Delay between the due time and the start of scheduled runs.",
    buckets: LAG_BUCKETS,
  });
  const jobs = metrics.gauge("agentd_cron_jobs", {
    help: "Scheduled jobs of the whole database.",
    labels: ["state"],
  });
  const late = metrics.gauge("agentd_cron_jobs_late", {
    help: "Jobs of the whole database that are overdue by more than a minute.",
  });
  metrics.collect(async () => {
    const status = await readCronStatus(store, { nowMs: Date.now() });
    for (const state of JOB_STATES) jobs.set(status.jobs[state], [state]);
    late.set(status.late.count);
  });
  return { began: (seconds) => lag.observe(seconds), ended: (status) => ended.add([status]) };
}

function httpMetrics(metrics: Metrics): HttpMetrics {
  const requests = metrics.counter("agentd_http_requests_total", {
    help: "Answered requests.",
    labels: ["operation", "status"],
  });
  const durations = metrics.histogram("agentd_http_request_duration_seconds", {
    help: "Time to the answer; for a stream, to its start.",
    labels: ["operation"],
    buckets: DURATION_BUCKETS,
  });
  const subscribers = metrics.gauge("agentd_subscribers", {
    help: "Open event streams.",
    labels: ["operation"],
  });
  const open = new Map<string, number>();
  const change = (operation: string, by: number) => {
    const count = (open.get(operation) ?? 0) + by;
    open.set(operation, count);
    subscribers.set(count, [operation]);
  };
  return {
    text: () => metrics.text(),
    answered(operation, status, seconds) {
      requests.add([operation, String(status)]);
      durations.observe(seconds, [operation]);
    },
    streamOpened: (operation) => change(operation, 1),
    streamClosed: (operation) => change(operation, -1),
  };
}

function webhookMetrics(metrics: Metrics): WebhookMetrics {
  const requests = metrics.counter("agentd_webhook_requests_total", {
    help: "Answered requests to webhook routes.",
    labels: ["outcome"],
  });
  const durations = metrics.histogram("agentd_webhook_request_duration_seconds", {
    help: "Time to the answer; for an accepted delivery, until it is recorded.",
    labels: ["outcome"],
    buckets: RECEIVE_BUCKETS,
  });
  return {
    answered(outcome, seconds) {
      requests.add([outcome]);
      durations.observe(seconds, [outcome]);
    },
  };
}

/** Returns a function that stops the measurements. */
function collectProcess(
  metrics: Metrics,
  { version, startedAtMs = Date.now() }: ServiceMetricsOptions,
): () => void {
  const memory = metrics.gauge("process_resident_memory_bytes", { help: "Resident memory." });
  const start = metrics.gauge("process_start_time_seconds", {
    help: "Unix time at which the service started.",
  });
  const uptime = metrics.gauge("agentd_uptime_seconds", { help: "Time since the service started." });
  const build = metrics.gauge("agentd_build_info", {
    help: "1, with the version and the runtime.",
    labels: ["version", "runtime", "runtime_version"],
  });
  const delay = metrics.gauge("agentd_event_loop_delay_seconds", {
    help: "Delay of the event loop since the last request.",
    labels: ["stat"],
  });
  const runtime = currentRuntime();
  build.set(1, [version, runtime.name, runtime.version]);
  start.set(startedAtMs / 1000);
  let loop: ReturnType<typeof watchEventLoop> | undefined;
  let isClosed = false;
  metrics.collect(() => {
    memory.set(residentBytes());
    uptime.set((Date.now() - startedAtMs) / 1000);
    if (isClosed) return;
    loop ??= watchEventLoop();
    for (const [stat, value] of Object.entries(loop.read() ?? {})) delay.set(value, [stat]);
  });
  return () => {
    isClosed = true;
    loop?.stop();
  };
}

// The registry: counters, gauges and histograms, pure but for its own memory

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
