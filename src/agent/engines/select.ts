import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import type { Engine, ToolSpec } from "../engine.ts";
import { DEMO_MODEL } from "../model.ts";
import { demoScript } from "./demo.ts";
import type { ProviderConfig } from "./providers.ts";
import { createScriptedEngine } from "./scripted.ts";

/**
 * The engine that sends each turn to whoever runs its model: the demo model here, everything else to the model engine,
 * which is loaded with the first turn that needs it.
 */
export function createEngine(options: {
  readonly providers: readonly ProviderConfig[];
  readonly checkInput: (tool: ToolSpec, input: unknown) => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxAnswerBytes?: number;
}): Engine {
  const demo = createScriptedEngine(demoScript, options);
  let model: Promise<Engine> | undefined;
  const load = () =>
    (model ??= import("./model-engine.ts").then((module) => module.createModelEngine(options)));
  return {
    name: "agent",
    runTurn: async (turn) =>
      (turn.model.provider === DEMO_MODEL.provider ? demo : await load()).runTurn(turn),
  };
}
