/** Settings of platforms: from the file, else from the environment. Pure. */
import type { Config } from "../../generated/config/types.gen.ts";
import { type JsonSchema } from "../base/schema.ts";
import { isRecord } from "../base/data.ts";
import type { Environment } from "./home.ts";
import { schemaAt } from "./check.ts";
import { listOf, readVariable, schemesOf } from "./variable-value.ts";

/** Platforms that can send messages, by their names in the configuration. */
export type PlatformName = Exclude<keyof Config["platforms"], "webhook">;

/** The keys of a platform, all optional: the platform reports missing ones. */
export type PlatformSettings<Name extends PlatformName> = NonNullable<Config["platforms"][Name]["extra"]>;

/**
 * Returns the settings of a platform: each key from `extra`, else from beside it, else from the environment (`x-env` of
 * the schema). Resolves references `env:NAME`; one to an unset variable counts as missing.
 */
export function platformSettings<Name extends PlatformName>(
  name: Name,
  { platforms }: Pick<Config, "platforms">,
  env: Environment,
): PlatformSettings<Name> {
  const { extra = {}, enabled: _, ...beside } = platforms[name] as Record<string, unknown>;
  const written: Readonly<Record<string, unknown>> = { ...beside, ...(extra as object) };
  const found = platformKeys(name).flatMap((each) => {
    const { key } = each;
    const value = written[key] === undefined ? fromEnvironment(each, env) : resolved(written[key], env);
    return value === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(found) as PlatformSettings<Name>;
}

/**
 * Returns a clause for each invalid number, switch, word or address, with the key, the allowed values and the variable:
 * the schema checks the file alone, not the environment.
 */
export function misfits<Name extends PlatformName>(
  name: Name,
  settings: PlatformSettings<Name>,
): readonly string[] {
  const values: Readonly<Record<string, unknown>> = settings;
  return platformKeys(name).flatMap(({ key, words, schemes, variables, schema }) => {
    const value = values[key];
    if (value === undefined) return [];
    const from = variables.length > 0 ? ` (${variables.join(", ")})` : "";
    if (words.length > 0 && !words.includes(String(value))) return [`${key} as ${listOf(words)}${from}`];
    const { problem } = readVariable(schema, String(value));
    if (problem !== undefined && schemes.length === 0) return [`${key}, which ${problem}${from}`];
    const isAddress = schemes.some((scheme) => String(value).toLowerCase().startsWith(scheme));
    if (schemes.length === 0 || isAddress) return [];
    return [`${key} as an address that begins with ${listOf(schemes)}${from}`];
  });
}

/**
 * Returns the problems of variables that platforms read numbers, switches and words from, as clauses that follow the
 * variable's name. Skips disabled platforms and keys that the file sets.
 */
export function platformProblems(
  config: Pick<Config, "platforms">,
  env: Environment,
): readonly { readonly variable: string; readonly problem: string }[] {
  const names = Object.keys(config.platforms).filter((name) => name !== "webhook") as readonly PlatformName[];
  return names.flatMap((name) => {
    const { extra = {}, enabled, ...beside } = config.platforms[name] as Record<string, unknown>;
    if (enabled === false) return [];
    const written: Readonly<Record<string, unknown>> = { ...beside, ...(extra as object) };
    return platformKeys(name).flatMap(({ key, variables, schema, schemes }) => {
      // A wrong address makes the platform not ready, which is reported there.
      if (schemes.length > 0) return [];
      const variable = variables.find((each) => env[each]);
      if (variable === undefined || written[key] !== undefined) return [];
      const { problem } = readVariable(schema, env[variable] ?? "");
      return problem === undefined ? [] : [{ variable, problem }];
    });
  });
}

export interface PlatformKey {
  readonly key: string;
  /** Variables that replace it, in order of precedence. */
  readonly variables: readonly string[];
  readonly type: string;
  /** Allowed values; empty when every value of its type is allowed. */
  readonly words: readonly string[];
  /** Allowed schemes of an address, such as `https://`; empty for other keys. */
  readonly schemes: readonly string[];
  readonly isSecret: boolean;
  readonly description: string;
  readonly schema: JsonSchema;
}

/** Returns the keys that the schema defines for a platform. */
export function platformKeys(name: PlatformName): readonly PlatformKey[] {
  const properties = schemaAt(["platforms", name, "extra"])?.["properties"];
  return Object.entries(isRecord(properties) ? properties : {}).map(([key, schema]) => {
    const { type, enum: words, description, "x-env": variables, "x-secret": isSecret } = Object(schema);
    return {
      key,
      type: String(type),
      words: Array.isArray(words) ? words.map(String) : [],
      schemes: schemesOf(Object(schema)),
      description: String(description),
      variables: Array.isArray(variables) ? variables.map(String) : [],
      isSecret: isSecret === true,
      schema: Object(schema),
    };
  });
}

function resolved(value: unknown, env: Environment): unknown {
  if (typeof value !== "string" || !value.startsWith("env:")) return value;
  return env[value.slice("env:".length)] || undefined;
}

function fromEnvironment({ variables, schema }: PlatformKey, env: Environment): unknown {
  const text = variables.map((name) => env[name]).find(Boolean);
  return text === undefined ? undefined : readVariable(schema, text).value;
}
