/** Jobs and occurrences as JSON for programs, and in lines for people in a conversation. Pure. */
import { redact } from "../../base/observe/redact.ts";
import { type Job, type JobDefinition, isOver } from "./job.ts";
import type { Occurrence } from "../tick/occurrence.ts";
import { formatSchedule } from "../schedule/schedule.ts";
import { zonedTime } from "../schedule/zoned-time.ts";

/** Returns a job for `--json` and the agent's tool: snake case, ISO instants, null for absent values, secrets redacted. */
export function jobEntry(job: Job): Readonly<Record<string, unknown>> {
  const { id, definition, state } = job;
  return {
    id,
    name: redact(definition.name),
    state,
    enabled: state === "scheduled" || state === "error",
    schedule: scheduleEntry(definition),
    schedule_display: formatSchedule(definition.schedule),
    time_zone: definition.zone,
    next_run_at: iso(job.nextRunAtMs),
    repeat: { times: definition.repeat, completed: job.repeatDone },
    ...whatEntry(definition),
    ...whereEntry(definition),
    ...howEntry(definition),
    paused_at: iso(job.pausedAtMs),
    paused_reason: masked(job.pausedReason),
    run_asked_at: iso(job.manualAtMs),
    retry_at: iso(job.retryAtMs),
    last_run_at: iso(job.lastRunAtMs),
    last_status: job.lastStatus ?? null,
    last_error: masked(job.lastError),
    last_delivery_error: masked(job.lastDeliveryError),
    failure_streak: job.failureStreak,
    created_at: iso(job.createdAtMs),
    updated_at: iso(job.updatedAtMs),
  };
}

function scheduleEntry({ schedule }: JobDefinition): object {
  switch (schedule.kind) {
    case "once":
      return { kind: schedule.kind, run_at: iso(schedule.atMs) };
    case "interval":
      return { kind: schedule.kind, minutes: schedule.minutes };
    case "cron":
      return { kind: schedule.kind, expr: schedule.expression };
  }
}

function whatEntry({ prompt, skills, script, isScriptOnly, contextFrom }: JobDefinition): object {
  return {
    prompt: redact(prompt),
    skills,
    script: script ?? null,
    no_agent: isScriptOnly,
    context_from: contextFrom,
  };
}

function whereEntry({ deliver, failureDeliver, origin, workdir }: JobDefinition): object {
  return {
    deliver: redact(deliver),
    failure_deliver: masked(failureDeliver),
    origin: masked(origin),
    workdir: workdir ?? null,
  };
}

function howEntry(definition: JobDefinition): object {
  return {
    model: definition.model ?? null,
    reasoning_effort: definition.reasoningEffort ?? null,
    toolsets: definition.toolsets ?? null,
    token_budget: definition.tokenBudget ?? null,
    inactivity_seconds: definition.inactivitySeconds ?? null,
    catch_up: definition.catchUp ?? null,
    misfire_grace_seconds: definition.misfireGraceSeconds ?? null,
    overlap: definition.overlap,
    jitter_seconds: definition.jitterSeconds,
  };
}

/** Returns an occurrence in the same form. */
export function occurrenceEntry(occurrence: Occurrence): Readonly<Record<string, unknown>> {
  return {
    id: occurrence.id,
    job_id: occurrence.jobId,
    job_name: redact(occurrence.jobName),
    scheduled_at: iso(occurrence.scheduledAtMs),
    cause: occurrence.cause,
    timing: occurrence.timing,
    status: occurrence.status,
    reason: masked(occurrence.reason),
    covers_until: iso(occurrence.coversUntilMs),
    covers_count: occurrence.coversCount,
    claimed_at: iso(occurrence.claimedAtMs),
    started_at: iso(occurrence.startedAtMs),
    ended_at: iso(occurrence.endedAtMs),
    run_id: occurrence.runId ?? null,
    session_id: occurrence.sessionId ?? null,
    output_file: occurrence.outputFile ?? null,
    delivery_status: occurrence.deliveryStatus ?? null,
    delivery_error: masked(occurrence.deliveryError),
  };
}

function masked(text: string | undefined): string | null {
  return text === undefined ? null : redact(text);
}

/** Null also for a number that is not a valid date: a row may contain any. */
function iso(atMs: number | undefined): string | null {
  if (atMs === undefined || Math.abs(atMs) > MAX_TIME_MS) return null;
  return new Date(atMs).toISOString();
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
    ["Prompt", prompt === "" ? undefined : cut(redact(prompt), MAX_PROMPT_CHARACTERS)],
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
  return cut(
    redact(text)
      .replace(/[\s\p{Cc}]+/gu, " ")
      .trim(),
    MAX_SHOWN_CHARACTERS,
  );
}

function cut(text: string, max: number): string {
  const characters = Array.from(text);
  return characters.length <= max ? text : `${characters.slice(0, max).join("")}...`;
}
