/** Whether an answer asks not to be delivered. Pure. */
import { SILENT } from "../../agent/notify/run-trigger.ts";
import type { CronSettings } from "../settings.ts";

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
