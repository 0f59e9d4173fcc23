/** Model calls by the model SDK, which knows each provider's wire. */
import type { LanguageModelV4 } from "@ai-sdk/provider";
import type * as Sdk from "ai";
import type { ToolSet } from "ai";
import type { ModelSettings, OutputFormat, ToolChoice } from "../engine.ts";
import { knownEffort, type ModelCallRequest } from "./model-request.ts";
import { loadModel, type SdkProvider } from "./providers.ts";
import type { StallGuard } from "./stall-guard.ts";
import type { StepReader } from "./step.ts";

type ModelSdk = typeof Sdk;

interface CallPorts {
  readonly guard: StallGuard;
  readonly reader: StepReader;
}

/** Makes one model call and passes its answer to `reader`. Rejects with the guard's reason once it aborts. */
export async function callBySdk(
  provider: SdkProvider,
  request: ModelCallRequest,
  ports: CallPorts,
): Promise<void> {
  const model = await ports.guard.run(loadModel(provider, request.modelId));
  await callModel(model, request, ports);
}

/** Does the same with a model that is loaded. */
export async function callModel(
  model: LanguageModelV4,
  request: ModelCallRequest,
  { guard, reader }: CallPorts,
): Promise<void> {
  const { instructions, messages, toolChoice, format, traceparent, settings } = request;
  const sdk = await guard.run(loadSdk());
  const begun = sdk.experimental_streamLanguageModelCall({
    model,
    tools: toTools(sdk, request),
    ...(toolChoice === undefined ? {} : { toolChoice: toSdkChoice(toolChoice) }),
    ...(format === undefined ? {} : toOutput(sdk, format)),
    ...(instructions === "" ? {} : { instructions }),
    messages: [...messages],
    abortSignal: guard.signal,
    ...(traceparent === undefined ? {} : { headers: { traceparent } }),
    ...toSdkSettings(settings),
  });
  await guard.read(begun, (part) => {
    reader.take(part);
    return reader.isFull;
  });
}

async function loadSdk(): Promise<ModelSdk> {
  // Keeps the SDK from writing warnings to stderr between the log's lines.
  (globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS = false;
  return import("ai");
}

function toTools(sdk: ModelSdk, { tools, checkInput }: ModelCallRequest): ToolSet {
  const entries = tools.map((spec) => {
    const validate = (value: unknown) => {
      const problem = checkInput(spec, value);
      return problem === undefined
        ? { success: true as const, value }
        : { success: false as const, error: new Error(problem) };
    };
    const inputSchema = sdk.jsonSchema(spec.parameters as never, { validate });
    return [spec.name, sdk.tool({ description: spec.description, inputSchema })] as const;
  });
  return Object.fromEntries(entries) as ToolSet;
}

function toOutput(
  { Output, jsonSchema }: ModelSdk,
  { schema, name, description, isStrict = false }: OutputFormat,
) {
  const about = {
    ...(name === undefined ? {} : { name }),
    ...(description === undefined ? {} : { description }),
  };
  const output = schema
    ? Output.object({ schema: jsonSchema(schema as never), ...about })
    : Output.json(about);
  const strict = { strictJsonSchema: isStrict };
  return { output, providerOptions: { openai: strict, openaiCompatible: strict } };
}

function toSdkSettings(settings: ModelSettings) {
  const { temperature, topP, maxOutputTokens, stop, seed } = settings;
  const reasoning = knownEffort(settings.reasoningEffort);
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(stop === undefined ? {} : { stopSequences: [...stop] }),
    ...(seed === undefined ? {} : { seed }),
    ...(reasoning === undefined ? {} : { reasoning }),
  };
}

function toSdkChoice(choice: ToolChoice) {
  return choice === "required" ? choice : { type: "tool" as const, toolName: choice.tool };
}
