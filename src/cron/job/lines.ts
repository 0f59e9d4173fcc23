/** Jobs and their runs in a line or a few, for people in a conversation. Pure. */
import { shorten } from "../../base/text.ts";
import { redact } from "../../base/observe/redact.ts";
import { isOver, type Job, type JobDefinition } from "./job.ts";
import type { Occurrence } from "../tick/occurrence.ts";
import { formatSchedule } from "../schedule/schedule.ts";
import { zonedTime } from "../schedule/zoned-time.ts";

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
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["Job", id],
    ["Name", line(definition.name)],
    ["Schedule", `${formatSchedule(definition.schedule)} (${definition.zone})`],
    ["Next", nextText(job)],
    ["Repeat", repeat === null ? undefined : `${job.repeatDone} of ${repeat}`],
    ["Deliver", deliver === "local" ? "local (kept as a file, nobody is told)" : line(deliver)],
    ["Skills", skills.length === 0 ? undefined : skills.join(", ")],
    ["Script", script === undefined ? undefined : line(script)],
    ["Last run", lastText(job)],
    ["Prompt", prompt === "" ? undefined : shorten(redact(prompt), MAX_PROMPT_CHARACTERS)],
  ];
  return facts.flatMap(([name, value]) => (value === undefined ? [] : [`${name.padEnd(9)} ${value}`]));
}

/** When it was due, what became of it and why. */
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
  const told = notes.length === 0 ? "" : `, ${notes.map(line).join(", ")}`;
  return `${zonedTime(occurrence.scheduledAtMs, zone)}  ${whose}${status}${times}${told}`;
}

function deliveryText(status: Occurrence["deliveryStatus"]): string {
  return status === undefined || status === "none" ? "" : `delivery ${status}`;
}

function nextText({ state, definition, nextRunAtMs, manualAtMs, pausedReason }: Job): string {
  const asked = manualAtMs === undefined ? "" : "asked to run now; ";
  if (state === "paused")
    return `${asked}paused${pausedReason === undefined ? "" : ` (${line(pausedReason)})`}`;
  if (isOver(state)) return `${asked}${state}`;
  if (nextRunAtMs === undefined) return `${asked}no next time${state === "error" ? " can be computed" : ""}`;
  return `${asked}next ${zonedTime(nextRunAtMs, definition.zone)}`;
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
  const told = why === undefined ? "" : `: ${line(why)}`;
  return `${zonedTime(lastRunAtMs, definition.zone)}, ${lastStatus ?? "under way"}${told}`;
}

/** One line of it, without secrets. */
function line(text: string): string {
  return shorten(
    redact(text)
      .replace(/[\s\p{Cc}]+/gu, " ")
      .trim(),
    MAX_SHOWN_CHARACTERS,
  );
}
