import { toReadable, isBlank } from "../../deliver/text/text.ts";
import type { LastStatus } from "../job/job.ts";
import type { OccurrenceStatus } from "../tick/occurrence.ts";
import { SILENT } from "../../agent/notify/run-reply.ts";
import type { CronSettings } from "../settings.ts";

/** What an occurrence came to. */
export interface Ending {
  readonly status: Extract<OccurrenceStatus, "ok" | "failed" | "unknown">;
  /** The answer; of what failed, why. */
  readonly text: string;
  /** True of a failure: the agent says why, in words that are meant for those it answers. Else why is for the owner alone. */
  readonly isSaid?: boolean;
  /** Where it is another than the status says. */
  readonly lastStatus?: LastStatus;
  /** True: nobody is told, be it well or ill. */
  readonly isQuiet?: boolean;
  /** True of a failure: no model was reached, so that nothing was done, and another try may go better. */
  readonly canRetry?: boolean;
}

/** What an agent writes on the first line of an answer that tells of a failure. */
export const FAILURE_MARK = "[CRON_FAILURE]";
const MARKED = new RegExp(RegExp.escape(FAILURE_MARK), "i");
/** What stands around a mark. A run is looked at from its beginning alone, so that a long one takes no long time. */
const AROUND = /^[\s:*_`-]+|(?<![\s*_`])[\s*_`]+$/g;

/** What an agent's answer makes of the occurrence: one without a word failed, as one that says so. Pure. */
export function endingOfAnswer(answer: string): Ending {
  const text = toReadable(answer).trim();
  if (isBlank(text)) return { status: "failed", isSaid: true, text: "The agent gave no answer." };
  const [first = "", ...others] = text.split("\n");
  if (!MARKED.test(first)) return { status: "ok", text };
  const said = first.replace(MARKED, "").replace(AROUND, "");
  const why = [said, ...others].join("\n").trim();
  const told = why === "" ? "The agent said that it failed, and not why." : why;
  return { status: "failed", isSaid: true, text: told };
}

/**
 * contains: the answer has `[SILENT]` anywhere. line: it begins with that, or the whole of it, its first or its last line
 * says nothing but `[SILENT]`, `SILENT`, `NO_REPLY` or `NO REPLY`. In any case of letters.
 */
export function isSilent(text: string, match: CronSettings["silentMatch"]): boolean {
  const loud = text.trim().toUpperCase();
  if (match === "contains") return loud.includes(SILENT);
  if (loud.startsWith(SILENT)) return true;
  const lines = loud.split(/\r\n?|\n/);
  return [loud, lines.at(0), lines.at(-1)].some((part) => part !== undefined && MARK.test(part));
}

/** With any punctuation around it. From its beginning to its end, so that no text takes long to judge. */
const MARK = /^[^\p{L}\p{N}]*(?:SILENT|NO[_ ]REPLY)[^\p{L}\p{N}]*$/u;
