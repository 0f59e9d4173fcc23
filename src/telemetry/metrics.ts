/** The metrics of a service. */
import type { Agent } from "../agent/agent.ts";
import { parseModel } from "../agent/model.ts";
import { usageByModel, NANO } from "../agent/usage/usage.ts";
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
import { Metrics } from "./registry.ts";

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
  readonly runEnded: RunEnded;
  /** Stops measuring. */
  close(): void;
}

type RunEnded = NonNullable<Agent["deps"]["runEnded"]>;

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
  const countUsage = usageMetrics(metrics);
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
    runEnded: (end) => {
      endedRuns.add([end.kind, end.status]);
      countUsage(end);
    },
    close: stop,
  };
}

/** Returns the function that counts what a run used, by provider: clients may name any number of models. */
function usageMetrics(metrics: Metrics): RunEnded {
  const labels = ["provider"];
  const tokens = metrics.counter("agentd_model_tokens_total", {
    help: "Tokens of the model calls of runs that ended in this process. Input includes cached input.",
    labels: ["provider", "type"],
  });
  const cost = metrics.counter("agentd_model_cost_usd_total", {
    help: "Cost of these model calls in US dollars, as far as prices are known.",
    labels,
  });
  const unpriced = metrics.counter("agentd_unpriced_tokens_total", {
    help: "Tokens of these model calls whose price is unknown.",
    labels,
  });
  return ({ model, usage }) => {
    for (const [name, used] of usageByModel(usage, model)) {
      if (!used || used.modelCalls === 0) continue;
      const { provider } = parseModel(name);
      tokens.add([provider, "input"], used.inputTokens);
      tokens.add([provider, "cached_input"], used.cachedInputTokens);
      tokens.add([provider, "output"], used.outputTokens);
      cost.add([provider], used.costNano / NANO);
      unpriced.add([provider], used.unpricedTokens);
    }
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
