import { createScriptedEngine, type ScriptStep } from "../../../../src/agent/engines/scripted.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { engineScenarios, type ModelMove } from "./scenarios.ts";

engineScenarios("the scripted engine", async (moves) => ({
  engine: createScriptedEngine(({ step, signal }) => toStep(moves[step] ?? {}, signal), {
    clock: systemClock,
  }),
  close: async () => {},
}));

function toStep({ fail, hang, finish, text, ...rest }: ModelMove, signal: AbortSignal): ScriptStep {
  return {
    ...rest,
    ...(text === undefined || text.length === 0 ? {} : { text: hang ? thenHang(text, signal) : text }),
    ...(finish === undefined ? {} : { stop: finish }),
    ...(fail ? { error: { code: "provider_error", message: "refused" } as const } : {}),
  };
}

async function* thenHang(texts: readonly string[], signal: AbortSignal): AsyncGenerator<string> {
  yield* texts;
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}
