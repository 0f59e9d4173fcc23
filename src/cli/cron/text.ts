/** Jobs as people read them at a terminal. Pure. */
import { redact } from "../../base/observe/redact.ts";
import type { Job, JobDefinition } from "../../cron/job/job.ts";
import type { BrokenJob } from "../../cron/job/jobs.ts";
import { formatSchedule } from "../../cron/schedule/schedule.ts";
import { zonedTime } from "../../cron/schedule/zoned-time.ts";
import { oneLine } from "../sessions/text.ts";
import type { Occurrence, OccurrenceStatus } from "../../cron/tick/occurrence.ts";
import { toTable } from "../kit/table.ts";

type Fact = readonly [name: string, value: string | undefined];

const SHOWN_CHARACTERS = 120;
/** What `show` prints of a prompt; `--json` has all of it. */
const MAX_PROMPT_CHARACTERS = 4_000;

const STATES: Readonly<Record<Job["state"], string>> = {
  scheduled: "active",
  paused: "paused",
  completed: "completed",
  missed: "missed",
  error: "error",
};

export const NO_JOBS = 'No scheduled jobs. Make one: agentd cron create "every 1h" "Sum up what is new."';

/** `Created job: <id>`, and what it will do. */
export function createdText(job: Job): string {
  return [`Created job: ${job.id}`, ...factLines(summaryFacts(job), "  ")].join("\n");
}

/** As people are told which job was meant: `<name> (<id>)`. */
export function nameAndId({ id, definition }: Job): string {
  return `${shown(definition.name)} (${id})`;
}

/** A job in the list. */
export function jobBlock(job: Job): string {
  const { definition } = job;
  const facts: readonly Fact[] = [
    ["Name", shown(definition.name)],
    ["Schedule", scheduleText(job)],
    ["Repeat", repeatText(job)],
    ["Next run", nextRunText(job)],
    ["Deliver", shown(definition.deliver)],
    ["Skills", listText(definition.skills)],
    ["Script", scriptText(definition)],
    ["Last run", lastRunText(job)],
  ];
  return [`  ${job.id} [${STATES[job.state]}]`, ...factLines(facts, "    ")].join("\n");
}

export function brokenBlock({ id, name }: BrokenJob): string {
  const facts: readonly Fact[] = [
    ["Name", shown(name)],
    ["Problem", `its record cannot be read, and it does not run; agentd cron remove ${id} takes it away`],
  ];
  return [`  ${id} [broken]`, ...factLines(facts, "    ")].join("\n");
}

/** All there is to know of a job. */
export function jobText(job: Job): string {
  const { definition, id, state } = job;
  const facts: readonly Fact[] = [
    ["ID", id],
    ["State", state === "scheduled" ? "scheduled (active)" : state],
    ...summaryFacts(job),
    ["Repeat", repeatText(job)],
    ...destinationFacts(definition),
    ...howFacts(definition),
    ...historyFacts(job),
  ];
  return [...factLines(facts, ""), ...promptLines(definition)].join("\n");
}

function summaryFacts(job: Job): readonly Fact[] {
  const { definition } = job;
  return [
    ["Name", shown(definition.name)],
    ["Schedule", scheduleText(job)],
    ["Skills", listText(definition.skills)],
    ["Script", scriptText(definition)],
    ["Next run", nextRunText(job)],
  ];
}

function destinationFacts(definition: JobDefinition): readonly Fact[] {
  const { deliver, failureDeliver, origin, workdir, contextFrom } = definition;
  return [
    ["Deliver", masked(deliver)],
    ["Failures", maskedIfAny(failureDeliver)],
    ["Origin", maskedIfAny(origin)],
    ["Context of", listText(contextFrom)],
    ["Folder", workdir === undefined ? undefined : oneLine(workdir)],
  ];
}

function howFacts(definition: JobDefinition): readonly Fact[] {
  const { catchUp, misfireGraceSeconds, overlap, jitterSeconds, tokenBudget, inactivitySeconds } = definition;
  return [
    ["Model", maskedIfAny(definition.model)],
    ["Effort", maskedIfAny(definition.reasoningEffort)],
    ["Toolsets", definition.toolsets && (listText(definition.toolsets) ?? "none")],
    ["Tokens", tokenBudget === undefined ? undefined : `at most ${tokenBudget} a run`],
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

function historyFacts(job: Job): readonly Fact[] {
  const { pausedAtMs, failureStreak, lastError, lastDeliveryError, definition } = job;
  const { zone } = definition;
  return [
    ["Paused", pausedAtMs === undefined ? undefined : zonedTime(pausedAtMs, zone)],
    ["Last run", lastRunText(job)],
    ["Error", maskedIfAny(lastError)],
    ["Delivery", maskedIfAny(lastDeliveryError)],
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
  return ["Prompt:", ...lines, ...(left > 0 ? [`  (${left} more characters; --json has all)`] : [])];
}

/** The instant of a one-shot in the job's own zone, else the schedule as it can be typed. */
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
  const asked = manualAtMs === undefined ? "" : "now, it was asked for; then ";
  if (state === "paused")
    return `${asked}paused${pausedReason === undefined ? "" : `: ${masked(pausedReason)}`}`;
  if (state === "error") return `${asked}cannot be computed; that is tried again every hour`;
  const retry = retryAtMs === undefined ? "" : ` (another try ${zonedTime(retryAtMs, zone)})`;
  if (nextRunAtMs !== undefined) return `${asked}${zonedTime(nextRunAtMs, zone)}${retry}`;
  return `${asked}none${retry}`;
}

function lastRunText({ lastRunAtMs, lastStatus, lastError, lastDeliveryError, definition }: Job): string {
  if (lastRunAtMs === undefined) return lastStatus ?? "never";
  const why = lastStatus === "delivery_failed" ? lastDeliveryError : lastError;
  const told = why === undefined || lastStatus === "ok" ? "" : `: ${shown(why)}`;
  return `${zonedTime(lastRunAtMs, definition.zone)}, ${lastStatus ?? "under way"}${told}`;
}

function scriptText({ script, isScriptOnly }: JobDefinition): string | undefined {
  if (script === undefined) return undefined;
  return `${oneLine(script)}${isScriptOnly ? " (its output is the message, no agent runs)" : ""}`;
}

function listText(names: readonly string[]): string | undefined {
  return names.length === 0 ? undefined : oneLine(names.join(", "));
}

function secondsText(seconds: number | undefined, before: string): string | undefined {
  return seconds === undefined ? undefined : `${before} ${seconds} s`;
}

/** One line of it, without secrets, and not too long. */
export function shown(text: string): string {
  const characters = Array.from(masked(text));
  if (characters.length <= SHOWN_CHARACTERS) return characters.join("");
  return `${characters.slice(0, SHOWN_CHARACTERS).join("")}…`;
}

/** One line of it, without secrets. */
export function masked(text: string): string {
  return oneLine(redact(text));
}

function maskedIfAny(text: string | undefined): string | undefined {
  return text === undefined ? undefined : masked(text);
}

/** Values stand below each other; what there is not is left out. */
export function factLines(facts: readonly Fact[], indent: string): readonly string[] {
  const there = facts.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
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

/** Newest first, with all times in one zone. Without `isOneJob` each line names its job. */
export function runsTable(
  occurrences: readonly Occurrence[],
  { zone, isOneJob }: { readonly zone: string; readonly isOneJob: boolean },
): string {
  const rows = occurrences.map((each) => [
    each.id,
    ...(isOneJob ? [] : [`${each.jobId} ${shown(each.jobName)}`]),
    timeIn(each.scheduledAtMs, zone),
    causeText(each),
    statusText(each),
    tookText(each),
    deliveryText(each),
    each.outputFile !== undefined && each.endedAtMs !== undefined ? each.outputFile : "-",
    noteText(each),
  ]);
  const head = ["ID", ...(isOneJob ? [] : ["JOB"]), `DUE (${zone})`];
  return toTable([...head, "CAUSE", "STATUS", "TOOK", "DELIVERY", "OUTPUT", "NOTE"], rows);
}

/** `ok after 3.2 s`, with the reason of what is not, and with what became of messages that did not arrive. */
export function endText(occurrence: Occurrence): string {
  const took = tookText(occurrence);
  const reason = occurrence.reason === undefined ? "" : `: ${shown(occurrence.reason)}`;
  const delivery = lostText(occurrence);
  return `${statusText(occurrence)}${took === "-" ? "" : ` after ${took}`}${reason}${delivery}`;
}

function lostText({ deliveryStatus, deliveryError }: Occurrence): string {
  if (deliveryStatus === "pending") return "; its message is still on its way";
  if (deliveryStatus !== "failed" && deliveryStatus !== "unknown") return "";
  const what = deliveryStatus === "failed" ? "delivery failed" : "nobody knows whether its message arrived";
  return `; ${what}${deliveryError === undefined ? "" : `: ${shown(deliveryError)}`}`;
}

export function deliveryText({ deliveryStatus }: Occurrence): string {
  if (deliveryStatus === undefined || deliveryStatus === "none") return "-";
  return deliveryStatus;
}

function statusText({ status, coversCount }: Occurrence): string {
  return coversCount > 1 ? `${STATUS_WORDS[status]} x${coversCount}` : STATUS_WORDS[status];
}

function causeText({ cause, timing }: Occurrence): string {
  if (timing === "on_time") return cause;
  return `${cause}, ${timing === "late" ? "late" : "made up for"}`;
}

function tookText({ startedAtMs, endedAtMs }: Occurrence): string {
  if (startedAtMs === undefined || endedAtMs === undefined) return "-";
  return `${(Math.max(0, endedAtMs - startedAtMs) / 1000).toFixed(1)} s`;
}

function noteText({ status, reason, deliveryError }: Occurrence): string {
  const notes = [status === "ok" ? undefined : reason, deliveryError].filter((note) => note !== undefined);
  return notes.map(shown).join("; ");
}

/** The zone stands in the head of the table. */
function timeIn(atMs: number, zone: string): string {
  return zonedTime(atMs, zone).replace(/ \(.*\)$/, "");
}
