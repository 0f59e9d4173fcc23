/** The whole service over a model server of this machine. */
import { createEngine } from "../../src/agent/engines/scripted.ts";
import { systemClock, type Clock } from "../../src/base/time.ts";
import { createLog } from "../../src/base/observe.ts";
import { checkToolInput } from "../../src/app/models.ts";
import { startModelServer, type ModelServer, type Replies } from "./openai-server.ts";
import { startTestService, type TestService, type TestServiceOptions } from "./service.ts";

/** Of no shape that the log's redaction knows. */
export const PROVIDER_KEY = "a provider key";

export interface Flow extends AsyncDisposable {
  readonly service: TestService;
  readonly models: ModelServer;
  /** Answers as provider `second`, when the flow has one. */
  readonly second: ModelServer;
  readonly logLines: readonly string[];
}

export interface FlowOptions {
  /** Is the engine's alone. */
  readonly clock?: Clock;
  /** What the model `second:spare` answers, which takes over for the first. */
  readonly second?: Replies;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly keys?: NonNullable<TestServiceOptions["keys"]>;
}

export async function startFlow(
  replies: Replies,
  { clock = systemClock, second: spare, config = {}, keys }: FlowOptions = {},
): Promise<Flow> {
  const models = await startModelServer(replies);
  const second = await startModelServer(spare ?? []);
  const logLines: string[] = [];
  const type = "openai_compatible" as const;
  const engine = createEngine({
    providers: [
      { name: "local", type, baseUrl: models.baseUrl, apiKey: PROVIDER_KEY },
      { name: "second", type, baseUrl: second.baseUrl, apiKey: PROVIDER_KEY },
    ],
    checkInput: checkToolInput,
    clock,
    log: createLog("debug", (line) => void logLines.push(line)),
  });
  const providers = [
    { name: "local", type, models: ["test-model"] },
    { name: "second", type, models: ["spare"] },
  ];
  const fallbacks = spare === undefined ? {} : { model: { fallbacks: ["second:spare"] } };
  const service = await startTestService({
    engine,
    providers,
    config: { ...fallbacks, ...config },
    ...(keys ? { keys } : {}),
  });
  return {
    service,
    models,
    second,
    logLines,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await models[Symbol.asyncDispose]();
      await second[Symbol.asyncDispose]();
    },
  };
}
