import type { DetailedHealth, HealthCheck } from "../../../generated/http/client/types.gen.ts";
import { formatModel } from "../../agent/model.ts";
import { readOutboxStats, type OutboxStats } from "../../deliver/outbox/stats.ts";
import { readDeliveryStats } from "../../store/stats.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import { DELIVERY_STATUSES } from "../../webhook/deliveries/deliveries.ts";
import { checkCron } from "./health-cron.ts";
import type { CronStats, HttpContext, HttpDeps, ReceiverStats } from "../deps.ts";

/** A question to the database that takes longer counts as not answered. */
const STORE_PATIENCE_MS = 2_000;
/** With less room than this, writes may soon fail. */
const MIN_FREE_BYTES = 100_000_000;
/** Deliveries that are counted came within this time. */
const RECEIVED_MS = 3_600_000;
/** Of a list in a sentence for people. */
const MAX_NAMED = 5;

type Checks = DetailedHealth["readiness"]["checks"];

/** GET /health/detailed: every part looked at now. Only `strict` makes what is degraded a 503. */
export async function getDetailedHealth(
  { query }: HttpRequest<"getDetailedHealth", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getDetailedHealth">> {
  const [stored, free] = await Promise.all([askStore(deps), deps.serviceStats.freeBytes()]);
  const disk = checkDisk(free);
  const mcp = checkMcp(deps);
  const checks: Checks = {
    state_store: stored.check,
    config: checkConfig(deps),
    model: checkModel(deps),
    ...(disk ? { disk } : {}),
    api_server: checkServer(deps),
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
  /** What is owed to others; undefined when the database did not tell. */
  readonly webhook?: HealthCheck;
  readonly outbox?: OutboxStats;
  /** Of the last hour, by status; undefined when there is no receiver, or the database did not tell. */
  readonly received?: ReadonlyMap<string, number> | undefined;
  /** As {@link received}. */
  readonly cron?: CronStats | undefined;
}

const NO_RUNS = { queued: 0, running: 0, waiting_for_approval: 0, stopping: 0 };

/** A database that fails or hangs is told of as degraded, with no figures. */
async function askStore(deps: HttpDeps): Promise<Stored> {
  const { store, clock, log } = deps;
  const patience = new AbortController();
  const late = clock.sleep(STORE_PATIENCE_MS, { signal: patience.signal }).then(() => {
    throw new Error(`no answer within ${STORE_PATIENCE_MS} ms`);
  });
  late.catch(() => {}); // the loser of the race must not count as unhandled
  const asked = countStored(deps);
  asked.catch(() => {});
  try {
    const counted = await Promise.race([asked, late]);
    return { check: { status: "ok", driver: store.dialect }, ...counted };
  } catch (error) {
    log.error("the database failed its check", { error });
    const detail = "The database does not answer. The server log has the details.";
    return { check: { status: "degraded", detail, driver: store.dialect }, runs: NO_RUNS, sessions: 0 };
  } finally {
    patience.abort();
  }
}

/**
 * Counts are over partial indexes: runs that have not ended, sessions that are kept, messages that are owed. Deliveries
 * are those at the end of their table.
 */
async function countStored({ store, clock, serviceStats }: HttpDeps): Promise<Omit<Stored, "check">> {
  const [open, kept, outbox, received, cron] = await Promise.all([
    store.read
      .selectFrom("runs")
      .select(({ fn }) => ["status", fn.countAll().as("count")])
      .where("ended_at", "is", null)
      .where("kind", "!=", "subagent")
      .groupBy("status")
      .execute(),
    store.read
      .selectFrom("sessions")
      .select(({ fn }) => fn.countAll().as("count"))
      // Written out: for a bound value SQLite does not look at the index.
      .where((row) => row("transient", "=", row.lit(0)))
      .executeTakeFirst(),
    readOutboxStats(store),
    serviceStats.receiver && readDeliveryStats(store, clock.now() - RECEIVED_MS),
    serviceStats.cron?.(),
  ]);
  const counted = Object.fromEntries(open.map(({ status, count }) => [status, Number(count)]));
  const { queued = 0, running = 0, waiting_for_approval = 0, stopping = 0 } = counted;
  const { due, sending, dead } = outbox.all;
  return {
    runs: { queued, running, waiting_for_approval, stopping },
    sessions: Number(kept?.count ?? 0),
    webhook: { status: "ok", waiting: due + sending, given_up: dead },
    outbox,
    received,
    cron,
  };
}

/** What is only doubtful is told and does not make the server unready: it runs with what it understood. */
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
  if (provider.type === "demo") {
    const detail =
      "The built-in demo model answers. Configure a provider with `agentd setup` for a real one.";
    return { status: "ok", model, detail };
  }
  // Servers of one's own often ask for no key.
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
  const figures = { keys_required: keys.required };
  if (runs.draining) return { status: "degraded", ...figures, detail: "The server is shutting down." };
  if (keys.required) return { status: "ok", ...figures };
  return { status: "ok", ...figures, detail: "No key is asked for; only this machine can reach the server." };
}

function checkReceiver(
  { runs }: HttpDeps,
  { url, routes, problem }: ReceiverStats,
  received: Stored["received"],
): HealthCheck {
  const counted = received && DELIVERY_STATUSES.map((status) => [status, received.get(status) ?? 0] as const);
  const figures = { url: url ?? null, routes, waiting: runs.waiting, ...Object.fromEntries(counted ?? []) };
  if (url === undefined) {
    const why = problem ?? "The server log says why; `agentd doctor` looks for it.";
    const detail = `Webhooks are not received. ${why}`;
    return { status: "degraded", ...figures, detail };
  }
  if (routes > 0) return { status: "ok", ...figures };
  const detail = "There is no route yet. Make one with `agentd webhook subscribe`.";
  return { status: "ok", ...figures, detail };
}

/** Undefined when there are no servers. */
function checkMcp({ serviceStats }: HttpDeps): HealthCheck | undefined {
  const servers = serviceStats.mcp();
  if (servers.length === 0) return undefined;
  const count = (status: string) => servers.filter((server) => server.status === status).length;
  const figures = {
    connected: count("connected"),
    connecting: count("connecting"),
    failed: count("failed"),
  };
  if (figures.failed === 0) return { status: "ok", ...figures };
  const failed = servers.filter(({ status }) => status === "failed").map(({ name }) => name);
  return { status: "degraded", ...figures, detail: `These servers cannot be used: ${listed(failed)}.` };
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
