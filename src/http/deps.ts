import type { SandboxStatus } from "../exec/sandbox/sandbox.ts";
import type { Agent } from "../agent/agent.ts";
import type { AgentServices } from "../agent/create.ts";
import type { ModelRef, ModelCatalog } from "../agent/model.ts";
import type { Clock } from "../base/time.ts";
import type { Log, Tracer } from "../base/observe.ts";
import type { KeyValidity } from "../base/net/request.ts";
import type { ConfigIssue } from "../config/check.ts";
import type { Tickets } from "../config/keys.ts";
import type { ApiKeys } from "../store/keys/keys.ts";
import type { WebhookService } from "../webhook/service.ts";
import type { PlatformStatus } from "../deliver/platform/status.ts";
import type { Targets } from "../deliver/target.ts";
import type { OutboxRow } from "../store/schema/tables.ts";
import type { Store, Tx } from "../store/store.ts";
import type { JobApi } from "../cron/deps.ts";
import type { Identity, KeyRing } from "./edge/access.ts";

/** Dependencies of the HTTP surface. */
export interface HttpDeps {
  readonly store: Store;
  readonly runs: Agent["runs"];
  readonly agent: Pick<Agent, "findRun" | "settle" | "sessions" | "contextUse" | "endRuns">;
  readonly questions: Agent["deps"]["questions"];
  readonly grants: Agent["deps"]["grants"];
  readonly models: ModelCatalog;
  readonly clock: Clock;
  readonly log: Log;
  readonly keys: KeyRing;
  /** Absent: keys have no limits. */
  readonly keyLimits?: Agent["deps"]["keyLimits"];
  /** Tickets for the gateway's WebSocket. */
  readonly tickets: Tickets<{
    readonly owner: string;
    readonly key: string;
    readonly scopes: readonly string[];
    readonly validity?: KeyValidity;
  }>;
  readonly service: ServiceControl;
  /** The configuration of the service. Its modules load at the first call. */
  readonly config: () => Promise<ConfigApi>;
  /** Created API keys. Their module loads at the first call. */
  readonly apiKeys: () => Promise<ApiKeys>;
  /** Webhook routes and deliveries. Their modules load at the first call. */
  readonly webhooks: () => Promise<WebhookService>;
  readonly delivery: DeliveryDeps;
  readonly tooling: ToolingDeps;
  readonly settings: HttpSettings;
  readonly version: string;
  readonly serviceStats: ServiceStats;
  readonly jobs: JobApi;
  /** Reports each answer. Status 0 means that the spec does not list the answer. For tests and metrics. */
  readonly observe?: (operation: string, status: number) => void;
  /** Absent: requests are not traced, and their trace context is only passed on. */
  readonly tracer?: Tracer;
  /** Absent: metrics are off. */
  readonly metrics?: HttpMetrics;
}

/** What administrators do with the running service. */
export interface ServiceControl {
  /** Default time for active runs to finish. */
  readonly drainMs: number;
  /** Refuses new work, and lets active runs finish for `graceMs`. */
  drain(graceMs: number): void;
  /** Reads the variables of the home again. Resolves to the number that changed. */
  reloadVariables(): Promise<number>;
  /** Runs the checks of the installation. */
  check(): Promise<readonly Finding[]>;
  /** Checks an archive, and keeps it for the next start unless `dryRun`. ServiceError `invalid_request`. */
  stageRestore(archive: Uint8Array, options: { readonly dryRun: boolean }): Promise<StagedBackup>;
  /** Resolves to an archive, whose temporary file is deleted once it is read. ServiceError `state_store_unavailable`. */
  backUp(options: {
    readonly withSecrets: boolean;
    readonly withWorkspace: boolean;
  }): Promise<{ readonly name: string; readonly content: AsyncIterable<Uint8Array> }>;
}

/** The result of one check of the installation. */
export interface Finding {
  readonly name: string;
  /** skip: another check must pass first. */
  readonly status: "ok" | "warn" | "fail" | "skip";
  readonly detail: string;
  /** What to do. */
  readonly fix?: string;
}

/** What an archive holds. */
export interface StagedBackup {
  readonly files: readonly unknown[];
  /** The version of agentd that made it. */
  readonly version: string;
  readonly created_at: string;
  readonly database: "copied" | "absent" | "elsewhere";
  readonly secrets: boolean;
  readonly omitted: readonly string[];
}

/** Reads and changes the configuration. */
export interface ConfigApi {
  read(): Promise<ConfigState>;
  /** JSON Schema of the file, with `x-applies` at each key. */
  schema(): Readonly<Record<string, unknown>>;
  /**
   * Applies a merge patch to the file. `check` gets the version of the file and throws to refuse. ServiceError
   * `invalid_config`, `secret_not_allowed`.
   */
  update(
    patch: Readonly<Record<string, unknown>>,
    options: { readonly dryRun: boolean; readonly check: (version: string) => void },
  ): Promise<ConfigChange>;
  /**
   * Reads the file again and applies what may change while the service runs. ServiceError `invalid_config` with every
   * mistake in `details.issues`: nothing changes then.
   */
  reload(): Promise<Pick<ConfigChange, "applied" | "restartRequired">>;
  /** The variables of the file and those that the configuration uses, by name. */
  variables(): Promise<readonly VariableState[]>;
  /**
   * Sets a variable of the file; undefined removes it. ServiceError `variable_is_static`, `variable_not_found`,
   * `invalid_config`.
   */
  setVariable(name: string, value: string | undefined): Promise<void>;
}

/** A variable without its value. */
export interface VariableState {
  readonly name: string;
  /** process: the environment of the server, which overrides the file. Undefined: it is not set. */
  readonly source: "process" | "file" | undefined;
  /** Keys of the configuration that use it. */
  readonly usedBy: readonly string[];
}

export interface ConfigState {
  /** Changes with the file. */
  readonly version: string;
  /** Without secrets. */
  readonly effective: Readonly<Record<string, unknown>>;
  readonly file: Readonly<Record<string, unknown>> | null;
  readonly issues: readonly ConfigIssue[];
  /** Keys whose values in the file are not those in use. */
  readonly pendingRestart: readonly string[];
}

export interface ConfigChange {
  readonly version: string;
  readonly changed: readonly string[];
  readonly applied: readonly string[];
  readonly restartRequired: readonly string[];
}

/** The models, budgets, skills and tools of the agent. */
export interface ToolingDeps extends Pick<Agent["deps"], "engine" | "prices" | "tools"> {
  /** Where the skills of a project are looked for. */
  readonly workspace: string;
  readonly budget: Agent["deps"]["settings"]["budget"];
  /** The keys with a budget of their own, in US dollars a day. */
  keyBudgets(): readonly { readonly key: string; readonly limit: number }[];
  /** Opens the budget of calls that belong to no run, and loads what it needs. */
  openBudget(payer: {
    readonly owner: string;
    readonly key: string | null;
    readonly model: ModelRef;
  }): ReturnType<Agent["runs"]["openBudget"]>;
  readonly skills: AgentServices["skills"];
  readonly mcp: AgentServices["mcp"] & {
    /** `actor`: who asks for it, for the feed. */
    reload(actor: string): Promise<unknown>;
  };
  readonly enabledToolsets: readonly string[];
  /** Whether the configuration names the provider. */
  isConfigured(provider: string): boolean;
  /** Whether the provider has headers of its own, which may hold its key. */
  hasHeaders(provider: string): boolean;
  /** Whether a variable of the home has a value. */
  hasVariable(name: string): boolean;
  /** Asks the usual addresses of this machine for model servers. */
  detect(): Promise<{
    readonly servers: readonly {
      readonly name: string;
      readonly baseUrl: string;
      readonly models: readonly string[];
    }[];
    readonly unanswered: readonly string[];
  }>;
}

/** What the service sends messages with. */
export interface DeliveryDeps {
  /** Targets with the connections of the service. */
  readonly targets: Targets;
  /** Name of the machine. */
  readonly host: string;
  /** Readiness of the platforms, as configured when the service started. */
  platforms(): Promise<readonly PlatformStatus[]>;
  /** Updates what waits for a message that a person changed, in `tx`, and sends what is due after the commit. */
  changed(tx: Tx, row: OutboxRow): Promise<void>;
}

/** What the health report needs besides the state of the other modules. */
export interface ServiceStats {
  readonly pid: number;
  readonly startedAtMs: number;
  /** Configuration problems that did not stop the server from starting, one clause each. */
  readonly configProblems: readonly string[];
  /** Counts the sessions open in this process. */
  liveSessions(): number;
  /** True while recovery closes what dead processes left open. */
  isRecovering(): boolean;
  mcp(): ReturnType<AgentServices["mcp"]["status"]>;
  /** Returns the free bytes on the volume of the home folder; undefined where the runtime does not say. */
  /** Whether commands run in a sandbox. Absent: not known. */
  sandbox?(): SandboxStatus;
  freeBytes(): Promise<number | undefined>;
  /** Absent: this server receives no webhooks. */
  readonly receiver?: () => ReceiverStats;
  /** Absent: cron is off. ServiceError `state_store_unavailable`. */
  readonly cron?: () => Promise<CronStats>;
}

/** The scheduled jobs as the database has them now. */
export interface CronStats {
  /** Whether this server runs jobs. */
  readonly isEnabled: boolean;
  /** Over all servers on the database. */
  readonly state: "ticking" | "stalled" | "none";
  readonly lastTickAtMs: number | undefined;
  readonly jobs: Readonly<Record<"scheduled" | "paused" | "completed" | "missed" | "error", number>>;
  readonly broken: number;
  readonly late: {
    readonly count: number;
    readonly oldestDueAtMs: number | undefined;
    /** The first few of them. */
    readonly named: readonly { readonly id: string; readonly name: string }[];
  };
  readonly next: { readonly dueAtMs: number } | undefined;
  /** Jobs whose due time a fast clock had moved too late, found within the last day. */
  readonly corrected: { readonly atMs: number; readonly count: number } | undefined;
  /** Runs that have not ended. */
  readonly open: number;
  readonly failures: { readonly count: number };
}

/** The current state of the webhook receiver. */
export interface ReceiverStats {
  /** Its address; undefined while it cannot listen. */
  readonly url: string | undefined;
  /** Why it does not listen, and how to fix that. */
  readonly problem?: string | undefined;
  /** Number of routes, including those of the subscriptions file. */
  readonly routes: number;
}

export interface HttpSettings {
  /** Folders in which every session may work: the workspace and the further roots; absolute. */
  readonly workspaceRoots: readonly string[];
  /** Name of the agent in the model list. */
  readonly modelName: string;
  /** How to treat an unknown model in a chat body: answer with the default model, or with 400. */
  readonly unknownModel: "default" | "reject";
  /** Host names that a request may name while keys are off; undefined: any. */
  readonly allowedHosts: readonly string[] | undefined;
  readonly toolsets: readonly string[];
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  readonly maxMessages: number;
  readonly maxTextBytes: number;
  readonly keepaliveMs: number;
  readonly slowReaderMs: number;
  readonly maxSubscribersPerRun: number;
  /** Bytes that may wait for all clients together, and bytes of one model answer. */
  readonly maxReaderBytes: number;
  readonly maxAnswerBytes: number;
  readonly maxStoredResponses: number;
  readonly maxRunEvents: number;
  /** For the whole server; 0: no limit. */
  readonly maxConcurrentRuns: number;
  readonly maxQueuePerSession: number;
  /** How long to keep runs, and their events, after they end. */
  readonly runTtlMs: number;
  readonly eventTtlMs: number;
  /** 0: questions never expire. */
  readonly approvalTimeoutMs: number;
  /** 0: no limit. */
  readonly runTimeoutMs: number;
  /** How responses show calls of the agent's own tools. */
  readonly toolItems: "mcp_call" | "function_call" | "none";
  readonly showReasoning: boolean;
  /** Signs completion webhooks that have no secret of their own. */
  readonly webhookSecret: string | undefined;
  /** Private hosts that may receive completion webhooks. */
  readonly webhookAllowedHosts: readonly string[];
  readonly webhookAttempts: number;
  /** Origins of pages that may call, `*` for all; empty: CORS is off. */
  readonly corsOrigins: readonly string[];
  readonly console: {
    readonly isEnabled: boolean;
    /** Whether browsers may sign in where others on the network can read the session. */
    readonly allowPlainHttp: boolean;
    /** Where it is built; undefined: beside the program. */
    readonly folder?: URL | undefined;
  };
  /** Checks every answer and event against the spec. For tests. */
  readonly validateResponses: boolean;
}

/** What a handler gets besides the declared input. */
export interface HttpContext {
  readonly identity: Identity;
  readonly requestId: string;
  /** W3C trace context of the request, for the work that it starts. */
  readonly traceparent?: string | undefined;
}

/** Metrics of the HTTP surface. */
export interface HttpMetrics {
  /** Returns all metrics of the process in the Prometheus text format, version 0.0.4. */
  text(): Promise<string>;
  /** Counts an answer and its duration; for a stream, the time until it started. */
  answered(operation: string, status: number, seconds: number): void;
  streamOpened(operation: string): void;
  streamClosed(operation: string): void;
}
