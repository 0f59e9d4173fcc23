import type { Log } from "../base/observe/log.ts";
import { Metrics } from "../base/observe/metrics.ts";
import { currentRuntime, residentBytes, watchEventLoop } from "../base/system/runtime.ts";
import type { CronMetrics } from "../cron/metrics.ts";
import { readCronStatus } from "../cron/tick/status.ts";
import type { DeliveryMetrics } from "../deliver/outbox/metrics.ts";
import { readOutboxStats, type OutboxCounts } from "../deliver/outbox/stats.ts";
import type { HttpMetrics } from "../http/deps.ts";
import { readStats } from "../store/stats.ts";
import type { Store } from "../store/store.ts";
import type { WebhookMetrics } from "../webhook/metrics.ts";

export interface ServiceMetricsOptions {
  readonly store: Store;
  readonly version: string;
  readonly log: Log;
  /** When the service started; default now. */
  readonly startedAtMs?: number;
}

/** The figures of a service. */
export interface ServiceMetrics {
  readonly http: HttpMetrics;
  readonly webhook: WebhookMetrics;
  readonly delivery: DeliveryMetrics;
  readonly cron: CronMetrics;
  /** A run ended in this process. */
  runEnded(kind: string, status: string): void;
  /** Stops measuring. */
  close(): void;
}

const OPEN_STATUSES = ["queued", "running", "waiting_for_approval", "stopping"];
const OUTBOX_STATUSES: readonly (keyof OutboxCounts)[] = ["due", "sending", "dead", "unknown"];
const DELIVERY_STATUSES = ["accepted", "running"];
/** From an answer out of memory to one a model was waited for. */
const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
/** From a refusal to a target that is waited for. */
const RECEIVE_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** From a message that leaves at once to one whose platform came back the next day. */
const DELIVERY_BUCKETS = [
  0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1_800, 3_600, 21_600, 86_400,
];

/** From a job that begins at once to one that makes up for what was missed. */
const LAG_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400];
const JOB_STATES = ["scheduled", "paused", "completed", "missed", "error"] as const;

/** Everything `GET /metrics` shows. What costs something is measured from the first time that somebody looks. */
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
    help: "Runs of the whole database that have not ended.",
    labels: ["status"],
  });
  const queue = metrics.gauge("agentd_queue_depth", { help: "Runs that wait for their turn." });
  const deliveries = metrics.gauge("agentd_webhook_deliveries", {
    help: "Deliveries of webhooks that have not come to an end.",
    labels: ["status"],
  });
  metrics.collect(async () => {
    const stats = await readStats(store);
    for (const status of OPEN_STATUSES) runs.set(stats.runs.get(status) ?? 0, [status]);
    for (const status of DELIVERY_STATUSES) {
      deliveries.set(stats.deliveries.get(status) ?? 0, [status]);
    }
    queue.set(stats.runs.get("queued") ?? 0);
  });
}

function collectOutbox(metrics: Metrics, store: Store): void {
  const messages = metrics.gauge("agentd_outbox_messages", {
    help: "Messages of the whole database: due, sending, given up (dead), or perhaps arrived (unknown).",
    labels: ["platform", "status"],
  });
  const oldest = metrics.gauge("agentd_outbox_oldest_due_seconds", {
    help: "How long ago the oldest message that is due was owed; 0 when none is.",
  });
  const seen = new Set<string>();
  metrics.collect(async () => {
    const { byPlatform, oldestDueAtMs } = await readOutboxStats(store);
    for (const platform of byPlatform.keys()) seen.add(platform);
    // What was there once is shown as gone, not left as it was.
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
    help: "Attempts at messages that came to an end in this process.",
    labels: ["platform", "outcome"],
  });
  const durations = metrics.histogram("agentd_delivery_seconds", {
    help: "Time from owing a message to its delivery.",
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
    help: "Runs of scheduled jobs that began in this process and came to an end.",
    labels: ["status"],
  });
  const lag = metrics.histogram("agentd_cron_lag_seconds", {
    help: "How far behind their instants runs of scheduled jobs began.",
    buckets: LAG_BUCKETS,
  });
  const jobs = metrics.gauge("agentd_cron_jobs", {
    help: "Scheduled jobs of the whole database.",
    labels: ["state"],
  });
  const late = metrics.gauge("agentd_cron_jobs_late", {
    help: "Jobs of the whole database that have been due for more than a minute.",
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
    help: "Requests that were answered.",
    labels: ["operation", "status"],
  });
  const durations = metrics.histogram("agentd_http_request_duration_seconds", {
    help: "Time to the answer; of a stream, to its beginning.",
    labels: ["operation"],
    buckets: DURATION_BUCKETS,
  });
  const subscribers = metrics.gauge("agentd_subscribers", {
    help: "Event streams that are open.",
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
    help: "Requests to routes of the webhook receiver that were answered.",
    labels: ["outcome"],
  });
  const durations = metrics.histogram("agentd_webhook_request_duration_seconds", {
    help: "Time to the answer; of an accepted one, until it is recorded.",
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

/** The returned function stops what measures. */
function collectProcess(
  metrics: Metrics,
  { version, startedAtMs = Date.now() }: ServiceMetricsOptions,
): () => void {
  const memory = metrics.gauge("process_resident_memory_bytes", { help: "Memory in RAM." });
  const start = metrics.gauge("process_start_time_seconds", { help: "When the service started, Unix time." });
  const uptime = metrics.gauge("agentd_uptime_seconds", { help: "Time since the service started." });
  const build = metrics.gauge("agentd_build_info", {
    help: "1, with what runs here.",
    labels: ["version", "runtime", "runtime_version"],
  });
  const delay = metrics.gauge("agentd_event_loop_delay_seconds", {
    help: "How late the event loop came to its work, since the last look.",
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
