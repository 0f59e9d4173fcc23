/** Formats jobs and their runs for the terminal. Pure. */
import { shorten } from "../../base/text.ts";
import { redact } from "../../base/observe.ts";
import { type Job, type JobDefinition, formatSchedule, type OccurrenceStatus } from "../../cron/job/job.ts";
import { zonedTime } from "../../cron/job/job.ts";
import type { BrokenJob } from "../../cron/job/jobs.ts";
import { oneLine } from "../sessions/text.ts";
import type { Occurrence } from "../../cron/job/format.ts";

type Row = readonly [name: string, value: string | undefined];

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
export function nameAndId({ id, definition }: Job): string {
  return `${shown(definition.name)} (${id})`;
}

export const JOB_HEAD = ["ID", "STATE", "NEXT RUN", "LAST RUN", "SCHEDULE", "DELIVER", "NAME"] as const;

/** Returns the cells of a job in a table with {@link JOB_HEAD}. `format` writes a time. */
export function jobCells(job: Job, format: (atMs: number) => string): readonly string[] {
  const { definition, id, state, nextRunAtMs, manualAtMs, lastRunAtMs, lastStatus } = job;
  const next = state === "paused" || nextRunAtMs === undefined ? "-" : format(nextRunAtMs);
  const last = lastRunAtMs === undefined ? undefined : format(lastRunAtMs);
  return [
    id,
    STATES[state],
    manualAtMs === undefined ? next : "now (requested)",
    [last, statusWords(lastStatus) ?? (last === undefined ? "-" : "running")].filter(Boolean).join(", "),
    scheduleText(job),
    shown(definition.deliver),
    shown(definition.name),
  ];
}

/** Returns the cells of a job that cannot be read. */
export function brokenCells({ id, name }: BrokenJob): readonly string[] {
  return [id, "broken", "-", "-", "-", "-", shown(name)];
}

/** Returns all details of a job. */
export function jobText(job: Job): string {
  const { definition, id, state } = job;
  const rows: readonly Row[] = [
    ["ID", id],
    ["State", state === "scheduled" ? "scheduled (active)" : state],
    ...summaryFacts(job),
    ["Repeat", repeatText(job)],
    ...destinationFacts(definition),
    ...howFacts(definition),
    ...historyFacts(job),
  ];
  return [...formatRows(rows, ""), ...promptLines(definition)].join("\n");
}

function summaryFacts(job: Job): readonly Row[] {
  const { definition } = job;
  return [
    ["Name", shown(definition.name)],
    ["Schedule", scheduleText(job)],
    ["Skills", listText(definition.skills)],
    ["Script", scriptText(definition)],
    ["Next run", nextRunText(job)],
  ];
}

function destinationFacts(definition: JobDefinition): readonly Row[] {
  const { deliver, failureDeliver, origin, workdir, contextFrom } = definition;
  return [
    ["Deliver", masked(deliver)],
    ["Failures", maskedIfAny(failureDeliver)],
    ["Origin", maskedIfAny(origin)],
    ["Context of", listText(contextFrom)],
    ["Folder", workdir === undefined ? undefined : oneLine(workdir)],
  ];
}

function howFacts(definition: JobDefinition): readonly Row[] {
  const { catchUp, misfireGraceSeconds, overlap, jitterSeconds, tokenBudget, inactivitySeconds } = definition;
  return [
    ["Model", maskedIfAny(definition.model)],
    ["Effort", maskedIfAny(definition.reasoningEffort)],
    ["Toolsets", definition.toolsets && (listText(definition.toolsets) ?? "none")],
    ["Tokens", tokenBudget === undefined ? undefined : `at most ${tokenBudget} per run`],
    [
      "Inactivity",
      inactivitySeconds === 0 ? "never stopped" : secondsText(inactivitySeconds, "stopped after"),
    ],
    ["Catch up", catchUp === undefined ? undefined : catchUp ? "yes" : "no"],
    ["Grace", secondsText(misfireGraceSeconds, "late by up to")],
    ["Overlap", overlap === "allow" ? "allowed" : undefined],
    ["Jitter", jitterSeconds > 0 ? secondsText(jitterSeconds, "up to") : undefined],
  ];
}

function historyFacts(job: Job): readonly Row[] {
  const { pausedAtMs, failureStreak, lastError, lastDeliveryError, definition } = job;
  const { zone } = definition;
  return [
    ["Paused", pausedAtMs === undefined ? undefined : zonedTime(pausedAtMs, zone)],
    ["Last run", lastRunText(job)],
    ["Error", maskedIfAny(lastError)],
    ["Message", maskedIfAny(lastDeliveryError)],
    ["In a row", failureStreak > 1 ? `${failureStreak} failures` : undefined],
    ["Created", zonedTime(job.createdAtMs, zone)],
  ];
}

function promptLines({ prompt }: JobDefinition): readonly string[] {
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
function scheduleText({ definition: { schedule, zone } }: Job): string {
  if (schedule.kind === "once") return `once, ${zonedTime(schedule.atMs, zone)}`;
  return `${oneLine(formatSchedule(schedule))}${schedule.kind === "cron" ? ` (${oneLine(zone)})` : ""}`;
}

function repeatText({ definition: { repeat }, repeatDone }: Job): string {
  return repeat === null ? "∞" : `${repeatDone}/${repeat}`;
}

export function nextRunText({
  state,
  definition,
  nextRunAtMs,
  manualAtMs,
  retryAtMs,
  pausedReason,
}: Job): string {
  const { zone } = definition;
  const asked = manualAtMs === undefined ? "" : "now (requested), then ";
  if (state === "paused")
    return `${asked}paused${pausedReason === undefined ? "" : `: ${masked(pausedReason)}`}`;
  if (state === "error") return `${asked}unknown: computing it failed, retried every hour`;
  const retry = retryAtMs === undefined ? "" : ` (retry ${zonedTime(retryAtMs, zone)})`;
  if (nextRunAtMs !== undefined) return `${asked}${zonedTime(nextRunAtMs, zone)}${retry}`;
  return `${asked}none${retry}`;
}

function lastRunText({ lastRunAtMs, lastStatus, lastError, lastDeliveryError, definition }: Job): string {
  if (lastRunAtMs === undefined) return statusWords(lastStatus) ?? "never";
  const why = lastStatus === "delivery_failed" ? lastDeliveryError : lastError;
  const reason = why === undefined || lastStatus === "ok" ? "" : `: ${shown(why)}`;
  return `${zonedTime(lastRunAtMs, definition.zone)}, ${statusWords(lastStatus) ?? "running"}${reason}`;
}

/** The stored status of a job says delivery for what people know as its message. */
const statusWords = (status: string | undefined): string | undefined =>
  status === "delivery_failed" ? "message failed" : status;

function scriptText({ script, isScriptOnly }: JobDefinition): string | undefined {
  if (script === undefined) return undefined;
  return `${oneLine(script)}${isScriptOnly ? " (its output is the message; the agent does not run)" : ""}`;
}

function listText(names: readonly string[]): string | undefined {
  return names.length === 0 ? undefined : oneLine(names.join(", "));
}

function secondsText(seconds: number | undefined, before: string): string | undefined {
  return seconds === undefined ? undefined : `${before} ${seconds} s`;
}

/** Returns one short line without secrets. */
export function shown(text: string): string {
  return shorten(masked(text), SHOWN_CHARACTERS);
}

/** Returns one line without secrets. */
export function masked(text: string): string {
  return oneLine(redact(text));
}

function maskedIfAny(text: string | undefined): string | undefined {
  return text === undefined ? undefined : masked(text);
}

/** Returns aligned `name: value` lines without undefined values. */
export function formatRows(rows: readonly Row[], indent: string): readonly string[] {
  const there = rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
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
    ...(isOneJob ? [] : [`${each.jobId} ${shown(each.jobName)}`]),
    timeIn(each.scheduledAtMs, zone),
    causeText(each),
    statusText(each),
    tookText(each),
    messageText(each),
    each.outputFile !== undefined && each.endedAtMs !== undefined ? each.outputFile : "-",
    noteText(each),
  ]);
  const head = ["ID", ...(isOneJob ? [] : ["JOB"]), `DUE (${zone})`];
  return { head: [...head, "CAUSE", "STATUS", "TOOK", "MESSAGE", "OUTPUT", "NOTE"], rows };
}

/** Returns `ok after 3.2 s`, with the reason of a failure and of undelivered messages. */
export function endText(occurrence: Occurrence): string {
  const took = tookText(occurrence);
  const reason = occurrence.reason === undefined ? "" : `: ${shown(occurrence.reason)}`;
  const delivery = undeliveredText(occurrence);
  return `${statusText(occurrence)}${took === "-" ? "" : ` after ${took}`}${reason}${delivery}`;
}

function undeliveredText({ deliveryStatus, deliveryError }: Occurrence): string {
  if (deliveryStatus === "pending") return "; its message is not delivered yet";
  if (deliveryStatus !== "failed" && deliveryStatus !== "unknown") return "";
  const what = deliveryStatus === "failed" ? "its message failed" : "its message is unconfirmed";
  return `; ${what}${deliveryError === undefined ? "" : `: ${shown(deliveryError)}`}`;
}

function messageText({ deliveryStatus }: Occurrence): string {
  if (deliveryStatus === undefined || deliveryStatus === "none") return "-";
  return deliveryStatus;
}

function statusText({ status, coversCount }: Occurrence): string {
  return coversCount > 1 ? `${STATUS_WORDS[status]} x${coversCount}` : STATUS_WORDS[status];
}

function causeText({ cause, timing }: Occurrence): string {
  if (timing === "on_time") return cause;
  return `${cause}, ${timing === "late" ? "late" : "catch-up"}`;
}

function tookText({ startedAtMs, endedAtMs }: Occurrence): string {
  if (startedAtMs === undefined || endedAtMs === undefined) return "-";
  return `${(Math.max(0, endedAtMs - startedAtMs) / 1000).toFixed(1)} s`;
}

function noteText({ status, reason, deliveryError }: Occurrence): string {
  const notes = [status === "ok" ? undefined : reason, deliveryError].filter((note) => note !== undefined);
  return notes.map(shown).join("; ");
}

/** Omits the zone, which is in the header. */
function timeIn(atMs: number, zone: string): string {
  return zonedTime(atMs, zone).replace(/ \(.*\)$/, "");
}
