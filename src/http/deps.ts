import type { Agent } from "../agent/agent.ts";
import type { Questions } from "../agent/question/questions.ts";
import type { KeyLimits } from "../agent/run/concurrency.ts";
import type { McpStatus } from "../agent/mcp/connection.ts";
import type { ModelCatalog } from "../agent/model.ts";
import type { RunScheduler } from "../agent/run/scheduler.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Tracer } from "../base/observe/trace.ts";
import type { Tickets } from "../config/tickets.ts";
import type { Store } from "../store/store.ts";
import type { Identity, KeyRing } from "./edge/auth.ts";
import type { HttpMetrics } from "./meta/metrics.ts";

/** What the HTTP surface is built from. */
export interface HttpDeps {
  readonly store: Store;
  readonly runs: RunScheduler;
  readonly agent: Pick<Agent, "findRun" | "settle">;
  readonly questions: Questions;
  readonly models: ModelCatalog;
  readonly clock: Clock;
  readonly log: Log;
  readonly keys: KeyRing;
  /** Absent: no key is limited. */
  readonly keyLimits?: KeyLimits;
  /** For the gateway's WebSocket. */
  readonly tickets: Tickets<{ readonly owner: string; readonly scopes: readonly string[] }>;
  readonly settings: HttpSettings;
  /** The bundled OpenAPI document. */
  readonly openApi: Readonly<Record<string, unknown>>;
  readonly version: string;
  readonly serviceStats: ServiceStats;
  /** Told of every answer; status 0 stands for one that the spec does not list. For tests and figures. */
  readonly observe?: (operation: string, status: number) => void;
  /** Absent: requests are not traced, a trace context is only passed on. */
  readonly tracer?: Tracer;
  /** Absent: metrics are off. */
  readonly metrics?: HttpMetrics;
}

/** What the health report tells besides what the rooms know. */
export interface ServiceStats {
  readonly pid: number;
  readonly startedAtMs: number;
  /** Flaws of the configuration that did not keep the server from starting, a clause each. */
  readonly configProblems: readonly string[];
  /** Sessions open in this process. */
  liveSessions(): number;
  /** What dead processes left open is not closed yet. */
  isRecovering(): boolean;
  mcp(): readonly McpStatus[];
  /** On the volume of the home folder; undefined where the runtime does not tell. */
  freeBytes(): Promise<number | undefined>;
  /** Absent: webhooks are not received. */
  readonly receiver?: () => ReceiverStats;
  /** Absent: there are no jobs of the clock. ServiceError `state_store_unavailable`. */
  readonly cron?: () => Promise<CronStats>;
}

/** The jobs of the clock, as the database has them now. */
export interface CronStats {
  /** Whether this server runs them. */
  readonly isEnabled: boolean;
  /** Of all servers on the database. */
  readonly state: "ticking" | "stalled" | "none";
  readonly lastTickAtMs: number | undefined;
  readonly jobs: Readonly<Record<"scheduled" | "paused" | "completed" | "missed" | "error", number>>;
  readonly broken: number;
  readonly late: {
    readonly count: number;
    readonly oldestDueAtMs: number | undefined;
    /** A few of them. */
    readonly named: readonly { readonly id: string; readonly name: string }[];
  };
  readonly next: { readonly dueAtMs: number } | undefined;
  /** Jobs that a clock ahead had put off, found within the last day. */
  readonly corrected: { readonly atMs: number; readonly count: number } | undefined;
  /** Runs at work. */
  readonly open: number;
  readonly failures: { readonly count: number };
}

/** The receiver of webhooks, as it is now. */
export interface ReceiverStats {
  /** Where it listens; undefined while it cannot. */
  readonly url: string | undefined;
  /** Why it does not listen, and what to do. */
  readonly problem?: string | undefined;
  /** How many there are, those of the file of subscriptions included. */
  readonly routes: number;
}

export interface HttpSettings {
  /** Name of the agent in the list of models. */
  readonly modelName: string;
  /** What a model in a chat body does that nothing resolves: the default model answers, or 400. */
  readonly unknownModel: "default" | "reject";
  /** Host names that requests may name when no key is asked for; undefined: any. */
  readonly allowedHosts: readonly string[] | undefined;
  readonly toolsets: readonly string[];
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  readonly maxMessages: number;
  readonly maxTextBytes: number;
  readonly keepaliveMs: number;
  readonly slowReaderMs: number;
  readonly maxSubscribersPerRun: number;
  /** What may wait for all clients together, and what one model call may say. */
  readonly maxReaderBytes: number;
  readonly maxAnswerBytes: number;
  readonly maxStoredResponses: number;
  readonly maxRunEvents: number;
  /** Of the whole server; 0: no limit. */
  readonly maxConcurrentRuns: number;
  readonly maxQueuePerSession: number;
  /** How long runs, and their events, are kept after their end. */
  readonly runTtlMs: number;
  readonly eventTtlMs: number;
  /** 0: questions wait for ever. */
  readonly approvalTimeoutMs: number;
  /** 0: no limit. */
  readonly runTimeoutMs: number;
  /** How responses show calls of the agent's own tools. */
  readonly toolItems: "mcp_call" | "function_call" | "none";
  readonly showReasoning: boolean;
  /** Signs completion webhooks that bring no secret of their own. */
  readonly webhookSecret: string | undefined;
  /** Private hosts that completion webhooks may go to. */
  readonly webhookAllowedHosts: readonly string[];
  readonly webhookAttempts: number;
  /** Origins of pages that may call, `*` for all; empty: CORS is off. */
  readonly corsOrigins: readonly string[];
  /** Checks every answer and event against the spec and fails loudly; for tests. */
  readonly validateResponses: boolean;
}

/** What a handler knows of the request beyond its declared input. */
export interface HttpContext {
  readonly identity: Identity;
  readonly requestId: string;
  /** W3C trace context of the request, for what it sets going. */
  readonly traceparent?: string | undefined;
}
