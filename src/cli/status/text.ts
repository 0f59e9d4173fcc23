/** The status of a home: its JSON form, and its text. Pure. */
import { formatDuration, formatRelative } from "../kit/duration.ts";
import { toBlock } from "../kit/table.ts";

/** The model and the sandbox of the running gateway, or those of the next one. */
export interface ServiceStatus {
  readonly model: string;
  readonly sandbox: { readonly active: boolean; readonly kind?: string; readonly detail?: string };
}

/** What `agentd status --json` prints. Counts are absent without a database. */
export interface HomeStatus extends ServiceStatus {
  /** Null: on a server. */
  readonly home: string | null;
  readonly gateway:
    | { readonly running: false; readonly url: string }
    | {
        readonly running: true;
        readonly url: string;
        readonly version: string;
        readonly pid: number;
        readonly started_at: string;
        readonly uptime_seconds: number;
        readonly state: "ready" | "recovering" | "stopping";
        /** The file or terminal of its log. Null: a pipe, or unknown. */
        readonly log: string | null;
      };
  /** Null: on a server. */
  readonly database: { readonly location: string; readonly exists: boolean } | null;
  readonly runs?: {
    readonly queued: number;
    readonly running: number;
    readonly waiting_for_approval: number;
    readonly stopping: number;
  };
  /** Open questions of all runs. */
  readonly questions?: number;
  readonly jobs?: {
    readonly scheduled: number;
    /** Due for more than a minute. */
    readonly late: number;
    /** RFC 3339. */
    readonly next_due_at: string | null;
  };
  readonly outbox?: {
    readonly due: number;
    readonly sending: number;
    readonly dead: number;
    readonly unknown: number;
  };
  /** Sentences: what is wrong, and what to do. */
  readonly problems: readonly string[];
}

export function statusText(status: HomeStatus, nowMs: number): string {
  const { database, problems, model } = status;
  return [
    toBlock([
      ["Gateway", gatewayText(status.gateway)],
      ["Log", status.gateway.running && status.home !== null ? logText(status.gateway) : undefined],
      ["Home", status.home ?? undefined],
      ["Model", model === "demo:demo" ? `${model} (no provider is configured; run \`agentd setup\`)` : model],
      ["Sandbox", sandboxText(status.sandbox)],
      ["Database", database ? databaseText(database) : undefined],
      ["Runs", status.runs && runsText(status.runs)],
      ["Questions", status.questions === undefined ? undefined : questionsText(status.questions)],
      ["Jobs", status.jobs && jobsText(status.jobs, nowMs)],
      ["Outbox", status.outbox && outboxText(status.outbox)],
    ]),
    ...(problems.length === 0 ? [] : ["", "Problems:", ...problems.map((each) => `  ${each}`)]),
  ].join("\n");
}

function databaseText({ location, exists }: NonNullable<HomeStatus["database"]>): string {
  return exists ? location : `${location} (does not exist yet)`;
}

function gatewayText(gateway: HomeStatus["gateway"]): string {
  if (!gateway.running) return `not running (${gateway.url}); start it with \`agentd gateway\``;
  const { url, version, pid, uptime_seconds: uptime, state } = gateway;
  const doing = state === "ready" ? "" : `, ${state}`;
  return `${url}, agentd ${version}, pid ${pid}, up ${formatDuration(uptime)}${doing}`;
}

function logText({ log, pid }: { readonly log: string | null; readonly pid: number }): string {
  if (log?.endsWith("/logs/gateway.log") === true) return `${log}; show it with \`agentd logs\``;
  return log ?? `standard error of process ${pid}; under systemd: journalctl _PID=${pid}`;
}

function sandboxText({ active, kind, detail }: ServiceStatus["sandbox"]): string {
  if (active) return kind ?? "active";
  return detail === undefined ? "off" : `off: ${detail}`;
}

function runsText(runs: NonNullable<HomeStatus["runs"]>): string {
  const { running, waiting_for_approval: waiting, queued, stopping } = runs;
  return listed([
    [running, "running"],
    [waiting, "waiting for approval"],
    [queued, "queued"],
    [stopping, "stopping"],
  ]);
}

function questionsText(count: number): string {
  if (count === 0) return "none";
  return `${count} open; list them with \`agentd questions list\``;
}

function jobsText(jobs: NonNullable<HomeStatus["jobs"]>, nowMs: number): string {
  const { scheduled, late, next_due_at: next } = jobs;
  const counts = listed([
    [scheduled, "scheduled"],
    [late, "late"],
  ]);
  return next === null ? counts : `${counts}, next ${formatRelative(Date.parse(next), nowMs)}`;
}

function outboxText({ due, sending, dead, unknown }: NonNullable<HomeStatus["outbox"]>): string {
  return listed([
    [due, "due"],
    [sending, "sending"],
    [dead, "dead"],
    [unknown, "unknown"],
  ]);
}

function listed(counts: readonly (readonly [count: number, what: string])[]): string {
  return counts.flatMap(([count, what]) => (count > 0 ? [`${count} ${what}`] : [])).join(", ") || "none";
}
