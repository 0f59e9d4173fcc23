/** What agentd claims to clients of the Agent Client Protocol, as a constant. Touches the machine. */
import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { isObject, SpecError } from "./document.ts";
import { HEADER, printLiteral } from "./print.ts";

const REQUIRED = [
  "protocolVersion",
  "title",
  "agentCapabilities",
  "authMethods",
  "requests",
  "notifications",
  "extensions",
];

/** Source text of generated/acp/claims.gen.ts for the spec in `file`. Throws SpecError that names what is missing. */
export async function emitAcp(file: string): Promise<string> {
  const claims: unknown = parse(await readFile(file, "utf8"));
  const missing = isObject(claims) ? REQUIRED.filter((name) => !(name in claims)) : REQUIRED;
  if (missing.length > 0) throw new SpecError(missing.map((name) => `acp.yaml: ${name} is missing`));
  return `${HEADER}\nexport const acpClaims = ${printLiteral(claims)} as const;\n`;
}
