import assert from "node:assert/strict";
import { test } from "node:test";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createTestGateway, type TestHost } from "../../harness/rpc-host.ts";

const QUESTIONS = [
  { id: "colour", question: "Which colour?", choices: ["red", "blue"], multi_select: false },
  { id: "size", question: "Which size?", choices: null, multi_select: false },
];

/** A turn that asks two things in one request; resolves to what its tool got. */
async function asked(host: TestHost, answer: (requestId: string) => Promise<unknown>, got: Promise<unknown>) {
  const { session_id: id } = await host.call("session.create");
  await host.call("prompt.submit", { session_id: id, text: "go" });
  const request = await host.until(() => host.frames.find(({ method }) => method === "clarify"));
  await answer(String(request.id));
  return got;
}

for (const [what, result, expected] of [
  [
    "answers without answer, where null skips a question",
    { answers: { colour: null, size: "L" } },
    { colour: "", size: "L" },
  ],
  ["answers to each", { answer: "", answers: { colour: "blue", size: "L" } }, { colour: "blue", size: "L" }],
  ["one answer is that to the first", { answer: "red" }, { colour: "red", size: "" }],
  [
    "what was not asked is left out",
    { answer: "", answers: { size: "L", weight: "1" } },
    { colour: "", size: "L" },
  ],
] as const) {
  for (const way of ["the request", "request.answer"]) {
    if (way === "request.answer" && "answers" in result && "weight" in result.answers) continue;
    test(`a request with several questions is answered by ${way}: ${what}`, async () => {
      const { promise: got, resolve } = Promise.withResolvers<unknown>();
      const tool = testTool(async (_, { questions }) => {
        resolve(await questions.clarify(QUESTIONS));
        return "thanks";
      });
      await using gateway = await createTestGateway({ script: callsOnce("ask"), tools: [tool] });
      const host = gateway.host();
      await host.call("client.capabilities", { server_requests: true });
      const answer = async (id: string) =>
        way === "the request" ? host.answer(id, result) : host.call("request.answer", { id, result });
      assert.deepEqual(await asked(host, answer, got), expected);
      await host.ended();
    });
  }
}
