/** Which values are secret: for the redactor, and for printing a configuration. Pure. */
import type { Config } from "../../../generated/config/types.gen.ts";
import { getAtPath } from "../../base/json/dotpath.ts";
import { registerSecret } from "../../base/observe/redact.ts";
import { isRecord } from "../../base/json/schema.ts";
import type { Environment } from "../home.ts";
import { NO_AUTH } from "../semantic-checks.ts";
import { schemaAt } from "../schema-path.ts";
import { isTellingName, secretsIn } from "./variable.ts";

const MASK = "[redacted]";

/** What is known of a home's secrets: its configuration, and the environment that the configuration refers to. */
export interface SecretSources {
  readonly config: Config;
  readonly env: Environment;
  /** Variables that hold secrets whatever they are called. */
  readonly secretNames?: ReadonlySet<string>;
}

/**
 * Every text that must not be printed: settings that the schema marks, variables that are secret by what they are (see
 * {@link secretsIn}), references resolved, and the credentials inside addresses.
 */
export function secretValues(
  config: Config,
  env: Environment,
  secretNames: ReadonlySet<string> = new Set(),
): string[] {
  const written = leavesOf(config).flatMap(({ path, text }) => {
    const reference = referenceIn(text);
    const value = reference === undefined ? text : (env[reference] ?? "");
    const names = [nameOf(path), ...(reference === undefined ? [] : [reference])];
    return names.flatMap((name) =>
      secretsIn(name, value, { isSecret: isMarked(path) || isAnnounced(path, config) }),
    );
  });
  const set = Object.entries(env).flatMap(([name, value]) =>
    secretsIn(name, value ?? "", { isSecret: secretNames.has(name) }),
  );
  return [...new Set([...written, ...set])];
}

/** The names of variables that are secret because a setting that the schema marks refers to them. */
export function secretReferences(config: Config): ReadonlySet<string> {
  const names = leavesOf(config).map(({ path, text }) => (isMarked(path) ? referenceIn(text) : undefined));
  return new Set(names.filter((name) => name !== undefined));
}

/** Adds to the redactor what {@link secretValues} finds: from then on none of it is printed. */
export function hideSecrets({ config, env, secretNames }: SecretSources): void {
  for (const secret of secretValues(config, env, secretNames)) registerSecret(secret);
}

interface Leaf {
  readonly path: readonly (string | number)[];
  readonly text: string;
}

function leavesOf(value: unknown, path: Leaf["path"] = []): readonly Leaf[] {
  if (typeof value === "string") return [{ path, text: value }];
  if (Array.isArray(value)) return value.flatMap((item, index) => leavesOf(item, [...path, index]));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, item]) => leavesOf(item, [...path, name]));
}

function referenceIn(text: string): string | undefined {
  return text.startsWith("env:") ? text.slice("env:".length) : undefined;
}

/** What tells about a value: its own name where names are free, nothing where the schema knows what it is. */
function nameOf(path: Leaf["path"]): string {
  const isFree = schemaAt(path) === undefined || path.at(-2) === "env";
  return isFree ? String(path.at(-1)) : PLAIN_SETTING;
}

/** A name that the schema knows and does not mark: only the credentials inside its value are hidden. */
const PLAIN_SETTING = "SETTING_NAME";

/** Whether the word before it in a command line is an option for a secret: `--token`, `x`. */
function isAnnounced(path: Leaf["path"], config: unknown): boolean {
  const index = path.at(-1);
  if (typeof index !== "number" || index === 0) return false;
  const before = getAtPath(config, [...path.slice(0, -1), index - 1]);
  const option = /^--?([\w-]+)$/.exec(String(before))?.[1];
  return option !== undefined && isTellingName(option);
}

/** A copy of `value` (a configuration, or what stands at `path` in one) for people to see: secrets are masked. */
export function maskSecrets(value: unknown, path: readonly (string | number)[] = []): unknown {
  if (Array.isArray(value)) {
    return value.map((item, index) =>
      typeof item === "string" && isAnnounced([index], value) ? MASK : maskSecrets(item, [...path, index]),
    );
  }
  if (isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, maskSecrets(item, [...path, name])]),
    );
  }
  if (typeof value !== "string" || value === NO_AUTH || referenceIn(value) !== undefined) return value;
  if (isMarked(path) || isTellingName(nameOf(path)) || secretsIn(nameOf(path), value).includes(value))
    return MASK;
  return value
    .replace(/^([a-z][a-z0-9+.-]*:\/\/[^/@\s:]*):[^/@\s]*@/i, `$1:${MASK}@`)
    .replace(ASSIGNED, (all, lead: string, name: string) =>
      isTellingName(name) ? `${lead}${name}=${MASK}` : all,
    );
}

/** Whether the schema calls what stands there, or what holds it, secret. */
function isMarked(path: readonly (string | number)[]): boolean {
  return path.some((_, depth) => schemaAt(path.slice(0, depth + 1))?.["x-secret"] === true);
}

/** A value with its name, in the query of an address or as an option of a command line. */
const ASSIGNED = /([?&]|^--?)([\w.-]+)=[^&#\s]+/g;
