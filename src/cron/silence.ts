/** Whether an answer asks not to be delivered. Pure. */
import { SILENT } from "../agent/run-delivery.ts";
import type { CronSettings } from "./settings.ts";

export function isSilent(text: string, match: CronSettings["silentMatch"]): boolean {
  const loud = text.toUpperCase();
  if (match === "contains") return loud.includes(SILENT);
  return loud.trim().startsWith(SILENT);
}
