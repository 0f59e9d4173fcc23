/** `agentd platforms list`: the platforms, their status, and their missing settings. */
import type { Platform } from "../../client/http.ts";
import { withApi } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { jsonOption } from "../kit/options.ts";
import { printJson, printTable } from "../kit/output.ts";
import { oneLine } from "../sessions/text.ts";

const WORDS: Readonly<Record<Platform["status"], string>> = {
  ready: "ready",
  incomplete: "incomplete",
  unset: "not configured",
  off: "off",
};
/** More than there are. */
const LIMIT = 100;

export const listCommand = defineApiCommand({
  meta: { name: "list", description: "List the platforms, their status, and their missing settings" },
  args: { json: jsonOption },
  async run({ args }) {
    const platforms = await withApi(async ({ client, anyOwner: headers }) => {
      return (await client.listPlatforms({ query: { limit: LIMIT }, headers })).data.data;
    });
    if (args.json) return printJson({ platforms });
    printTable(["PLATFORM", "STATUS", "HOME CHANNEL", "WHAT TO DO"], platforms.map(rowOf));
  },
});

function rowOf(platform: Platform): readonly string[] {
  const { name, status, home } = platform;
  return [name, WORDS[status], oneLine(home ?? "-"), hintOf(platform)];
}

function hintOf({ name, status, missing, home }: Platform): string {
  if (status === "off") return `platforms.${name}.enabled is false`;
  if (status !== "ready") return `set ${missing.join(" and ")}`;
  return home === null ? "" : `\`agentd platforms test ${name}\` sends a test message`;
}
