import { SILENT } from "../../agent/notify/run-trigger.ts";
import { toReadable, isBlank } from "../../deliver/text/text.ts";
import type { LastStatus } from "../job/job.ts";
import type { CronSettings } from "../settings.ts";
import type { OccurrenceStatus } from "../tick/occurrence.ts";

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
 * Whether an answer asks not to be delivered, in any case of letters. `contains`: it has `[SILENT]` anywhere. `line`: it
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
