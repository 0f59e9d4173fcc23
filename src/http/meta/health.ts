import type { DetailedHealth, HealthCheck } from "../../../generated/http/client/types.gen.ts";
import { formatModel } from "../../agent/model.ts";
import { readOutboxStats, type OutboxStats } from "../../deliver/outbox/stats.ts";
import { readDeliveryStats, countOpenRuns, countSessions } from "../../store/stats.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import { DELIVERY_STATUSES } from "../../webhook/deliveries/deliveries.ts";
import type { CronStats, HttpContext, HttpDeps, ReceiverStats } from "../deps.ts";
import { redact } from "../../base/observe.ts";
import { waitAtMost } from "../../base/time.ts";
import type { SandboxStatus } from "../../exec/sandbox/sandbox.ts";

/** A slower database query counts as unanswered. */
const STORE_TIMEOUT_MS = 2_000;
/** With less free space than this, writes may soon fail. */
const MIN_FREE_BYTES = 100_000_000;
/** The health report counts webhook deliveries of this time. */
const RECEIVED_MS = 3_600_000;
/** Longest list in a sentence. */
const MAX_NAMED = 5;

type Checks = DetailedHealth["readiness"]["checks"];

/** GET /health/detailed: checks every part now. Only `strict` runs degraded into 503. */
export async function getDetailedHealth(
  { query }: HttpRequest<"getDetailedHealth", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getDetailedHealth">> {
  const [stored, free] = await Promise.all([readCounts(deps), deps.serviceStats.freeBytes()]);
  const disk = checkDisk(free);
  const mcp = checkMcp(deps);
  const checks: Checks = {
    state_store: stored.check,
    config: checkConfig(deps),
    model: checkModel(deps),
    ...(disk ? { disk } : {}),
    api_server: checkServer(deps),
    ...(deps.serviceStats.sandbox ? { sandbox: checkSandbox(deps.serviceStats.sandbox()) } : {}),
    ...(stored.webhook ? { webhook: stored.webhook } : {}),
    ...(deps.serviceStats.receiver
      ? { webhooks: checkReceiver(deps, deps.serviceStats.receiver(), stored.received) }
      : {}),
    ...(stored.cron
      ? { cron: checkCron(stored.cron, { uptimeMs: deps.clock.now() - deps.serviceStats.startedAtMs }) }
      : {}),
    ...(mcp ? { mcp } : {}),
  };
  const isDegraded = Object.values(checks).some((check) => check?.status === "degraded");
  const status = isDegraded ? "degraded" : "ok";
  const body: DetailedHealth = {
    status,
    platform: "agent",
    version: deps.version,
    ...describeProcess(deps),
    readiness: { status, checks },
    runs: { ...stored.runs, limit: deps.settings.maxConcurrentRuns },
    sessions: { live: deps.serviceStats.liveSessions(), stored: stored.sessions },
    ...(stored.outbox ? { outbox: describeOutbox(stored.outbox, deps) } : {}),
    recovering: deps.serviceStats.isRecovering(),
    draining: deps.runs.draining,
  };
  return { status: isDegraded && query.strict === true ? 503 : 200, body };
}

/** The service runs as well without a sandbox; who needs it sets `required`. */
function checkSandbox(status: SandboxStatus): HealthCheck {
  if (status.active) return { status: "ok", active: true, kind: status.kind, network: status.network };
  return { status: "ok", active: false, detail: `Commands run without a sandbox: ${status.reason}.` };
}

function describeProcess({ clock, serviceStats: { startedAtMs, pid } }: HttpDeps) {
  const uptimeMs = Math.max(0, clock.now() - startedAtMs);
  return {
    started_at: new Date(startedAtMs).toISOString(),
    uptime_seconds: Math.floor(uptimeMs / 1000),
    pid,
  };
}

function describeOutbox(
  { all, oldestDueAtMs, byPlatform }: OutboxStats,
  { clock }: HttpDeps,
): NonNullable<DetailedHealth["outbox"]> {
  const ageMs = oldestDueAtMs === undefined ? undefined : Math.max(0, clock.now() - oldestDueAtMs);
  return {
    ...all,
    oldest_due_seconds: ageMs === undefined ? null : ageMs / 1000,
    platforms: Object.fromEntries(byPlatform),
  };
}

interface Stored {
  readonly check: HealthCheck;
  readonly runs: Readonly<Record<keyof typeof NO_RUNS, number>>;
  readonly sessions: number;
  /** Messages in the outbox; undefined when the database did not answer. */
  readonly webhook?: HealthCheck;
  readonly outbox?: OutboxStats;
  /**
   * Webhook deliveries of the last hour, by status; undefined without a receiver, or when the database did not
   * answer.
   */
  readonly received?: ReadonlyMap<string, number> | undefined;
  /** Undefined without cron, or when the database did not answer. */
  readonly cron?: CronStats | undefined;
}

const NO_RUNS = { queued: 0, running: 0, waiting_for_approval: 0, stopping: 0 };

/** Reads the counts. A database that fails or hangs counts as degraded, without counts. */
async function readCounts(deps: HttpDeps): Promise<Stored> {
  const { store, clock, log } = deps;
  const counting = readStored(deps);
  // A query that fails after the wait is over must not become an unhandled rejection.
  counting.catch(() => {});
  try {
    const counted = await waitAtMost(clock, STORE_TIMEOUT_MS, counting);
    if (!counted) throw new Error(`no answer within ${STORE_TIMEOUT_MS} ms`);
    return { check: { status: "ok", driver: store.dialect }, ...counted };
  } catch (error) {
    log.error("the database failed its check", { error });
    const detail = "The database does not answer. The server log has the details.";
    return { check: { status: "degraded", detail, driver: store.dialect }, runs: NO_RUNS, sessions: 0 };
  }
}

/**
 * Counts from partial indexes: open runs, kept sessions, pending messages. Webhook deliveries are the newest of
 * their table.
 */
async function readStored({ store, clock, serviceStats }: HttpDeps): Promise<Omit<Stored, "check">> {
  const [open, sessions, outbox, received, cron] = await Promise.all([
    countOpenRuns(store),
    countSessions(store),
    readOutboxStats(store),
    serviceStats.receiver && readDeliveryStats(store, clock.now() - RECEIVED_MS),
    serviceStats.cron?.(),
  ]);
  const { queued = 0, running = 0, waiting_for_approval = 0, stopping = 0 } = open;
  const { due, sending, dead } = outbox.all;
  return {
    runs: { queued, running, waiting_for_approval, stopping },
    sessions,
    webhook: { status: "ok", waiting: due + sending, given_up: dead },
    outbox,
    received,
    cron,
  };
}

/** Reports configuration warnings. They do not make the server unready. */
function checkConfig({ serviceStats: { configProblems } }: HttpDeps): HealthCheck {
  if (configProblems.length === 0) return { status: "ok", warnings: 0 };
  return { status: "ok", warnings: configProblems.length, detail: `${listed(configProblems)}.` };
}

function checkModel({ models }: HttpDeps): HealthCheck {
  const model = formatModel(models.default);
  const provider = models.list().find(({ isDefault }) => isDefault);
  if (!provider || models.resolve(model) === undefined) {
    const detail = "No provider has the default model. Set model.default.";
    return { status: "degraded", model, detail };
  }
  const unavailable = models.whyNone?.();
  if (unavailable !== undefined) return { status: "degraded", model, detail: unavailable };
  if (provider.type === "demo") {
    const detail =
      "The built-in demo model answers. Configure a provider with `agentd setup` for a real one.";
    return { status: "ok", model, detail };
  }
  // Self-hosted servers often require no key.
  if (!provider.hasKey && provider.type !== "openai_compatible") {
    const detail = `The provider ${provider.name} has no key. Set model.providers.${provider.name}.api_key.`;
    return { status: "degraded", model, detail };
  }
  return { status: "ok", model };
}

function checkDisk(free: number | undefined): HealthCheck | undefined {
  if (free === undefined) return undefined;
  if (free >= MIN_FREE_BYTES) return { status: "ok", free_bytes: free };
  const detail = "The disk of the home folder is almost full. Free some space on it.";
  return { status: "degraded", free_bytes: free, detail };
}

function checkServer({ keys, runs }: HttpDeps): HealthCheck {
  const counts = { keys_required: keys.required };
  if (runs.draining) return { status: "degraded", ...counts, detail: "The server is shutting down." };
  if (keys.required) return { status: "ok", ...counts };
  return { status: "ok", ...counts, detail: "No key is required. Only this machine can reach the server." };
}

function checkReceiver(
  { runs }: HttpDeps,
  { url, routes, problem }: ReceiverStats,
  received: Stored["received"],
): HealthCheck {
  const counted = received && DELIVERY_STATUSES.map((status) => [status, received.get(status) ?? 0] as const);
  const counts = { url: url ?? null, routes, waiting: runs.waiting, ...Object.fromEntries(counted ?? []) };
  if (url === undefined) {
    const why = problem ?? "The server log says why. Run `agentd doctor`.";
    const detail = `The server does not receive webhooks. ${why}`;
    return { status: "degraded", ...counts, detail };
  }
  if (routes > 0) return { status: "ok", ...counts };
  const detail = "No route exists yet. Create one with `agentd webhook subscribe`.";
  return { status: "ok", ...counts, detail };
}

/** Undefined when no server is configured. */
function checkMcp({ serviceStats }: HttpDeps): HealthCheck | undefined {
  const servers = serviceStats.mcp();
  if (servers.length === 0) return undefined;
  const count = (status: string) => servers.filter((server) => server.status === status).length;
  const counts = {
    connected: count("connected"),
    connecting: count("connecting"),
    failed: count("failed"),
  };
  if (counts.failed === 0) return { status: "ok", ...counts };
  const failed = servers.filter(({ status }) => status === "failed").map(({ name }) => name);
  return { status: "degraded", ...counts, detail: `These MCP servers are not usable: ${listed(failed)}.` };
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** A new server starts its scheduler within this time. */
const START_MS = 10_000;

/** Reports the scheduler and its jobs. `uptimeMs` is the server's age. */
function checkCron(serviceStats: CronStats, { uptimeMs }: { readonly uptimeMs: number }): HealthCheck {
  const { isEnabled, state, lastTickAtMs, jobs, broken, late, next, open, failures, corrected } =
    serviceStats;
  const counts = {
    enabled: isEnabled,
    scheduler: state,
    last_tick_at: iso(lastTickAtMs),
    next_due_at: iso(next?.dueAtMs),
    late: late.count,
    late_since: iso(late.oldestDueAtMs),
    scheduled: jobs.scheduled,
    paused: jobs.paused,
    completed: jobs.completed,
    missed: jobs.missed,
    error: jobs.error,
    broken,
    at_work: open,
    failing: failures.count,
  };
  if (!isEnabled) {
    const detail = "This server runs no jobs because cron.enabled is false.";
    return { status: "ok", ...counts, detail };
  }
  const isStarting = uptimeMs < START_MS;
  const lasting = isStarting ? [] : [stateProblem(state), lateProblem(late)];
  const problems = [...lasting, brokenProblem(broken)].filter((problem) => problem !== undefined);
  // A corrected clock is in the past and does not make the server unready.
  const notes = [correctedNote(corrected)].filter((note) => note !== undefined);
  const detail = [...problems, ...notes].join(" ");
  return {
    status: problems.length === 0 ? "ok" : "degraded",
    ...counts,
    ...(detail === "" ? {} : { detail }),
  };
}

function correctedNote(corrected: CronStats["corrected"]): string | undefined {
  if (corrected === undefined) return undefined;
  const { atMs, count } = corrected;
  const jobs = count === 1 ? "a job was" : `${count} jobs were`;
  return `The clock had been ahead: ${jobs} due too late. The next run of each was set from its schedule at ${iso(atMs)}.`;
}

function stateProblem(state: CronStats["state"]): string | undefined {
  if (state === "ticking") return undefined;
  const what = state === "none" ? "No scheduler is running." : "The scheduler has stalled. No job runs.";
  return `${what} The server log says why.`;
}

function lateProblem({ count, named }: CronStats["late"]): string | undefined {
  if (count === 0) return undefined;
  const names = named.map(({ id, name }) => `${redact(name)} (${id})`).join(", ");
  const more = count > named.length ? ` and ${count - named.length} more` : "";
  return `${count === 1 ? "A job is" : `${count} jobs are`} late: ${names}${more}.`;
}

function brokenProblem(broken: number): string | undefined {
  if (broken === 0) return undefined;
  return `${broken === 1 ? "A job" : `${broken} jobs`} cannot be read. \`agentd doctor\` names what to remove.`;
}

function iso(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString();
}
