/** What agentd claims to clients of the Agent Client Protocol: the document read, and printed as a constant. Touches the machine. */
import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { isObject, SpecError, type JsonObject } from "./document.ts";
import { exists } from "./files.ts";
import { HEADER, printLiteral } from "./print.ts";

/** The spec as it stands, with `docs`, which only the reference has use for. */
export interface AcpSpec extends JsonObject {
  readonly protocolVersion: number;
  readonly title: string;
  readonly agentCapabilities: JsonObject;
  readonly authMethods: Readonly<Record<string, JsonObject>>;
  readonly requests: readonly string[];
  readonly notifications: readonly string[];
  readonly extensions: readonly string[];
}

const REQUIRED: readonly (keyof AcpSpec & string)[] = [
  "protocolVersion",
  "title",
  "agentCapabilities",
  "authMethods",
  "requests",
  "notifications",
  "extensions",
];

/** Undefined when there is no such file. Throws SpecError that names what is missing in it. */
export async function readAcpSpec(file: string): Promise<AcpSpec | undefined> {
  if (!(await exists(file))) return undefined;
  const spec: unknown = parse(await readFile(file, "utf8"));
  const missing = isObject(spec) ? REQUIRED.filter((name) => !(name in spec)) : REQUIRED;
  if (missing.length > 0) throw new SpecError(missing.map((name) => `acp.yaml: ${name} is missing`));
  return spec as AcpSpec;
}

/** Source text of generated/acp/claims.gen.ts. */
export function emitAcp(spec: AcpSpec): string {
  const { docs: _, ...claims } = spec;
  return `${HEADER}\nexport const acpClaims = ${printLiteral(claims)} as const;\n`;
}
