/** Every guarantee that a test must watch over. */
import { agentBreakages } from "./agent.ts";
import type { Breakage } from "./breakage.ts";
import { cronBreakages } from "./cron.ts";
import { deliverBreakages } from "./deliver.ts";
import { httpBreakages } from "./http.ts";
import { runBreakages } from "./runs.ts";
import { storeBreakages } from "./store.ts";
import { surfaceBreakages } from "./surfaces.ts";
import { webhookBreakages } from "./webhook.ts";

export const allBreakages: readonly Breakage[] = [
  ...storeBreakages,
  ...httpBreakages,
  ...webhookBreakages,
  ...cronBreakages,
  ...agentBreakages,
  ...runBreakages,
  ...surfaceBreakages,
  ...deliverBreakages,
];

/** Returns why `source`, the text of the file of a breakage, cannot be broken by it; undefined when it can. */
export function staleness({ file, from, to }: Breakage, source: string): string | undefined {
  const count = source.split(from).length - 1;
  if (count !== 1) return `the old text occurs ${count} times in src/${file}`;
  return from === to ? "the new text is the old one" : undefined;
}
