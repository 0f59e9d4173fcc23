/** The result of an occurrence: where it goes, the messages about it, and its output file. Pure. */
import { isOwnersAddress, resolveAddresses, type Homes } from "../../deliver/address.ts";
import { parseTarget, cleanText } from "../../deliver/target.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import {
  type Job,
  type JobDefinition,
  type LastStatus,
  type Cause,
  type Timing,
  type OccurrenceStatus,
  formatSchedule,
  zonedTime,
  wallTime,
} from "../job/job.ts";
import type { CronSettings } from "../deps.ts";
import { isPlan } from "../queries.ts";
import { SILENT } from "../../agent/run/run.ts";
import { toReadable, isBlank, headOf } from "../../base/text.ts";
import { redact } from "../../base/observe.ts";

/**
 * Where the result of an occurrence goes, and how it is written. It is fixed when the occurrence fires, so that later
 * changes of the job do not matter, and kept as JSON in the run's column `delivery`.
 */
export interface DeliveryPlan {
  /** Id of the occurrence, `occ_...`. First: `isPlan` of src/cron/queries.ts depends on it. */
  readonly ref: string;
  /** Whom the job and its messages belong to. */
  readonly owner: string;
  readonly jobId: string;
  readonly jobName: string;
  /** As `list` shows it. */
  readonly schedule: string;
  /** True: the schedule has one instant. */
  readonly isOnce: boolean;
  readonly zone: string;
  /** The instant of the occurrence, and the time of its claim. */
  readonly scheduledAtMs: number;
  readonly atMs: number;
  readonly cause: Cause;
  readonly timing: Timing;
  /** Complete addresses; empty: only the output file is written. */
  readonly targets: readonly string[];
  /** Targets of failures. */
  readonly failureTargets: readonly string[];
  /** Failure targets that get the reason: home channels, and targets for failures only. Anyone may read the others. */
  readonly informedTargets: readonly string[];
  readonly wraps: boolean;
  readonly silentMatch: CronSettings["silentMatch"];
  readonly outputFile: string;
  /** The prompt of the job, for the output file. */
  readonly prompt: string;
}

export interface PlanOptions {
  /** Home channels of the platforms. */
  readonly homes: Homes;
  readonly settings: Pick<CronSettings, "wrapResponse" | "silentMatch">;
}

type PlannedOccurrence = Pick<
  OccurrenceRow,
  "id" | "scheduled_at" | "claimed_at" | "cause" | "timing" | "output_file"
>;

/** Returns the plan of an occurrence for its job as it is now. */
export function planOccurrence(
  {
    occurrence,
    job,
  }: { readonly occurrence: PlannedOccurrence; readonly job: Pick<Job, "id" | "owner" | "definition"> },
  { homes, settings }: PlanOptions,
): DeliveryPlan {
  const { id: ref, scheduled_at: scheduledAtMs, claimed_at: atMs, output_file: outputFile } = occurrence;
  const { name, zone, schedule, deliver, failureDeliver, prompt } = job.definition;
  const failureTargets = addressesOf(failureDeliver ?? deliver, job.definition, homes);
  return {
    ref,
    owner: job.owner,
    jobId: job.id,
    jobName: name,
    schedule: formatSchedule(schedule),
    isOnce: schedule.kind === "once",
    zone,
    scheduledAtMs,
    atMs,
    cause: occurrence.cause as Cause,
    timing: occurrence.timing as Timing,
    targets: addressesOf(deliver, job.definition, homes),
    failureTargets,
    informedTargets:
      failureDeliver === undefined
        ? failureTargets.filter((address) => isOwnersAddress(address, homes))
        : failureTargets,
    wraps: settings.wrapResponse,
    silentMatch: settings.silentMatch,
    outputFile: outputFile ?? `${ref}.md`,
    prompt,
  };
}

/** The output file is written in any case. */
const LOCAL = "local";

/** Returns complete addresses without duplicates. */
function addressesOf(text: string, { origin }: JobDefinition, homes: Homes): readonly string[] {
  const resolved = resolveAddresses(text, { homes, origin });
  const completed = resolved.map((address) => inChatOf(origin, address));
  // Two of them may have become the same address.
  return resolveAddresses(completed.join(","), { homes }).filter((address) => address !== LOCAL);
}

/** Replaces a platform without a home channel by the chat in which the job was created, when that is on the platform. */
function inChatOf(origin: string | undefined, address: string): string {
  const isBare = !address.includes(":");
  return origin !== undefined && isBare && parseTarget(origin).platform === address ? origin : address;
}

/** Undefined: the run belongs to another trigger. */
export function readPlan(delivery: string | null): DeliveryPlan | undefined {
  if (delivery === null || !isPlan(delivery)) return undefined;
  return JSON.parse(delivery) as DeliveryPlan;
}

/** The result of an occurrence. */
export interface Ending {
  readonly status: Extract<OccurrenceStatus, "ok" | "failed" | "unknown">;
  /** The answer, or why it failed. */
  readonly text: string;
  /** True: the agent wrote the reason for the people that it answers. Other reasons are for the owner only. */
  readonly isFromAgent?: boolean;
  /** The job's last status, when it differs from `status`. */
  readonly lastStatus?: LastStatus;
  /** True: nothing is delivered, whatever the status. */
  readonly isQuiet?: boolean;
  /** True: the run failed before it reached a model, so that a retry is safe and may succeed. */
  readonly canRetry?: boolean;
}

/** The first line of an answer that reports a failure contains it. */
export const FAILURE_MARK = "[CRON_FAILURE]";
const MARKED = new RegExp(RegExp.escape(FAILURE_MARK), "i");
/** Punctuation around the mark. The lookbehind keeps long runs of it from taking quadratic time. */
const AROUND = /^[\s:*_`-]+|(?<![\s*_`])[\s*_`]+$/g;

/** Returns the result of an agent's answer: an empty answer is a failure, and so is one with the failure mark. Pure. */
export function endingOfAnswer(answer: string): Ending {
  const text = toReadable(answer).trim();
  if (isBlank(text)) return { status: "failed", isFromAgent: true, text: "The agent gave no answer." };
  const [first = "", ...others] = text.split("\n");
  if (!MARKED.test(first)) return { status: "ok", text };
  const rest = first.replace(MARKED, "").replace(AROUND, "");
  const reason = [rest, ...others].join("\n").trim();
  const given = reason === "" ? "The agent reported a failure without a reason." : reason;
  return { status: "failed", isFromAgent: true, text: given };
}

/**
 * Whether an answer asks not to be delivered, ignoring case. `contains`: it has `[SILENT]` anywhere. `line`: it
 * starts with `[SILENT]`, or all of it, its first or its last line is just `[SILENT]`, `SILENT`, `NO_REPLY` or `NO REPLY`.
 */
export function isSilent(text: string, match: CronSettings["silentMatch"]): boolean {
  const upper = text.trim().toUpperCase();
  if (match === "contains") return upper.includes(SILENT);
  if (upper.startsWith(SILENT)) return true;
  const lines = upper.split(/\r\n?|\n/);
  return [upper, lines.at(0), lines.at(-1)].some((part) => part !== undefined && SILENT_LINE.test(part));
}

/** With any punctuation around it. Anchored at both ends, so that it takes linear time. */
const SILENT_LINE = /^[^\p{L}\p{N}]*(?:SILENT|NO[_ ]REPLY)[^\p{L}\p{N}]*$/u;

/** What the store knows and the plan does not. */
export interface MessageContext {
  /** Instants that a run that catches up replaces, without its own. */
  readonly missedCount?: number;
  /** Failures in a row, including this one. */
  readonly failureStreak?: number;
  /** True: anyone may read the message, so it does not say why the service failed. */
  readonly hidesReason?: boolean;
}

/** After this many failures in a row the message says what to do. */
const HINT_STREAK = 3;

/** Returns the message about an ended occurrence, without secrets and, when the plan says so, with a header and a footer. */
export function messageText(plan: DeliveryPlan, ending: Ending, context: MessageContext = {}): string {
  const text = ending.status === "ok" ? ending.text : failureText(plan, ending, context);
  return safely(plan.jobId, () => (plan.wraps ? wrapText(plan, text, context) : text));
}

/** Returns the message about a one-shot that was missed. */
export function missedText(plan: DeliveryPlan): string {
  return safely(plan.jobId, () => {
    const { jobId, scheduledAtMs, atMs, zone } = plan;
    const lateness = durationText(atMs - scheduledAtMs);
    const text = [
      `The job ${titleOf(plan)} did not run: no scheduler was running at its time, ${zonedTime(scheduledAtMs, zone)}, and it was found ${lateness} late.`,
      `A job that runs once does not catch up. Set a new time with \`agentd cron edit ${jobId}\`, or remove it with \`agentd cron remove ${jobId}\`.`,
    ].join("\n");
    return plan.wraps ? wrapText({ ...plan, timing: "on_time" }, text, {}) : text;
  });
}

/** Returns a text, or a replacement when its secrets cannot be redacted. */
export function safely(
  jobId: string,
  compose: () => string,
  clean: (text: string) => string = cleanText,
): string {
  try {
    return clean(compose());
  } catch {
    return `The job ${jobId} has ended. Its text is withheld because its secrets could not be redacted. See \`agentd cron runs ${jobId}\`.`;
  }
}

/** Returns the name of the job in one line, or its id when the name is blank. */
function titleOf({ jobName, jobId }: Pick<DeliveryPlan, "jobName" | "jobId">): string {
  return redact(jobName).replace(/\s+/g, " ").trim() || jobId;
}

/** Returns a text for a column: without secrets, and without what a database would refuse. */
export function clip(text: string, characters: number): string {
  try {
    return headOf(toReadable(redact(text)), characters).trim();
  } catch {
    // A reason that cannot be redacted must not keep the occurrence from ending.
    return "The reason is withheld because its secrets could not be redacted.";
  }
}

function wrapText(plan: DeliveryPlan, text: string, context: MessageContext): string {
  const { jobId } = plan;
  const label = labelOf(plan, context);
  return [
    `Cronjob Response: ${titleOf(plan)}`,
    `(job_id: ${jobId})`,
    ...(label === undefined ? [] : [`(${label})`]),
    "-------------",
    "",
    text,
    "",
    `To stop or manage this job: agentd cron pause ${jobId}, or agentd cron remove ${jobId}.`,
  ].join("\n");
}

/** Returns why the message comes later than people expect. */
function labelOf(
  { timing, scheduledAtMs, atMs }: DeliveryPlan,
  { missedCount = 0 }: MessageContext,
): string | undefined {
  const late = `late by ${durationText(atMs - scheduledAtMs)}`;
  if (timing === "late") return late;
  if (timing !== "catch_up") return undefined;
  if (missedCount === 0) return late;
  return `${late}; it replaces ${missedCount} missed ${missedCount === 1 ? "time" : "times"}`;
}

function failureText(plan: DeliveryPlan, ending: Ending, context: MessageContext): string {
  const { status, text, isFromAgent = false } = ending;
  const { failureStreak = 0, hidesReason = false } = context;
  const { jobId } = plan;
  const how = status === "unknown" ? "was cut off" : "failed";
  if (hidesReason && !isFromAgent) return `The job ${titleOf(plan)} ${how}. ${consequenceOf(plan, status)}`;
  const hint = `It has failed ${failureStreak} times in a row. Change it (\`agentd cron edit ${jobId}\`) or pause it (\`agentd cron pause ${jobId}\`).`;
  return [
    `The job ${titleOf(plan)} ${how}: ${text}`,
    `${consequenceOf(plan, status)} See \`agentd cron runs ${jobId}\`.`,
    ...(failureStreak >= HINT_STREAK ? [hint] : []),
  ].join("\n\n");
}

function consequenceOf({ isOnce, cause }: DeliveryPlan, status: Ending["status"]): string {
  const what = status === "unknown" ? "How much of it was done is unknown" : "It has no answer to deliver";
  if (isOnce || cause === "manual") return `${what}, and it is not retried.`;
  return `${what}, and it is not retried before its next time.`;
}

const MINUTE_MS = 60_000;
const UNITS = [
  { ms: 1440 * MINUTE_MS, name: "days" },
  { ms: 60 * MINUTE_MS, name: "h" },
  { ms: MINUTE_MS, name: "min" },
] as const;

/** Returns a duration in the largest unit that it contains at least twice. */
export function durationText(ms: number): string {
  const unit = UNITS.find((each) => ms >= 2 * each.ms);
  if (!unit) return `${Math.max(0, Math.round(ms / 1000))} s`;
  return `${Math.floor(ms / unit.ms)} ${unit.name}`;
}

/** The target that writes output files. It is not a platform, so that people cannot name it. */
export const OUTPUT_TARGET = "cron_output";

/**
 * Returns `YYYY-MM-DD_HH-MM-SS.md` in the local time of `zone`. Suffixes mark the second of two equal hours when clocks go
 * back, and runs outside the schedule, so that each run of a job has its own name.
 */
export function outputFileName({
  atMs,
  zone,
  cause,
}: {
  readonly atMs: number;
  readonly zone: string;
  readonly cause: Cause;
}): string {
  const time = wallTime(atMs, zone);
  // Scheduled runs are a minute apart; manual runs and retries may be closer.
  const why = cause === "schedule" ? "" : `_${cause}-${String(atMs % 1000).padStart(3, "0")}`;
  const isSecond = SHIFTS_MS.some((ms) => wallTime(atMs - ms, zone) === time);
  return `${time.replace(" ", "_").replaceAll(":", "-")}${isSecond ? "_second" : ""}${why}.md`;
}

/** All amounts by which clocks go back. */
const SHIFTS_MS = [7_200_000, 3_600_000, 1_800_000] as const;

/** Whether `name` can be an output file: it cannot leave its folder. */
export function isOutputFileName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.md$/.test(name);
}

/** Whether `id` can name a folder of outputs. */
export function isJobFolderName(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id);
}

/** The payload of the output target. */
export interface KeptOutput {
  readonly jobId: string;
  readonly file: string;
  readonly text: string;
}

/** Undefined when the payload is not an output. The caller checks that its names are safe. */
export function readKeptOutput(payload: unknown): KeptOutput | undefined {
  const { jobId, file, text } = Object(payload) as Partial<Record<keyof KeptOutput, unknown>>;
  if (typeof jobId !== "string" || typeof file !== "string" || typeof text !== "string") return undefined;
  return { jobId, file, text };
}

export function keptOutput(plan: DeliveryPlan, ending: Ending): KeptOutput {
  const { jobId, outputFile: file } = plan;
  return { jobId, file, text: `${safely(jobId, () => outputDocument(plan, ending)).trimEnd()}\n` };
}

const RESPONSE = "## Response";

function outputDocument(plan: DeliveryPlan, { status, text }: Ending): string {
  return [
    `# Cron Job: ${titleOf(plan)}`,
    "",
    `**Job ID:** ${plan.jobId}`,
    `**Run Time:** ${wallTime(plan.atMs, plan.zone)} (${plan.zone})`,
    `**Schedule:** ${plan.schedule}`,
    "",
    "## Prompt",
    "",
    withoutHeadings(plan.prompt),
    "",
    status === "ok" ? RESPONSE : "## Error",
    "",
    text,
  ].join("\n");
}

/** Escapes our headings in a prompt: {@link responseOf} takes the first heading for the answer. */
function withoutHeadings(prompt: string): string {
  // Removed first: an invisible character could hide a heading.
  return toReadable(prompt).replace(/^(?=## (?:Response|Error)\s*$)/gm, "\\");
}

/** Returns the answer in an output file; undefined for a failure, or another kind of file. */
export function responseOf(document: string): string | undefined {
  const [, heading, text] = /^## (Response|Error)\s*?\n(.*)/ms.exec(document.replaceAll("\r\n", "\n")) ?? [];
  return heading === "Response" ? text?.trim() : undefined;
}
