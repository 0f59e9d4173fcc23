/** The model engine with a model server on this machine. */
import type { Engine } from "../../../../src/agent/engine.ts";
import { createModelEngine } from "../../../../src/agent/engines/model-engine.ts";
import type { ProviderConfig } from "../../../../src/agent/engines/providers.ts";
import { systemClock, type Clock } from "../../../../src/base/time.ts";
import { createLog } from "../../../../src/base/observe.ts";
import { checkToolInput } from "../../../../src/app/models.ts";
import { startModelServer, type ModelServer, type Replies } from "../../../harness/openai-server.ts";

/** Without a shape that redaction recognises: the engine itself must keep it out of texts. */
export const API_KEY = "correct horse battery staple";

export interface LocalEngine extends AsyncDisposable {
  readonly engine: Engine;
  readonly server: ModelServer;
  readonly logLines: readonly string[];
}

/** The provider is named `local` and uses chat completions, unless `provider` overrides it. */
export async function startLocalEngine(
  replies: Replies,
  more: {
    readonly provider?: Partial<ProviderConfig>;
    readonly clock?: Clock;
    readonly maxAnswerBytes?: number;
  } = {},
): Promise<LocalEngine> {
  const server = await startModelServer(replies);
  const logLines: string[] = [];
  const provider: ProviderConfig = {
    name: "local",
    type: "openai_compatible",
    baseUrl: server.baseUrl,
    apiKey: API_KEY,
    ...more.provider,
  };
  const engine = createModelEngine({
    providers: [provider],
    checkInput: checkToolInput,
    ...(more.maxAnswerBytes === undefined ? {} : { maxAnswerBytes: more.maxAnswerBytes }),
    clock: more.clock ?? systemClock,
    log: createLog("debug", (line) => void logLines.push(line)),
  });
  return { engine, server, logLines, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}
