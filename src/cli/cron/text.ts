/** Formats jobs and their runs for the terminal. Pure. */
import { shorten } from "../../base/text.ts";
import { redact } from "../../base/observe.ts";
import type { BrokenJob, Job, Occurrence, OccurrenceStatus } from "../../client/http.ts";
import { zonedTime } from "../../cron/job/job.ts";
import { oneLine } from "../sessions/text.ts";

type Row = readonly [name: string, value: string | null | undefined];

const SHOWN_CHARACTERS = 120;
/** The limit of a prompt in `show`. `--json` prints the whole prompt. */
const MAX_PROMPT_CHARACTERS = 4_000;

const STATES: Readonly<Record<Job["state"], string>> = {
  scheduled: "active",
  paused: "paused",
  completed: "completed",
  missed: "missed",
  error: "error",
};

export const NO_JOBS =
  'No scheduled jobs. Create one: agentd cron create "every 1h" "Summarize what is new."';

/** Returns `Created job: <id>` and a summary of the job. */
export function createdText(job: Job): string {
  return [`Created job: ${job.id}`, ...formatRows(summaryFacts(job), "  ")].join("\n");
}

/** Returns `<name> (<id>)`. */
export function nameAndId({ id, name }: Job): string {
  return `${shown(name)} (${id})`;
}

export const JOB_HEAD = ["ID", "STATE", "NEXT RUN", "LAST RUN", "SCHEDULE", "DELIVER", "NAME"] as const;

/** Returns the cells of a job in a table with {@link JOB_HEAD}. `format` writes a time. */
export function jobCells(job: Job, format: (atMs: number) => string): readonly string[] {
  const { id, state, next_run_at: nextAt, last_run_at: lastAt, last_status: lastStatus } = job;
  const next = state === "paused" || nextAt === null ? "-" : format(nextAt * 1000);
  const last = lastAt === null ? undefined : format(lastAt * 1000);
  return [
    id,
    STATES[state],
    job.run_requested_at === null ? next : "now (requested)",
    [last, statusWords(lastStatus) ?? (last === undefined ? "-" : "running")].filter(Boolean).join(", "),
    scheduleText(job),
    shown(job.deliver),
    shown(job.name),
  ];
}

/** Returns the cells of a job that cannot be read. */
export function brokenCells({ id, name }: BrokenJob): readonly string[] {
  return [id, "broken", "-", "-", "-", "-", shown(name)];
}

/** Returns all details of a job. */
export function jobText(job: Job): string {
  const { id, state } = job;
  const rows: readonly Row[] = [
    ["ID", id],
    ["State", state === "scheduled" ? "scheduled (active)" : state],
    ...summaryFacts(job),
    ["Repeat", repeatText(job)],
    ...destinationFacts(job),
    ...howFacts(job),
    ...historyFacts(job),
  ];
  return [...formatRows(rows, ""), ...promptLines(job)].join("\n");
}

function summaryFacts(job: Job): readonly Row[] {
  return [
    ["Name", shown(job.name)],
    ["Schedule", scheduleText(job)],
    ["Skills", listText(job.skills)],
    ["Script", scriptText(job)],
    ["Next run", nextRunText(job)],
  ];
}

function destinationFacts(job: Job): readonly Row[] {
  return [
    ["Deliver", masked(job.deliver)],
    ["Failures", maskedIfAny(job.failure_deliver)],
    ["Origin", maskedIfAny(job.origin)],
    ["Context of", listText(job.context_from)],
    ["Folder", job.workdir === null ? undefined : oneLine(job.workdir)],
  ];
}

function howFacts(job: Job): readonly Row[] {
  const { catch_up: catchUp, inactivity_seconds: inactivity, jitter_seconds: jitter } = job;
  return [
    ["Model", maskedIfAny(job.model)],
    ["Effort", maskedIfAny(job.reasoning_effort)],
    ["Toolsets", job.toolsets && (listText(job.toolsets) ?? "none")],
    ["Tokens", job.token_budget === null ? undefined : `at most ${job.token_budget} per run`],
    ["Inactivity", inactivity === 0 ? "never stopped" : secondsText(inactivity, "stopped after")],
    ["Catch up", catchUp === null ? undefined : catchUp ? "yes" : "no"],
    ["Grace", secondsText(job.misfire_grace_seconds, "late by up to")],
    ["Overlap", job.overlap === "allow" ? "allowed" : undefined],
    ["Jitter", jitter > 0 ? secondsText(jitter, "up to") : undefined],
  ];
}

function historyFacts(job: Job): readonly Row[] {
  const { paused_at: pausedAt, failure_streak: streak, time_zone: zone } = job;
  return [
    ["Paused", pausedAt === null ? undefined : zonedTime(pausedAt * 1000, zone)],
    ["Last run", lastRunText(job)],
    ["Error", maskedIfAny(job.last_error)],
    ["Message", maskedIfAny(job.last_delivery_error)],
    ["In a row", streak > 1 ? `${streak} failures` : undefined],
    ["Created", zonedTime(job.created_at * 1000, zone)],
  ];
}

function promptLines({ prompt }: Job): readonly string[] {
  if (prompt === "") return [];
  const whole = redact(prompt);
  const left = whole.length - MAX_PROMPT_CHARACTERS;
  const lines = whole
    .slice(0, MAX_PROMPT_CHARACTERS)
    .split(/\r?\n/)
    .map((line) => `  ${oneLine(line)}`.trimEnd());
  return ["Prompt:", ...lines, ...(left > 0 ? [`  (${left} more characters; see --json)`] : [])];
}

/** Returns the time of a one-shot job in its zone, otherwise the schedule as typed. */
function scheduleText({ schedule, schedule_kind: kind, time_zone: zone }: Job): string {
  if (kind === "once") return `once, ${zonedTime(Date.parse(schedule), zone)}`;
  return `${oneLine(schedule)}${kind === "cron" ? ` (${oneLine(zone)})` : ""}`;
}

function repeatText({ repeat: { times, completed } }: Job): string {
  return times === null ? "∞" : `${completed}/${times}`;
}

export function nextRunText(job: Job): string {
  const { state, time_zone: zone, next_run_at: nextAt, retry_at: retryAt, paused_reason: reason } = job;
  const asked = job.run_requested_at === null ? "" : "now (requested), then ";
  if (state === "paused") return `${asked}paused${reason === null ? "" : `: ${masked(reason)}`}`;
  if (state === "error") return `${asked}unknown: computing it failed, retried every hour`;
  const retry = retryAt === null ? "" : ` (retry ${zonedTime(retryAt * 1000, zone)})`;
  if (nextAt !== null) return `${asked}${zonedTime(nextAt * 1000, zone)}${retry}`;
  return `${asked}none${retry}`;
}

function lastRunText(job: Job): string {
  const { last_run_at: lastAt, last_status: status } = job;
  if (lastAt === null) return statusWords(status) ?? "never";
  const why = status === "delivery_failed" ? job.last_delivery_error : job.last_error;
  const reason = why === null || status === "ok" ? "" : `: ${shown(why)}`;
  return `${zonedTime(lastAt * 1000, job.time_zone)}, ${statusWords(status) ?? "running"}${reason}`;
}

/** The stored status of a job says delivery for what people know as its message. */
const statusWords = (status: string | null): string | undefined =>
  status === "delivery_failed" ? "message failed" : (status ?? undefined);

function scriptText({ script, no_agent: isScriptOnly }: Job): string | undefined {
  if (script === null) return undefined;
  return `${oneLine(script)}${isScriptOnly ? " (its output is the message; the agent does not run)" : ""}`;
}

function listText(names: readonly string[]): string | undefined {
  return names.length === 0 ? undefined : oneLine(names.join(", "));
}

function secondsText(seconds: number | null, before: string): string | undefined {
  return seconds === null ? undefined : `${before} ${seconds} s`;
}

/** Returns one short line without secrets. */
export function shown(text: string): string {
  return shorten(masked(text), SHOWN_CHARACTERS);
}

/** Returns one line without secrets. */
export function masked(text: string): string {
  return oneLine(redact(text));
}

function maskedIfAny(text: string | null): string | undefined {
  return text === null ? undefined : masked(text);
}

/** Returns aligned `name: value` lines without absent values. */
export function formatRows(rows: readonly Row[], indent: string): readonly string[] {
  const there = rows.flatMap(([name, value]) =>
    value === undefined || value === null ? [] : [[name, value] as const],
  );
  const width = Math.max(...there.map(([name]) => name.length)) + 1;
  return there.map(([name, value]) => `${indent}${`${name}:`.padEnd(width)} ${value}`);
}

const STATUS_WORDS: Readonly<Record<OccurrenceStatus, string>> = {
  claimed: "starting",
  running: "running",
  ok: "ok",
  failed: "failed",
  missed: "missed",
  skipped: "skipped",
  unknown: "unknown",
};

export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** Returns a table of runs with times in one zone. Without `isOneJob` each row names its job. */
export function runsTable(
  occurrences: readonly Occurrence[],
  { zone, isOneJob }: { readonly zone: string; readonly isOneJob: boolean },
): Table {
  const rows = occurrences.map((each) => [
    each.id,
    ...(isOneJob ? [] : [`${each.job_id} ${shown(each.job_name)}`]),
    timeIn(each.scheduled_at * 1000, zone),
    causeText(each),
    statusText(each),
    tookText(each),
    messageText(each),
    each.has_output ? (each.output_file ?? "-") : "-",
    noteText(each),
  ]);
  const head = ["ID", ...(isOneJob ? [] : ["JOB"]), `DUE (${zone})`];
  return { head: [...head, "CAUSE", "STATUS", "TOOK", "MESSAGE", "OUTPUT", "NOTE"], rows };
}

/** Returns `ok after 3.2 s`, with the reason of a failure and of undelivered messages. */
export function endText(occurrence: Occurrence): string {
  const took = tookText(occurrence);
  const reason = occurrence.reason === null ? "" : `: ${shown(occurrence.reason)}`;
  const delivery = undeliveredText(occurrence);
  return `${statusText(occurrence)}${took === "-" ? "" : ` after ${took}`}${reason}${delivery}`;
}

function undeliveredText({ delivery_status: status, delivery_error: error }: Occurrence): string {
  if (status === "pending") return "; its message is not delivered yet";
  if (status !== "failed" && status !== "unknown") return "";
  const what = status === "failed" ? "its message failed" : "its message is unconfirmed";
  return `; ${what}${error === null ? "" : `: ${shown(error)}`}`;
}

function messageText({ delivery_status: status }: Occurrence): string {
  return status === null || status === "none" ? "-" : status;
}

function statusText({ status, covers_count: count }: Occurrence): string {
  return count > 1 ? `${STATUS_WORDS[status]} x${count}` : STATUS_WORDS[status];
}

function causeText({ cause, timing }: Occurrence): string {
  if (timing === "on_time") return cause;
  return `${cause}, ${timing === "late" ? "late" : "catch-up"}`;
}

function tookText({ started_at: startedAt, ended_at: endedAt }: Occurrence): string {
  if (startedAt === null || endedAt === null) return "-";
  return `${Math.max(0, endedAt - startedAt).toFixed(1)} s`;
}

function noteText({ status, reason, delivery_error: error }: Occurrence): string {
  const notes = [status === "ok" ? null : reason, error].filter((note) => note !== null);
  return notes.map(shown).join("; ");
}

/** Omits the zone, which is in the header. */
function timeIn(atMs: number, zone: string): string {
  return zonedTime(atMs, zone).replace(/ \(.*\)$/, "");
}
