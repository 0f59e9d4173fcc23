/** The configured models, and a test call, for commands that need no service. */
import type { Config } from "../../../generated/config/types.gen.ts";
import type { ModelCatalog } from "../../agent/model.ts";
import { createLog } from "../../base/observe/log.ts";
import { loadConfig, requireValid, type LoadedConfig } from "../../config/config.ts";
import type { ResolvedProvider } from "../../config/providers.ts";
import { hideSecrets } from "../../config/secrets/values.ts";
import { createCatalog, findProviders, checkToolInput } from "../../app/models.ts";
import { currentContext } from "../kit/context.ts";
import { completeOnce } from "../../agent/context/completion.ts";
import { createEngine } from "../../agent/engines/select.ts";
import type { ModelRef, TurnEnd } from "../../agent/engine.ts";
import { systemClock } from "../../base/clock.ts";

export interface ModelDeps {
  readonly loaded: LoadedConfig;
  readonly config: Config;
  readonly providers: readonly ResolvedProvider[];
  readonly models: ModelCatalog;
}

/** ServiceError `invalid_config`. */
export async function loadModels(): Promise<ModelDeps> {
  const loaded = await loadConfig(currentContext());
  const config = requireValid(loaded);
  hideSecrets(loaded);
  const providers = await findProviders(config, loaded.env, createLog("error"));
  return { loaded, config, providers, models: createCatalog(config, providers) };
}

interface Trial {
  readonly end: TurnEnd;
  readonly durationMs: number;
}

const TIMEOUT_MS = 60_000;

/** Asks a model for one sentence. Reports failures of the provider in `end`. */
export async function tryModel({ providers }: Pick<ModelDeps, "providers">, model: ModelRef): Promise<Trial> {
  const engine = createEngine({
    providers,
    checkInput: checkToolInput,
    clock: systemClock,
    log: createLog("error", () => {}),
  });
  const startedMs = performance.now();
  const end = await completeOnce(engine, {
    runId: "run_trial",
    model,
    instructions: "Answer with one short sentence.",
    messages: [{ role: "user", text: "Say hello." }],
    settings: { maxOutputTokens: 200 },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  return { end, durationMs: performance.now() - startedMs };
}

/** Describes the result of a test call in one or two lines. */
export function describeTrial({ end, durationMs }: Trial, name: string): string {
  if (end.stop === "aborted") return `${name} did not answer within ${TIMEOUT_MS / 1000} s.`;
  if (end.error) return `${name} failed: ${end.error.message}`;
  const { inputTokens, outputTokens } = end.usage;
  const answer = end.text.replace(/\s+/g, " ").trim().slice(0, 200);
  return `${name} answered in ${(durationMs / 1000).toFixed(1)} s (${inputTokens} tokens in, ${outputTokens} out):\n${answer}`;
}

export function hasFailed({ end }: Trial): boolean {
  return end.error !== undefined || end.stop === "aborted";
}
