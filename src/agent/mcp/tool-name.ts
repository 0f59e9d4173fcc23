import { createHash } from "node:crypto";

const MAX_CHARACTERS = 64;

/**
 * The name under which the agent knows a server's tool: `mcp_<server>_<tool>`, in the characters that every provider
 * takes. What does not fit, or is taken, ends in a digest, so that a name is the same at each start.
 */
export function toolName(server: string, tool: string, taken: ReadonlySet<string>): string {
  const whole = `mcp_${server}_${tool}`;
  const clean = whole.replace(/[^A-Za-z0-9_-]/g, "_");
  if (clean.length <= MAX_CHARACTERS && !taken.has(clean)) return clean;
  const digest = createHash("sha256").update(whole).digest("hex").slice(0, 8);
  return `${clean.slice(0, MAX_CHARACTERS - 9)}_${digest}`;
}
