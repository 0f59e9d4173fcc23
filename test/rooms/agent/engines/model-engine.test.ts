import { createModelEngine } from "../../../../src/agent/engines/model-engine.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { silentLog } from "../../../../src/base/log.ts";
import { checkToolInput } from "../../../../src/check-input.ts";
import { startModelServer, type ModelReply, type Piece } from "../../../harness/openai-server.ts";
import { engineScenarios, type ModelMove } from "./scenarios.ts";

engineScenarios("the model engine", async (moves) => {
  const server = await startModelServer(moves.map(toReply));
  const engine = createModelEngine({
    providers: [{ name: "local", type: "openai_compatible", baseUrl: server.baseUrl, apiKey: "sk-test" }],
    checkInput: checkToolInput,
    clock: systemClock,
    log: silentLog,
  });
  return { engine, close: () => server[Symbol.asyncDispose]() };
});

function toReply({ reasoning, text = [], calls = [], finish, hang, fail }: ModelMove, step: number): ModelReply {
  if (fail) return { status: 400, body: '{"error":{"message":"refused"}}' };
  const said: readonly Piece[] = [
    ...(reasoning === undefined ? [] : [{ reasoning }]),
    ...text.map((delta) => ({ text: delta })),
    ...calls.flatMap(({ tool, input }, index): readonly Piece[] => [
      { call: { index, id: `call_${step}_${index}`, name: tool, arguments: "" } },
      { call: { index, arguments: JSON.stringify(input) } },
    ]),
  ];
  if (hang) return { pieces: [...said, { hang: true }] };
  const ended = calls.length > 0 ? "tool_calls" : "stop";
  const reason = finish === "refusal" ? "content_filter" : (finish ?? ended);
  return { pieces: [...said, { finish: reason }] };
}
