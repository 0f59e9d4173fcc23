/** Environment variables that override the file. Pure. */
import { type DotPath, isRecord } from "../base/data.ts";
import type { Environment } from "./home.ts";
import { platformKeys, type PlatformName } from "./platform-settings.ts";
import { conventionalVariables } from "./providers.ts";
import { namesAt, schemaAt } from "./check.ts";
import { readVariable } from "./variable-value.ts";

const environmentVariables: Readonly<Record<string, DotPath>> = {
  AGENTD_DATABASE_URL: ["database", "url"],
  AGENTD_MODEL: ["model", "default"],
  AGENTD_HOST: ["api_server", "host"],
  AGENTD_PORT: ["api_server", "port"],
  AGENTD_LOG_LEVEL: ["log", "level"],
  AGENTD_SANDBOX: ["terminal", "sandbox"],
  API_SERVER_KEY: ["api_server", "key"],
  // OpenTelemetry's names: one collector serves all programs of a machine.
  OTEL_EXPORTER_OTLP_ENDPOINT: ["telemetry", "endpoint"],
  OTEL_EXPORTER_OTLP_HEADERS: ["telemetry", "headers"],
  OTEL_SERVICE_NAME: ["telemetry", "service_name"],
  AGENT_TIMEZONE: ["timezone"],
  AGENT_CRON_TIMEOUT: ["cron", "inactivity_seconds"],
  AGENT_CRON_MAX_PARALLEL: ["cron", "max_parallel_jobs"],
  AGENT_CRON_SCRIPT_TIMEOUT: ["cron", "script_timeout_seconds"],
  WEBHOOK_ENABLED: ["platforms", "webhook", "enabled"],
  WEBHOOK_PORT: ["platforms", "webhook", "extra", "port"],
  WEBHOOK_SECRET: ["platforms", "webhook", "extra", "secret"],
  API_SERVER_WEBHOOK_SECRET: ["api_server", "webhook_secret"],
};

let settings: ReadonlyMap<string, boolean> | undefined;

/** Returns whether the setting behind `variable` is secret; undefined for variables that are not settings. */
export function isSecretSetting(variable: string): boolean | undefined {
  return allSettings().get(variable);
}

/** Returns the variables that set a secret. */
export function secretSettings(): readonly string[] {
  return [...allSettings()].flatMap(([name, isSecret]) => (isSecret ? [name] : []));
}

/** Returns every variable that supplies a setting by its name, with the key of the setting. */
export function settingVariables(): readonly (readonly [variable: string, key: string])[] {
  const platforms = namesAt(["platforms"]).filter((name) => name !== "webhook") as PlatformName[];
  return [
    ...Object.entries(environmentVariables).map(([name, path]) => [name, path.join(".")] as const),
    ...platforms.flatMap((platform) =>
      platformKeys(platform).flatMap(({ key, variables }) =>
        variables.map((name) => [name, `platforms.${platform}.extra.${key}`] as const),
      ),
    ),
    ...Object.entries(conventionalVariables).flatMap(([type, names]) =>
      names.map((name) => [name, `model.providers.${type}.api_key`] as const),
    ),
  ];
}

function allSettings(): ReadonlyMap<string, boolean> {
  settings ??= new Map([
    ...Object.entries(environmentVariables).map(([name, path]) => [name, isSecretAt(path)] as const),
    ...namesAt(["platforms"]).flatMap((name) =>
      name === "webhook" ? [] : platformVariables(name as PlatformName),
    ),
    ...Object.values(conventionalVariables).flatMap((names) => names.map((name) => [name, true] as const)),
    ...["AGENTD_HOME", "AGENTD_PROFILE"].map((name) => [name, false] as const),
  ]);
  return settings;
}

function isSecretAt(path: DotPath): boolean {
  return schemaAt(path)?.["x-secret"] === true;
}

function platformVariables(name: PlatformName) {
  return platformKeys(name).flatMap(({ variables, isSecret }) =>
    variables.map((variable) => [variable, isSecret] as const),
  );
}

/**
 * Returns `value` overridden by every variable of the table that is set and not empty, converted to its setting's type.
 */
export function applyEnvironment(value: unknown, env: Environment): unknown {
  return Object.entries(environmentVariables).reduce((sofar, [variable, path]) => {
    const text = env[variable];
    return text ? put(sofar, path, readVariable(schemaAt(path) ?? {}, text).value) : sofar;
  }, value);
}

/** Returns the variable that overrides `path`, if any. */
export function environmentAt(path: string, env: Environment): string | undefined {
  return Object.entries(environmentVariables).find(([name, at]) => env[name] && at.join(".") === path)?.[0];
}

/** Returns the problem with a variable of the table, as {@link readVariable} reports it. */
export function environmentProblem(variable: string, env: Environment): string | undefined {
  const path = environmentVariables[variable];
  return path && readVariable(schemaAt(path) ?? {}, env[variable] ?? "").problem;
}

function put(value: unknown, [head, ...rest]: DotPath, item: unknown): unknown {
  if (head === undefined) return item;
  const parent = isRecord(value) ? value : {};
  return { ...parent, [head]: put(parent[head], rest, item) };
}
