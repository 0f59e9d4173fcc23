/** The configured models, and a test call, for commands that need no service. */
import type { Config } from "../../../generated/config/types.gen.ts";
import type { ModelCatalog, ModelRef } from "../../agent/model.ts";
import { createLog } from "../../base/observe.ts";
import { loadConfig, requireValid, type LoadedConfig } from "../../config/config.ts";
import type { ResolvedProvider } from "../../config/providers.ts";
import { hideSecrets } from "../../config/secret-values.ts";
import { checkToolInput, describeModels, openModels, type ModelStatus } from "../../app/models.ts";
import { currentContext } from "../kit/context.ts";
import { createEngine, hasFailed, tryModel, type Trial } from "../../agent/engines/scripted.ts";
import { systemClock } from "../../base/time.ts";

export interface ModelDeps {
  readonly loaded: LoadedConfig;
  readonly config: Config;
  readonly providers: readonly ResolvedProvider[];
  readonly models: ModelCatalog;
  readonly status: ModelStatus;
}

/** ServiceError `invalid_config`. */
export async function loadModels(): Promise<ModelDeps> {
  const loaded = await loadConfig(currentContext());
  const config = requireValid(loaded);
  hideSecrets(loaded);
  const models = await openModels(config, loaded.env, createLog("error"));
  const status = await describeModels(models, loaded.env);
  return { loaded, config, providers: models.providers, models: models.catalog, status };
}

const TIMEOUT_MS = 120_000;

/** Tests a model, see {@link tryModel}. */
export function tryModelOf(
  { providers }: Pick<ModelDeps, "providers">,
  model: ModelRef,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<Trial> {
  const log = createLog("error", () => {});
  const engine = createEngine({ providers, checkInput: checkToolInput, clock: systemClock, log });
  return tryModel(engine, model, { timeoutMs: TIMEOUT_MS, signal });
}

/** Describes the result of a test in a few lines. */
export function describeTrial(
  { end, calledTool, durationMs }: Omit<Trial, "firstTokenMs">,
  name: string,
): string {
  if (end.stop === "aborted") return `${name} did not answer within ${TIMEOUT_MS / 1000} s.`;
  if (end.error) return `${name} failed: ${end.error.message}`;
  if (hasFailed({ end, calledTool })) {
    return `${name} answered without any text. It may need more output tokens, or not be a model for chat.`;
  }
  const { inputTokens, outputTokens } = end.usage;
  const answer = end.text.replace(/\s+/g, " ").trim().slice(0, 200);
  const tool = calledTool ? "called a tool and " : "";
  const note = calledTool ? "" : "\nIt did not call the tool that it was asked to call.";
  return `${name} ${tool}answered in ${(durationMs / 1000).toFixed(1)} s (${inputTokens} tokens in, ${outputTokens} out):\n${answer}${note}`;
}
