/** A test of a model: one tool call and one sentence. */
import type { Engine, ToolSpec, TurnEnd, TurnPorts } from "../engine.ts";
import type { ModelRef } from "../model.ts";

/** The result of a test. */
export interface Trial {
  readonly end: TurnEnd;
  readonly calledTool: boolean;
  readonly durationMs: number;
  /** Undefined: the model sent nothing. */
  readonly firstTokenMs: number | undefined;
}

interface TrialOptions {
  /** False: the model gets no tool. Default true. */
  readonly withTool?: boolean;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly admit?: TurnPorts["admit"];
  readonly price?: TurnPorts["price"];
}

const MAX_STEPS = 2;

/** Models that cannot use tools are refused by their providers as soon as a call has one. */
const TOOL: ToolSpec = {
  name: "greeting",
  description: "Returns the greeting of the day.",
  parameters: { type: "object", properties: {}, additionalProperties: false },
};

/** Asks a model to call one tool and to answer with one sentence. Reports failures of the provider in `end`. */
export async function tryModel(engine: Engine, model: ModelRef, options: TrialOptions): Promise<Trial> {
  const { withTool = true, timeoutMs, signal, admit, price } = options;
  const startedMs = performance.now();
  const late = AbortSignal.timeout(timeoutMs);
  let calledTool = false;
  let firstTokenMs: number | undefined;
  const end = await engine.runTurn({
    runId: "run_trial",
    model,
    instructions: withTool
      ? "Call the tool greeting once, then answer with one short sentence that contains its result."
      : "Answer with one short sentence.",
    messages: [{ role: "user", text: "Say hello." }],
    settings: { maxOutputTokens: 2_000 },
    tools: withTool ? [TOOL] : [],
    maxSteps: MAX_STEPS,
    signal: signal ? AbortSignal.any([late, signal]) : late,
    ports: {
      emit: () => void (firstTokenMs ??= performance.now() - startedMs),
      callTool: async () => {
        calledTool = true;
        return { status: "ok", text: "Hello from agentd." };
      },
      takeSteers: () => [],
      saveStep: () => {},
      ...(admit ? { admit } : {}),
      ...(price ? { price } : {}),
    },
  });
  return { end, calledTool, durationMs: performance.now() - startedMs, firstTokenMs };
}

/** Returns whether the model is not usable: it failed, or neither said nor called anything. */
export function hasFailed({ end, calledTool }: Pick<Trial, "end" | "calledTool">): boolean {
  const isEmpty = end.text.trim() === "" && !calledTool;
  return end.error !== undefined || end.stop === "aborted" || isEmpty;
}
