/** `agentd platforms list`: the platforms, their status, and their missing settings. */
import { defineCommand } from "citty";
import { loadConfig, requireValid } from "../../config/config.ts";
import { currentContext } from "../kit/context.ts";
import { printJson, printTable } from "../kit/output.ts";
import { statuses, type PlatformStatus } from "../../deliver/platform/status.ts";
import { oneLine } from "../sessions/text.ts";

const WORDS: Readonly<Record<PlatformStatus["status"], string>> = {
  ready: "ready",
  incomplete: "incomplete",
  unset: "not configured",
  off: "off",
};

export const listCommand = defineCommand({
  meta: { name: "list", description: "List the platforms, their status, and their missing settings" },
  args: { json: { type: "boolean", description: "Print JSON" } },
  async run({ args }) {
    const loaded = await loadConfig(currentContext());
    const list = await statuses(requireValid(loaded), loaded.env);
    if (args.json) return printJson({ platforms: list.map(entryOf) });
    printTable(["PLATFORM", "STATUS", "HOME CHANNEL", "WHAT TO DO"], list.map(rowOf));
  },
});

function entryOf({ name, title, status, missing, keys, home }: PlatformStatus): object {
  return { name, title, status, missing, keys, home_channel: home ?? null };
}

function rowOf(platform: PlatformStatus): readonly string[] {
  const { name, status, home } = platform;
  return [name, WORDS[status], oneLine(home ?? "-"), hintOf(platform)];
}

function hintOf({ name, status, missing, home }: PlatformStatus): string {
  if (status === "off") return `platforms.${name}.enabled is false`;
  if (status !== "ready") return `set ${missing.join(" and ")}`;
  return home === undefined ? "" : `\`agentd platforms test ${name}\` sends a test message`;
}
