/** Finds secret values, for the redactor and for printing a configuration. Pure. */
import type { Config } from "../../../generated/config/types.gen.ts";
import { getAtPath } from "../../base/json/dotpath.ts";
import { registerSecret } from "../../base/observe/redact.ts";
import { isRecord } from "../../base/json/schema.ts";
import type { Environment } from "../home.ts";
import { NO_AUTH } from "../semantic-checks.ts";
import { schemaAt } from "../schema-path.ts";
import { isSecretName, secretsIn } from "./variable.ts";

const MASK = "[redacted]";

/** Sources of a home's secrets: its configuration, and the environment that the configuration refers to. */
export interface SecretSources {
  readonly config: Config;
  readonly env: Environment;
  /** Variables that hold secrets, independent of their names. */
  readonly secretNames?: ReadonlySet<string>;
}

/**
 * Returns every text that must not be printed: settings that the schema marks, secret variables (see
 * {@link secretsIn}), resolved references, and credentials inside addresses.
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

/** Returns the variables that a secret setting refers to. */
export function secretReferences(config: Config): ReadonlySet<string> {
  const names = leavesOf(config).map(({ path, text }) => (isMarked(path) ? referenceIn(text) : undefined));
  return new Set(names.filter((name) => name !== undefined));
}

/** Registers everything that {@link secretValues} finds with the redactor. */
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

/**
 * Returns the name that decides whether a value is secret: its own where names are free, a neutral one where the schema
 * defines it.
 */
function nameOf(path: Leaf["path"]): string {
  const isFree = schemaAt(path) === undefined || path.at(-2) === "env";
  return isFree ? String(path.at(-1)) : PLAIN_SETTING;
}

/** Stands for a name that the schema defines and does not mark: only credentials inside its value are hidden. */
const PLAIN_SETTING = "SETTING_NAME";

/** Returns whether the previous word of a command line is an option for a secret: `--token`, `x`. */
function isAnnounced(path: Leaf["path"], config: unknown): boolean {
  const index = path.at(-1);
  if (typeof index !== "number" || index === 0) return false;
  const before = getAtPath(config, [...path.slice(0, -1), index - 1]);
  const option = /^--?([\w-]+)$/.exec(String(before))?.[1];
  return option !== undefined && isSecretName(option);
}

/** Returns a copy of `value` (a configuration, or its part at `path`) with masked secrets, for people. */
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
  if (isMarked(path) || isSecretName(nameOf(path)) || secretsIn(nameOf(path), value).includes(value))
    return MASK;
  return value
    .replace(/^([a-z][a-z0-9+.-]*:\/\/[^/@\s:]*):[^/@\s]*@/i, `$1:${MASK}@`)
    .replace(ASSIGNED, (all, lead: string, name: string) =>
      isSecretName(name) ? `${lead}${name}=${MASK}` : all,
    );
}

/** Returns whether the schema marks the value or a parent as secret. */
function isMarked(path: readonly (string | number)[]): boolean {
  return path.some((_, depth) => schemaAt(path.slice(0, depth + 1))?.["x-secret"] === true);
}

/** Matches a value with its name, in the query of an address or as an option of a command line. */
const ASSIGNED = /([?&]|^--?)([\w.-]+)=[^&#\s]+/g;
