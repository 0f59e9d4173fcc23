/** The variables of the environment that stand above the file. Pure. */
import type { DotPath } from "../base/dotpath.ts";
import { isRecord } from "../base/schema.ts";
import type { Environment } from "./home.ts";
import { schemaAt } from "./schema-path.ts";

export const overlayVariables: Readonly<Record<string, DotPath>> = {
  AGENTD_DATABASE_URL: ["database", "url"],
  AGENTD_MODEL: ["model", "default"],
  AGENTD_HOST: ["api_server", "host"],
  AGENTD_PORT: ["api_server", "port"],
  AGENTD_LOG_LEVEL: ["log", "level"],
  API_SERVER_KEY: ["api_server", "key"],
  API_SERVER_WEBHOOK_SECRET: ["api_server", "webhook_secret"],
};

/** `value` with every variable of the table that is set and not empty laid over it, numbers as numbers. */
export function overlay(value: unknown, env: Environment): unknown {
  return Object.entries(overlayVariables).reduce((sofar, [variable, path]) => {
    const text = env[variable];
    return text ? put(sofar, path, read(path, text)) : sofar;
  }, value);
}

/** The variable that laid a value over `path`, if one did. */
export function overlayAt(path: string, env: Environment): string | undefined {
  return Object.entries(overlayVariables).find(([name, at]) => env[name] && at.join(".") === path)?.[0];
}

function read(path: DotPath, text: string): unknown {
  const isNumber = schemaAt(path)?.["type"] === "integer" && /^\d{1,15}$/.test(text);
  return isNumber ? Number(text) : text;
}

function put(value: unknown, [head, ...rest]: DotPath, item: unknown): unknown {
  if (head === undefined) return item;
  const parent = isRecord(value) ? value : {};
  return { ...parent, [head]: put(parent[head], rest, item) };
}
