/** What a platform is told: from the file, and from the environment where the file says nothing. Pure. */
import type { Config } from "../../generated/config/types.gen.ts";
import { isRecord, type JsonSchema } from "../base/json/schema.ts";
import type { Environment } from "./home.ts";
import { schemaAt } from "./schema-path.ts";
import { listOf, readVariable, schemesOf } from "./variable-value.ts";

/** Platforms that messages can be sent through, by their names in the configuration. */
export type PlatformName = Exclude<keyof Config["platforms"], "webhook">;

/** The keys of a platform, all optional: what is missing is the platform's to say. */
export type PlatformSettings<Name extends PlatformName> = NonNullable<Config["platforms"][Name]["extra"]>;

/**
 * The settings of a platform: each key from `extra`, else from beside it, else from the environment (`x-env` of the
 * schema); references `env:NAME` are resolved, and one to a variable that is not set counts as missing.
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
 * Numbers, switches, words and addresses that a key cannot take, a clause each that names the key, what it may be and
 * its variable: the schema holds for the file alone, and what the environment says is taken as it is.
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
 * What is wrong with the variables that platforms take numbers, switches and words from: a clause each that follows the
 * name of the variable. Platforms that are switched off, and keys that the file has, need none.
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
      // A wrong address keeps the platform from being ready, and is told there.
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
  /** Variables that stand in for it, the first one first. */
  readonly variables: readonly string[];
  readonly type: string;
  /** All that it may be; empty where it may be anything of its type. */
  readonly words: readonly string[];
  /** What it begins with when it is an address, such as `https://`; else empty. */
  readonly schemes: readonly string[];
  readonly isSecret: boolean;
  readonly description: string;
  readonly schema: JsonSchema;
}

/** The keys that the schema has for a platform. */
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
