/** The providers and models that the configuration names, or that this machine serves. */
import type { Config } from "../../generated/config/types.gen.ts";
import { createModelCatalog, type ModelCatalog } from "../agent/model.ts";
import { ServiceError } from "../base/errors.ts";
import type { Log } from "../base/observe/log.ts";
import type { Environment } from "../config/home.ts";
import { resolveProviders, type ResolvedProvider } from "../config/providers.ts";
import type { ToolSpec } from "../agent/engine.ts";
import { formatIssue, SchemaSet } from "../base/json/validate.ts";

/** Returns the configured providers. Without any, returns the model servers that answer on this machine. */
export async function findProviders(
  config: Config,
  env: Environment,
  log: Log,
): Promise<readonly ResolvedProvider[]> {
  const configured = resolveProviders(config, env);
  if (configured.length > 0 || config.model.default !== undefined || !config.model.detect_local) {
    return configured;
  }
  const { detectLocalModels } = await import("../agent/engines/providers.ts");
  const found = await detectLocalModels();
  for (const { name, baseUrl } of found) log.info("found a local model server", { name, baseUrl });
  return found
    .filter(({ models }) => models.length > 0)
    .map((server) => ({ ...server, type: "openai_compatible" as const, timeoutMs: LOCAL_TIMEOUT_MS }));
}

/** Local models load from disk at their first prompt. */
const LOCAL_TIMEOUT_MS = 600_000;

/** Returns the catalog of models. ServiceError `invalid_config` when no provider has the default model. */
export function createCatalog(config: Config, providers: readonly ResolvedProvider[]): ModelCatalog {
  const named = providers.map(({ name, type, models = [], apiKey, contextTokens }) => ({
    name,
    type,
    models,
    hasKey: apiKey !== undefined,
    ...(contextTokens === undefined ? {} : { contextTokens }),
  }));
  const defaultModel = config.model.default === undefined ? {} : { defaultModel: config.model.default };
  try {
    return createModelCatalog({
      providers: named,
      defaultContextTokens: config.model.context_tokens,
      ...defaultModel,
    });
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new ServiceError("invalid_config", `${cause.message}. Correct it with \`agentd config set\`.`, {
      cause,
    });
  }
}

const schemas = new SchemaSet({});

/** Returns undefined when `input` matches the tool's schema, otherwise a sentence that the model can act on. */
export function checkToolInput(tool: ToolSpec, input: unknown): string | undefined {
  const issue = schemas.check(tool.parameters, input)?.[0];
  return issue && `The arguments of ${tool.name} are not valid: ${formatIssue(issue, "the whole")}.`;
}
