import type { Span } from "../../base/observe/trace.ts";
import type { Engine, EngineTurn, ModelRef, TurnEnd } from "../engine.ts";
import type { Message } from "../message.ts";

/** One model call without tools that leaves no trace in the journal or transcript. */
interface CompletionRequest {
  readonly runId: string;
  readonly model: ModelRef;
  readonly instructions: string;
  readonly messages: readonly Message[];
  readonly settings?: EngineTurn["settings"];
  readonly signal: AbortSignal;
  readonly span?: Span;
  readonly keepAlive?: () => void;
}

/** Calls a model once. Never rejects for a provider's failure: the result says how it ended. */
export function completeOnce(engine: Engine, request: CompletionRequest): Promise<TurnEnd> {
  const { settings = {}, keepAlive = () => {}, ...turn } = request;
  return engine.runTurn({
    ...turn,
    settings,
    tools: [],
    maxSteps: 1,
    ports: {
      emit: keepAlive,
      callTool: async () => ({ status: "error", text: "No tools are available." }),
      takeSteers: () => [],
      saveStep: () => {},
    },
  });
}
