import { createScriptedEngine, type ScriptStep } from "../../../../src/agent/engines/scripted.ts";
import { systemClock } from "../../../../src/base/time.ts";
import { engineScenarios, type ModelMove } from "./scenarios.ts";

engineScenarios("the scripted engine", async (moves) => {
  let asked = 0;
  const script = ({ signal }: { readonly signal: AbortSignal }) => toStep(moves[asked++] ?? {}, signal);
  return { engine: createScriptedEngine(script, { clock: systemClock }), close: async () => {} };
});

function toStep({ fail, overflow, hang, finish, text, ...rest }: ModelMove, signal: AbortSignal): ScriptStep {
  return {
    ...rest,
    ...(text === undefined || text.length === 0 ? {} : { text: hang ? thenHang(text, signal) : text }),
    ...(finish === undefined ? {} : { stop: finish }),
    ...(overflow ? { error: { code: "context_too_long", message: "too long" } as const } : {}),
    ...(fail ? { error: { code: "provider_error", message: "refused" } as const } : {}),
  };
}

async function* thenHang(texts: readonly string[], signal: AbortSignal): AsyncGenerator<string> {
  yield* texts;
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}
