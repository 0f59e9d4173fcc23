/** The configured models, and a test call, for commands that need no service. */
import type { Config } from "../../../generated/config/types.gen.ts";
import type { ModelCatalog } from "../../agent/model.ts";
import { createLog } from "../../base/observe.ts";
import { loadConfig, requireValid, type LoadedConfig } from "../../config/config.ts";
import type { ResolvedProvider } from "../../config/providers.ts";
import { hideSecrets } from "../../config/secret-values.ts";
import { checkToolInput, describeModels, openModels, type ModelStatus } from "../../app/models.ts";
import { currentContext } from "../kit/context.ts";
import { createEngine } from "../../agent/model.ts";
import type { ModelRef, ToolSpec, TurnEnd } from "../../agent/engine.ts";
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

interface Trial {
  readonly end: TurnEnd;
  readonly calledTool: boolean;
  readonly durationMs: number;
}

const TIMEOUT_MS = 120_000;
const MAX_STEPS = 2;

/** Models that cannot use tools are refused by their providers as soon as a call has one. */
const TOOL: ToolSpec = {
  name: "greeting",
  description: "Returns the greeting of the day.",
  parameters: { type: "object", properties: {}, additionalProperties: false },
};

/** Asks a model to call one tool and to answer with one sentence. Reports failures of the provider in `end`. */
export async function tryModel(
  { providers }: Pick<ModelDeps, "providers">,
  model: ModelRef,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<Trial> {
  const engine = createEngine({
    providers,
    checkInput: checkToolInput,
    clock: systemClock,
    log: createLog("error", () => {}),
  });
  const startedMs = performance.now();
  const late = AbortSignal.timeout(TIMEOUT_MS);
  let calledTool = false;
  const end = await engine.runTurn({
    runId: "run_trial",
    model,
    instructions:
      "Call the tool greeting once, then answer with one short sentence that contains its result.",
    messages: [{ role: "user", text: "Say hello." }],
    settings: { maxOutputTokens: 2_000 },
    tools: [TOOL],
    maxSteps: MAX_STEPS,
    signal: signal ? AbortSignal.any([late, signal]) : late,
    ports: {
      emit: () => {},
      callTool: async () => {
        calledTool = true;
        return { status: "ok", text: "Hello from agentd." };
      },
      takeSteers: () => [],
      saveStep: () => {},
    },
  });
  return { end, calledTool, durationMs: performance.now() - startedMs };
}

/** Describes the result of a test in a few lines. */
export function describeTrial({ end, calledTool, durationMs }: Trial, name: string): string {
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

/** Returns whether the model is not usable: it failed, or neither said nor called anything. */
export function hasFailed({ end, calledTool }: Pick<Trial, "end" | "calledTool">): boolean {
  const isEmpty = end.text.trim() === "" && !calledTool;
  return end.error !== undefined || end.stop === "aborted" || isEmpty;
}
