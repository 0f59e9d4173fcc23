/** Jobs and occurrences as JSON for programs, and in lines for people in a conversation. Pure. */
import { shorten } from "../../base/text.ts";
import type {
  Job as JobObject,
  JobTime,
  Occurrence as OccurrenceObject,
  OccurrenceMessage,
  Scheduler,
} from "../../../generated/http/client/types.gen.ts";
import { redact } from "../../base/observe.ts";
import {
  type Job,
  type JobDefinition,
  isOver,
  formatSchedule,
  zonedTime,
  type Cause,
  type DeliveryStatus,
  type OccurrenceStatus,
  type Timing,
} from "./job.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import type { SentMessage } from "../queries.ts";
import type { CronStatus, DueJob } from "../tick/status.ts";

/** What is computed for one job, besides its row. */
export interface JobPreview {
  readonly nextRuns?: readonly JobTime[];
  readonly warnings?: readonly string[];
}

/** Returns a job as the API, the command line and the agent's tool show it, with its secrets redacted. */
export function jobEntry(job: Job, { nextRuns, warnings }: JobPreview = {}): JobObject {
  const { definition, state } = job;
  return {
    object: "agent.job",
    id: job.id,
    owner: job.owner,
    revision: job.revision,
    name: redact(definition.name),
    state,
    schedule: formatSchedule(definition.schedule),
    schedule_kind: definition.schedule.kind,
    time_zone: definition.zone,
    next_run_at: seconds(job.nextRunAtMs),
    next_runs: nextRuns ? [...nextRuns] : null,
    warnings: warnings ? warnings.map(redact) : null,
    repeat: { times: definition.repeat, completed: job.repeatDone },
    ...whatEntry(definition),
    ...whereEntry(definition),
    ...howEntry(definition),
    paused_at: seconds(job.pausedAtMs),
    paused_reason: masked(job.pausedReason),
    run_requested_at: seconds(job.manualAtMs),
    retry_at: seconds(job.retryAtMs),
    last_run_at: seconds(job.lastRunAtMs),
    last_status: job.lastStatus ?? null,
    last_error: masked(job.lastError),
    last_delivery_error: masked(job.lastDeliveryError),
    failure_streak: job.failureStreak,
    created_at: seconds(job.createdAtMs) ?? 0,
    updated_at: seconds(job.updatedAtMs) ?? 0,
  };
}

function whatEntry({ prompt, skills, script, isScriptOnly, contextFrom }: JobDefinition) {
  return {
    prompt: redact(prompt),
    skills: [...skills],
    script: script ?? null,
    no_agent: isScriptOnly,
    context_from: [...contextFrom],
  };
}

function whereEntry({ deliver, failureDeliver, origin, workdir }: JobDefinition) {
  return {
    deliver: redact(deliver),
    failure_deliver: masked(failureDeliver),
    origin: masked(origin),
    workdir: workdir ?? null,
  };
}

function howEntry(definition: JobDefinition) {
  return {
    model: definition.model ?? null,
    reasoning_effort: definition.reasoningEffort ?? null,
    toolsets: definition.toolsets ? [...definition.toolsets] : null,
    token_budget: definition.tokenBudget ?? null,
    inactivity_seconds: definition.inactivitySeconds ?? null,
    catch_up: definition.catchUp ?? null,
    misfire_grace_seconds: definition.misfireGraceSeconds ?? null,
    overlap: definition.overlap,
    jitter_seconds: definition.jitterSeconds,
  };
}

/** Times in milliseconds since the epoch. */
export interface Occurrence {
  readonly id: string;
  readonly owner: string;
  readonly jobId: string;
  readonly jobName: string;
  readonly scheduledAtMs: number;
  readonly cause: Cause;
  readonly timing: Timing;
  readonly status: OccurrenceStatus;
  /** Why it has its status. */
  readonly reason?: string;
  /** When a missed occurrence covers several instants: the last of them, and their number. */
  readonly coversUntilMs?: number;
  readonly coversCount: number;
  readonly claimedAtMs: number;
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  readonly runId?: string;
  readonly sessionId?: string;
  readonly outputFile?: string;
  readonly deliveryStatus?: DeliveryStatus;
  readonly deliveryError?: string;
}

export function toOccurrence(row: OccurrenceRow): Occurrence {
  const optional = {
    reason: row.reason,
    coversUntilMs: row.covers_until,
    startedAtMs: row.started_at,
    endedAtMs: row.ended_at,
    runId: row.run_id,
    sessionId: row.session_id,
    outputFile: row.output_file,
    deliveryStatus: row.delivery_status,
    deliveryError: row.delivery_error,
  };
  const present = Object.entries(optional).filter(([, value]) => value !== null);
  return {
    id: row.id,
    owner: row.owner,
    jobId: row.job_id,
    jobName: row.job_name,
    scheduledAtMs: row.scheduled_at,
    cause: row.cause as Cause,
    timing: row.timing as Timing,
    status: row.status as OccurrenceStatus,
    coversCount: row.covers_count,
    claimedAtMs: row.claimed_at,
    ...(Object.fromEntries(present) as Partial<Occurrence>),
  };
}

/** Returns an occurrence in the same form. */
export function occurrenceEntry(
  occurrence: Occurrence,
  messages: readonly SentMessage[] | undefined = undefined,
): OccurrenceObject {
  const isWritten = occurrence.outputFile !== undefined && occurrence.endedAtMs !== undefined;
  return {
    object: "agent.occurrence",
    id: occurrence.id,
    owner: occurrence.owner,
    job_id: occurrence.jobId,
    job_name: redact(occurrence.jobName),
    scheduled_at: seconds(occurrence.scheduledAtMs) ?? 0,
    cause: occurrence.cause,
    timing: occurrence.timing,
    status: occurrence.status,
    reason: masked(occurrence.reason),
    covers_until: seconds(occurrence.coversUntilMs),
    covers_count: occurrence.coversCount,
    claimed_at: seconds(occurrence.claimedAtMs) ?? 0,
    started_at: seconds(occurrence.startedAtMs),
    ended_at: seconds(occurrence.endedAtMs),
    run_id: occurrence.runId ?? null,
    session_id: occurrence.sessionId ?? null,
    has_output: isWritten,
    output_file: occurrence.outputFile ?? null,
    delivery_status: occurrence.deliveryStatus ?? null,
    delivery_error: masked(occurrence.deliveryError),
    messages: messages ? messages.map(messageEntry) : null,
  };
}

function messageEntry({ id, target, status, last_error: error }: SentMessage): OccurrenceMessage {
  return {
    id,
    target: redact(target),
    status: status === "leased" ? "sending" : (status as OccurrenceMessage["status"]),
    error: error === null ? null : redact(error),
  };
}

/** Returns the status of the scheduler in the same form. */
export function schedulerEntry(
  status: CronStatus,
  { isEnabled, zone }: { readonly isEnabled: boolean; readonly zone: string },
): Scheduler {
  const { late, next, failures, jobs, corrected } = status;
  return {
    object: "agent.scheduler",
    enabled: isEnabled,
    time_zone: zone,
    state: status.state,
    last_tick_at: seconds(status.lastTickAtMs),
    tickers: status.tickers.map((ticker) => ({
      host: ticker.host ?? null,
      pid: ticker.pid ?? null,
      state: ticker.state,
      started_at: seconds(ticker.startedAtMs) ?? 0,
      ticked_at: seconds(ticker.tickedAtMs) ?? 0,
      succeeded_at: seconds(ticker.succeededAtMs),
      last_error: masked(ticker.lastError),
    })),
    jobs: { ...jobs },
    broken: status.broken,
    running: status.open,
    corrected: corrected ? { at: corrected.atMs / 1000, count: corrected.count } : null,
    next: next ? dueEntry(next) : null,
    late: {
      count: late.count,
      oldest_due_at: seconds(late.oldestDueAtMs),
      jobs: late.named.map(dueEntry),
    },
    failing: {
      count: failures.count,
      jobs: failures.named.map(({ id, name, lastStatus }) => ({
        id,
        name: redact(name),
        last_status: lastStatus,
      })),
    },
  };
}

function dueEntry({ id, name, dueAtMs }: DueJob) {
  return { id, name: redact(name), due_at: seconds(dueAtMs) ?? 0 };
}

function masked(text: string | undefined): string | null {
  return text === undefined ? null : redact(text);
}

/** Returns null even for a number that is not a valid date: a row may contain any number. */
function seconds(atMs: number | undefined): number | null {
  return atMs === undefined || Math.abs(atMs) > MAX_TIME_MS ? null : atMs / 1000;
}

const MAX_TIME_MS = 8.64e15;

const MAX_SHOWN_CHARACTERS = 120;
const MAX_PROMPT_CHARACTERS = 2_000;

/** `<name> (<id>)` */
export function nameOf({
  id,
  definition,
}: Pick<Job, "id"> & { readonly definition: Pick<JobDefinition, "name"> }): string {
  return `${line(definition.name)} (${id})`;
}

/** `<id>  <name>: every 1h, next 2026-01-05 13:00:00 +01:00 (Europe/Berlin)` */
export function jobLine(job: Job): string {
  const { id, definition } = job;
  const ended =
    job.lastStatus === undefined || job.lastStatus === "ok" ? "" : `; last run: ${job.lastStatus}`;
  return `${id}  ${line(definition.name)}: ${formatSchedule(definition.schedule)}, ${nextText(job)}${ended}`;
}

export function jobLines(job: Job): readonly string[] {
  const { id, definition } = job;
  const { repeat, skills, script, prompt, deliver } = definition;
  const fields: readonly (readonly [string, string | undefined])[] = [
    ["Job", id],
    ["Name", line(definition.name)],
    ["Schedule", `${formatSchedule(definition.schedule)} (${definition.zone})`],
    ["Next", nextText(job)],
    ["Repeat", repeat === null ? undefined : `${job.repeatDone} of ${repeat}`],
    ["Deliver", deliver === "local" ? "local (output file only)" : line(deliver)],
    ["Skills", skills.length === 0 ? undefined : skills.join(", ")],
    ["Script", script === undefined ? undefined : line(script)],
    ["Last run", lastText(job)],
    ["Prompt", prompt === "" ? undefined : shorten(redact(prompt), MAX_PROMPT_CHARACTERS)],
  ];
  return fields.flatMap(([name, value]) => (value === undefined ? [] : [`${name.padEnd(9)} ${value}`]));
}

/** Returns when an occurrence was due, its status and the reason. */
export function runLine(
  occurrence: Occurrence,
  { zone, isOneJob }: { readonly zone: string; readonly isOneJob: boolean },
): string {
  const { jobName, status, cause, timing, coversCount, reason, deliveryStatus, deliveryError } = occurrence;
  const whose = isOneJob ? "" : `${line(jobName)}: `;
  const times = coversCount > 1 ? ` (${coversCount} times)` : "";
  const how = [cause === "schedule" ? "" : cause, timing === "on_time" ? "" : timing.replace("_", " ")];
  const notes = [...how, reason ?? "", deliveryText(deliveryStatus), deliveryError ?? ""].filter(
    (note) => note !== "",
  );
  const details = notes.length === 0 ? "" : `, ${notes.map(line).join(", ")}`;
  return `${zonedTime(occurrence.scheduledAtMs, zone)}  ${whose}${status}${times}${details}`;
}

function deliveryText(status: Occurrence["deliveryStatus"]): string {
  return status === undefined || status === "none" ? "" : `delivery ${status}`;
}

function nextText({ state, definition, nextRunAtMs, manualAtMs, pausedReason }: Job): string {
  const manual = manualAtMs === undefined ? "" : "manual run requested; ";
  if (state === "paused")
    return `${manual}paused${pausedReason === undefined ? "" : ` (${line(pausedReason)})`}`;
  if (isOver(state)) return `${manual}${state}`;
  if (nextRunAtMs === undefined) return `${manual}no next time${state === "error" ? " can be computed" : ""}`;
  return `${manual}next ${zonedTime(nextRunAtMs, definition.zone)}`;
}

function lastText({
  lastRunAtMs,
  lastStatus,
  lastError,
  lastDeliveryError,
  definition,
}: Job): string | undefined {
  if (lastRunAtMs === undefined) return lastStatus;
  const why =
    lastStatus === "delivery_failed" ? lastDeliveryError : lastStatus === "ok" ? undefined : lastError;
  const reason = why === undefined ? "" : `: ${line(why)}`;
  return `${zonedTime(lastRunAtMs, definition.zone)}, ${lastStatus ?? "running"}${reason}`;
}

/** Returns a text in one line of limited length, without secrets. */
function line(text: string): string {
  return shorten(
    redact(text)
      .replace(/[\s\p{Cc}]+/gu, " ")
      .trim(),
    MAX_SHOWN_CHARACTERS,
  );
}
