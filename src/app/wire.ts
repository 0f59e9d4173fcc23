/** The modules that every service has, built from the configuration in the order of this file. */
import type { Config } from "../../generated/config/types.gen.ts";
import { wireAgent, type WiredAgent, type WireAgentOptions } from "./wire-agent.ts";
import { systemClock, type Clock } from "../base/time.ts";
import { protectHome } from "../base/system/own-files.ts";
import { Dispatcher } from "../deliver/outbox/dispatch.ts";
import { meterTargets, type Targets } from "../deliver/target.ts";
import { OutboundFiles } from "../deliver/outbox/files.ts";
import { createServiceTargets, onMessageSettled } from "./wire-delivery.ts";
import { cronOutputFolder, sandboxOptions } from "./settings.ts";
import process from "node:process";
import { ServiceError } from "../base/errors.ts";
import { SandboxRequiredError, SandboxService } from "../exec/sandbox/service.ts";
import { rpcHandlers } from "../rpc/methods/handlers.ts";
import { RpcHub } from "../rpc/events/hub.ts";
import { gatewayLimits } from "../rpc/connection/ready.ts";
import { createSubscriptions } from "../rpc/events/subscriptions.ts";
import type { RpcDeps } from "../rpc/deps.ts";
import { openStore } from "../store/open.ts";
import { scheduleSweeps } from "../store/retention.ts";
import { openTelemetry, type Telemetry } from "../telemetry/telemetry.ts";
import type { Environment } from "../config/home.ts";
import type { KeyRing } from "../http/edge/access.ts";
import type { HttpDeps } from "../http/deps.ts";
import type { Store } from "../store/store.ts";

/** What every service needs, whatever clients it serves. */
export interface CoreOptions extends Omit<WireAgentOptions, "telemetry"> {
  /** Complete and valid, as `loadConfig` returns it. */
  readonly config: Config;
  readonly clock?: Clock;
  /** Warnings about the configuration, a clause each. */
  readonly configProblems?: readonly string[];
  /** The environment of the process alone. Default: `env`, which also has the variables of `<home>/.env`. */
  readonly processEnv?: Environment;
  /** Stops the search for slow model servers. */
  readonly closeModels?: () => void;
  /** A store that is already open. Default: that of `paths.databaseUrl`. The service closes it. */
  readonly store?: Store;
}

export interface ServiceOptions extends CoreOptions {
  readonly keys: KeyRing;
  /** What the file and the variables said at the start. Default: `config`, which may have options of the command line. */
  readonly fileConfig?: Config;
  /** Chooses another default model; false when its provider is not in use. Absent: the default model is fixed. */
  readonly setDefaultModel?: (model: string | undefined) => boolean;
  /** For tests: where the built console is. */
  readonly consoleFolder?: URL;
  /** For tests: validates every response against the spec. */
  readonly validateResponses?: boolean;
  /** For tests: receives every response. */
  readonly observe?: HttpDeps["observe"];
}

export interface WiredService {
  readonly wiredAgent: WiredAgent;
  readonly sandbox: SandboxService;
  readonly telemetry: Telemetry;
  readonly targets: Targets;
  readonly dispatcher: Dispatcher;
  /** What to close, in this order. */
  readonly closers: readonly (() => Promise<void>)[];
}

/**
 * Opens the store, wires the modules and starts recovery and dispatch. A failure closes what is already open.
 * ServiceError `invalid_config` or `state_store_unavailable`.
 */
export async function wireService(options: CoreOptions): Promise<WiredService> {
  const { config, log, clock = systemClock } = options;
  const onProblem = (message: string, error: unknown) => log.warn(message, { error });
  const storeOptions = { url: options.paths.databaseUrl, maxReaderBytes: config.limits.max_reader_bytes };
  const [sandbox, store] = await Promise.all([
    startSandbox(options),
    options.store ?? openStore({ ...storeOptions, ...timeOf(options), onProblem }),
  ]);
  const closers: (() => Promise<void>)[] = [
    () => store.close(),
    async () => options.variables.close(),
    async () => options.closeModels?.(),
    () => sandbox.close(),
  ];
  const unprotect = protectHome(options.paths.agentHome);
  closers.push(async () => unprotect());
  try {
    const telemetry = await openTelemetry(options, { store, clock });
    closers.unshift(() => telemetry.close());
    const wiredAgent = wireAgent({ ...options, sandbox, telemetry: telemetry.agent }, store, clock);
    closers.unshift(() => wiredAgent.close());
    wiredAgent.agent.start();
    const onJobsRemoved = (ids: readonly string[]) => removeCronOutputs(options.paths, ids);
    closers.unshift(
      scheduleSweeps(store, { ...retentionOptions(config), clock, onProblem, onCronJobsGone: onJobsRemoved }),
    );
    const plainTargets = await createServiceTargets(options, { store, clock });
    const { metrics } = telemetry.delivery;
    const targets = metrics ? meterTargets(plainTargets, { metrics, clock }) : plainTargets;
    const dispatcher = new Dispatcher({
      store,
      clock,
      log,
      targets,
      tracer: telemetry.tracer,
      retryDelaysMs: config.delivery.retry_seconds.map((seconds) => seconds * 1000),
      sendTimeoutMs: config.delivery.timeout_seconds * 1000,
      settled: onMessageSettled,
      files: new OutboundFiles({ agentHome: options.paths.agentHome, workspace: options.paths.workspace }),
    });
    closers.unshift(() => dispatcher.close());
    await dispatcher.start();
    return { wiredAgent, sandbox, telemetry, targets, dispatcher, closers };
  } catch (error) {
    for (const close of closers) await close();
    throw error;
  }
}

/** ServiceError `invalid_config` where the sandbox is required and does not work. */
async function startSandbox({ config, paths, processEnv, env, log }: CoreOptions): Promise<SandboxService> {
  const searchPath = (processEnv ?? env)["PATH"] ?? process.env["PATH"] ?? "";
  try {
    const sandbox = await SandboxService.start(sandboxOptions(config, paths, searchPath));
    const { status } = sandbox;
    if (status.active) log.info("commands run in a sandbox", { kind: status.kind });
    else if (config.terminal.sandbox === "auto") {
      log.warn("commands run without a sandbox", { reason: status.reason, hint: "agentd doctor" });
    }
    return sandbox;
  } catch (error) {
    if (!(error instanceof SandboxRequiredError)) throw error;
    throw new ServiceError("invalid_config", error.message, { param: "terminal.sandbox" });
  }
}

/** An injected clock applies to the store too. Otherwise the store uses the time of the database, which replicas share. */
function timeOf({ clock }: CoreOptions): { readonly now?: () => number } {
  return clock ? { now: () => clock.now() } : {};
}

/** Returns the connections of the gateway. `api` serves its calls of operations. */
export function createHub(options: CoreOptions, deps: WiredAgent, api: RpcDeps["api"]): RpcHub {
  return new RpcHub({ ...rpcDeps(options, deps), api }, rpcHandlers);
}

function rpcDeps(options: CoreOptions, deps: WiredAgent): Omit<RpcDeps, "peers" | "api"> {
  const { config, env, paths, version, log, processEnv = env } = options;
  const { store, clock, keyLimits } = deps.agent.deps;
  return {
    ...deps,
    ...(keyLimits ? { keyLimits } : {}),
    store,
    clock,
    log,
    version,
    settings: {
      limits: gatewayLimits(config.sessions.max_queue),
      cliExec: config.gateway.cli_exec,
      shellExec: config.gateway.shell_exec,
    },
    config: { atStart: config, home: paths.agentHome, userHome: paths.userHome, env: processEnv },
    subscribe: createSubscriptions,
  };
}

/** How long webhook deliveries are kept: people look at them when an event seems to be lost. */
const DELIVERIES_MS = 30 * 24 * 3_600_000;
const MAX_DELIVERIES = 10_000;
const MAX_OCCURRENCES = 200_000;
const MAX_CHANGES = 200_000;
const DAY_MS = 86_400_000;

/** Loads its module on demand: few services ever remove a job. */
async function removeCronOutputs(paths: CoreOptions["paths"], ids: readonly string[]): Promise<void> {
  const { removeOutputs } = await import("../cron/run/end.ts");
  for (const id of ids) await removeOutputs(cronOutputFolder(paths), id);
}

function retentionOptions(config: Config) {
  const { runs_hours: runsHours, events_hours: eventsHours, sweep_minutes: sweepMinutes } = config.retention;
  const keepMs = runsHours * 3_600_000;
  return {
    retention: {
      runsMs: keepMs,
      questionsMs: config.retention.questions_hours * 3_600_000,
      outboxMs: keepMs,
      changesMs: config.retention.changes_hours * 3_600_000,
      maxChanges: MAX_CHANGES,
      usageMs: config.retention.usage_days * DAY_MS,
      deliveriesMs: DELIVERIES_MS,
      maxDeliveries: MAX_DELIVERIES,
      occurrencesMs: config.cron.history_days * DAY_MS,
      maxOccurrences: MAX_OCCURRENCES,
      overJobsMs: config.cron.completed_days * DAY_MS,
      maxRunEvents: config.limits.max_run_events,
      ...(eventsHours === undefined ? {} : { eventsMs: eventsHours * 3_600_000 }),
    },
    everyMs: sweepMinutes * 60_000,
  };
}
