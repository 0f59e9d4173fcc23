/** Plans and writes the setup of a platform: secrets into `<home>/.env`, the rest into the configuration file. */
import type { Config } from "../../../generated/config/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/suggest.ts";
import { registerSecret } from "../../base/observe.ts";
import { isRecord } from "../../base/data.ts";
import { readConfig } from "../../config/config.ts";
import { parseEditValue, setConfigValue } from "../../config/file.ts";
import { setEnvVariable, envPath, prepareHome } from "../../config/home.ts";
import { platformKeys, type PlatformKey, type PlatformName } from "../../config/platform-settings.ts";
import { schemaAt } from "../../config/check.ts";
import { UsageError } from "../kit/arguments.ts";

export interface PlatformAnswers {
  readonly platform: PlatformName;
  /** Values by key, as typed. */
  readonly values: ReadonlyMap<string, string>;
}

export interface PlatformPlan {
  readonly platform: PlatformName;
  /** Names and values for `<home>/.env`. */
  readonly variables: readonly (readonly [string, string])[];
  /** Keys and values for the configuration file. */
  readonly edits: readonly (readonly [string, string])[];
}

/** Returns what to write, and writes nothing. UsageError for invalid keys and values. */
export function planPlatform(
  { platform, values }: PlatformAnswers,
  { platforms }: Pick<Config, "platforms">,
): PlatformPlan {
  const written = platforms[platform] as Readonly<Record<string, unknown>>;
  const variables: (readonly [string, string])[] = [];
  const edits: (readonly [string, string])[] = [];
  for (const [name, typed] of values) {
    const key = keyNamed(platform, name);
    const value = typed.trim();
    checkValue(platform, key, value);
    const { place, before } = locateSetting(platform, written, name);
    const variable = variableOf(key, before);
    const isKept = key.isSecret && !value.startsWith("env:") && variable !== undefined;
    if (!isKept) edits.push([place, value]);
    else variables.push([variable, value]);
    // The file overrides the environment, so an existing value must become a reference to the variable.
    if (isKept && before !== undefined && before !== `env:${variable}`)
      edits.push([place, `env:${variable}`]);
  }
  if (written["enabled"] === false) edits.push([`platforms.${platform}.enabled`, "true"]);
  return { platform, variables, edits };
}

/** Writes the secrets first: the file must not refer to missing variables. */
export async function writePlatform(home: string, { variables, edits }: PlatformPlan): Promise<void> {
  await prepareHome(home);
  for (const [name, value] of variables) {
    registerSecret(value);
    await setEnvVariable(envPath(home), name, value);
  }
  for (const [key, value] of edits) await setConfigValue({ home, key, value });
}

function keyNamed(platform: PlatformName, name: string): PlatformKey {
  const keys = platformKeys(platform);
  const found = keys.find(({ key }) => key === name);
  if (found?.type === "object") {
    throw new UsageError(
      `${name} has several values. Set it with \`agentd config set platforms.${platform}.${name}\`.`,
    );
  }
  if (found) return found;
  const names = keys.map(({ key }) => key);
  throw new UsageError(`${platform} has no key ${JSON.stringify(name)}${suggest(name, names)}`);
}

/** Validates a value. Messages never contain it: it may be a secret. */
function checkValue(platform: PlatformName, { key }: PlatformKey, value: string): void {
  const path = ["platforms", platform, key];
  if (value === "") throw new UsageError(`${key} is empty. Omit it to keep the current value.`);
  if (/\p{Cc}/u.test(value)) throw new UsageError(`${key} must be a single line without control characters.`);
  const { issues } = readConfig(
    JSON.stringify({ platforms: { [platform]: { [key]: valueOf(value, path) } } }),
  );
  const [issue] = issues;
  if (issue) throw new UsageError(`${key} ${issue.message}.`);
}

function valueOf(text: string, path: readonly string[]): unknown {
  try {
    return parseEditValue(text, schemaAt(path) ?? {}, path.join("."));
  } catch (error) {
    if (error instanceof ServiceError) throw new UsageError(error.message);
    throw error;
  }
}

interface SettingLocation {
  /** The full key. */
  readonly place: string;
  /** The current value. */
  readonly before: string | undefined;
}

/** Returns the location of a key in the file. A key in `extra` overrides the same key beside it. */
function locateSetting(
  platform: string,
  written: Readonly<Record<string, unknown>>,
  key: string,
): SettingLocation {
  const extra = isRecord(written["extra"]) ? written["extra"] : {};
  const isInExtra = extra[key] !== undefined;
  const before = isInExtra ? extra[key] : written[key];
  return {
    place: `platforms.${platform}.${isInExtra ? "extra." : ""}${key}`,
    before: before === undefined ? undefined : String(before),
  };
}

function variableOf({ variables }: PlatformKey, before: string | undefined): string | undefined {
  return before?.startsWith("env:") ? before.slice("env:".length) : variables[0];
}
