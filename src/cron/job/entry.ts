/** Jobs and occurrences as programs read them: snake case, ISO instants, null for what is not there. Pure. */
import { redact } from "../../base/observe/redact.ts";
import type { Job, JobDefinition } from "./job.ts";
import type { Occurrence } from "../tick/occurrence.ts";
import { formatSchedule } from "../schedule/schedule.ts";

/** A job for the CLI's `--json` and the agent's tool. Secrets that are known are masked. */
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

/** A run of a job, or an instant without one. */
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

/** Null also for what no calendar has: a row may hold any number. */
function iso(atMs: number | undefined): string | null {
  if (atMs === undefined || Math.abs(atMs) > MAX_TIME_MS) return null;
  return new Date(atMs).toISOString();
}

const MAX_TIME_MS = 8.64e15;
