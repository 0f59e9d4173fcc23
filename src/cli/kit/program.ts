/** How this program was called, so that the commands in its hints can be copied. */
import process from "node:process";

/**
 * Replaces `agentd` at the start of commands in backticks by what the user has to type: a checkout has no `agentd` in
 * its path. Leaves everything else as it is.
 */
export function withProgramName(text: string, name: string = programName()): string {
  return name === "agentd" ? text : text.replaceAll(/`agentd(?= |`)/g, () => `\`${name}`);
}

/** `agentd` where it is installed, else the npm command that started this process. */
export function programName(): string {
  const { npm_lifecycle_event: script } = process.env;
  const isSource = process.argv[1]?.endsWith("/src/cli/main.ts") === true;
  if (isSource && (script === "agentd" || script === "start")) return "npm run -s agentd --";
  return script === "npx" ? "npx agentd" : "agentd";
}
