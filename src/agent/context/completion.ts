import type { Span } from "../../base/observe/trace.ts";
import type { Engine, EngineTurn, ModelRef, TurnEnd } from "../engine.ts";
import type { Message } from "../message.ts";

/** One call of a model, without tools, and without anything of it in a journal or transcript. */
interface CompletionRequest {
  readonly runId: string;
  readonly model: ModelRef;
  readonly instructions: string;
  readonly messages: readonly Message[];
  readonly settings?: EngineTurn["settings"];
  readonly signal: AbortSignal;
  readonly span?: Span;
  /** Called with each piece of the answer. */
  readonly onSign?: () => void;
}

/** Never rejects for what a provider does: the end says how it went. */
export function completeOnce(engine: Engine, request: CompletionRequest): Promise<TurnEnd> {
  const { settings = {}, onSign = () => {}, ...turn } = request;
  return engine.runTurn({
    ...turn,
    settings,
    tools: [],
    maxSteps: 1,
    ports: {
      emit: onSign,
      callTool: async () => ({ status: "error", text: "There are no tools." }),
      takeSteers: () => [],
      saveStep: () => {},
    },
  });
}
