import assert from "node:assert/strict";
import process from "node:process";
import { mock, test } from "node:test";
import { addUsage, zeroUsage } from "../../../../src/agent/usage/usage.ts";
import type { ToolSpec } from "../../../../src/agent/engine.ts";
import { calling, saying, tooLong, type ModelReply, type Piece } from "../../../harness/openai-server.ts";
import { startLocalEngine } from "./local-engine.ts";
import { engineScenarios, randomMoves, type ModelMove } from "./scenarios.ts";
import { probe, traceOf, weatherTool } from "./turn-probe.ts";

engineScenarios("the model engine", async (moves) => {
  const { engine, server } = await startLocalEngine(moves.map(toReply));
  return { engine, close: async () => server[Symbol.asyncDispose]() };
});

function toReply(
  { reasoning, text = [], calls = [], finish, hang, fail, overflow }: ModelMove,
  step: number,
): ModelReply {
  if (fail) return { status: 400, body: '{"error":{"message":"refused"}}' };
  const said: readonly Piece[] = [
    ...(reasoning === undefined ? [] : [{ reasoning }]),
    ...text.map((delta) => ({ text: delta })),
    ...calls.flatMap(({ tool, input }, index): readonly Piece[] => [
      { call: { index, id: `call_${step}_${index}`, name: tool, arguments: "" } },
      { call: { index, arguments: JSON.stringify(input) } },
    ]),
  ];
  if (overflow) return tooLong;
  if (hang) return { pieces: [...said, { hang: true }] };
  const ended = calls.length > 0 ? "tool_calls" : "stop";
  const reason = finish === "refusal" ? "content_filter" : (finish ?? ended);
  return { pieces: [...said, { finish: reason }] };
}

const paris = { id: "call_1", name: "weather", json: '{"city":"Paris"}' };

test("the next call includes the previous step with its parallel calls and answers", async () => {
  await using local = await startLocalEngine([calling(paris, { ...paris, id: "call_2" }), saying("Sunny")]);
  await probe(local.engine, { steers: [[], ["in Celsius"]] });
  const asked = { name: "weather", arguments: '{"city":"Paris"}' };
  assert.deepEqual(local.server.requests[1]?.body.messages, [
    { role: "system", content: "Be brief." },
    { role: "user", content: "hi" },
    {
      role: "assistant",
      content: null,
      tool_calls: [
        { id: "call_1", type: "function", function: asked },
        { id: "call_2", type: "function", function: asked },
      ],
    },
    { role: "tool", tool_call_id: "call_1", content: "answer to weather" },
    { role: "tool", tool_call_id: "call_2", content: "answer to weather" },
    { role: "user", content: "in Celsius" },
  ]);
});

test("a call is reported as soon as the model begins to write it, and before its step is saved", async () => {
  await using local = await startLocalEngine([calling(paris, { ...paris, id: "call_2" }), saying("Sunny")]);
  const { events } = await probe(local.engine);
  const types = events.map((event) => (event.type === "tool.generating" ? event.tool : event.type));
  assert.deepEqual(types.slice(0, 2), ["weather", "weather"]);
  assert.equal(types.filter((type) => type === "weather").length, 2);
});

test("the server gets the model, the tools with their schemas and every setting of the turn", async () => {
  await using local = await startLocalEngine([saying("ok")]);
  const settings = {
    temperature: 0.5,
    topP: 0.9,
    maxOutputTokens: 77,
    stop: ["END"],
    seed: 7,
    reasoningEffort: "low",
  };
  await probe(local.engine, { turn: { settings } });
  const { body } = local.server.requests[0]!;
  assert.equal(body.model, "test-model");
  assert.deepEqual(
    body.tools?.map((tool) => tool.function),
    [{ name: "weather", description: weatherTool.description, parameters: weatherTool.parameters }],
  );
  const { temperature, top_p, max_tokens, stop, seed, reasoning_effort, stream } = body;
  assert.deepEqual(
    { temperature, top_p, max_tokens, stop, seed, reasoning_effort, stream },
    {
      temperature: 0.5,
      top_p: 0.9,
      max_tokens: 77,
      stop: ["END"],
      seed: 7,
      reasoning_effort: "low",
      stream: true,
    },
  );
});

test("absent settings and absent tools are not sent", async () => {
  await using local = await startLocalEngine([saying("ok")]);
  await probe(local.engine, { turn: { tools: [], settings: { reasoningEffort: "with all your might" } } });
  const sent = Object.keys(local.server.requests[0]!.body).sort();
  assert.deepEqual(sent, ["messages", "model", "stream", "stream_options"]);
});

test("a turn's usage is the sum of its calls, with cached and reasoning tokens", async () => {
  const usage = (factor: number) => ({
    usage: {
      prompt_tokens: 100 * factor,
      completion_tokens: 10 * factor,
      total_tokens: 110 * factor,
      prompt_tokens_details: { cached_tokens: 60 * factor },
      completion_tokens_details: { reasoning_tokens: 4 * factor },
    },
  });
  const first = calling(paris) as { pieces: readonly Piece[] };
  const second = saying("ok") as { pieces: readonly Piece[] };
  await using local = await startLocalEngine([
    { pieces: [...first.pieces, usage(1)] },
    { pieces: [...second.pieces, usage(2)] },
  ]);
  const { end, steps } = await probe(local.engine);
  assert.deepEqual(end.usage, {
    inputTokens: 300,
    outputTokens: 30,
    cachedInputTokens: 180,
    cacheWriteTokens: 0,
    reasoningTokens: 12,
    modelCalls: 2,
    toolCalls: 1,
    costNano: 0,
    unpricedTokens: 0,
  });
  assert.deepEqual(steps.map((step) => step.usage).reduce(addUsage, zeroUsage), end.usage);
});

test("invalid JSON arguments are passed on as invalid, and the turn continues", async () => {
  await using local = await startLocalEngine([calling({ ...paris, json: '{"city":"Par' }), saying("mended")]);
  const { end, calls, saved } = await probe(local.engine, {
    callTool: ({ invalid }) => ({ status: "error", text: invalid ?? "" }),
  });
  assert.match(calls[0]?.invalid ?? "", /weather.*not valid JSON/);
  assert.equal(saved[1]?.role === "tool" && saved[1].status, "error");
  assert.equal(end.text, "mended");
});

for (const name of ["toString", "constructor", "__proto__", "hasOwnProperty", "a b\n"]) {
  test(`a call of a tool named ${JSON.stringify(name)} is an unknown tool like any other`, async () => {
    await using local = await startLocalEngine([calling({ id: "call_1", name, json: "{}" }), saying("ok")]);
    const { end, calls } = await probe(local.engine);
    assert.equal(end.stop, "end");
    assert.equal(calls[0]?.tool, name);
    assert.equal(typeof calls[0]?.invalid, "string");
  });
}

test("a tool named like a property of every object can be offered and called", async () => {
  const tool: ToolSpec = { ...weatherTool, name: "constructor" };
  await using local = await startLocalEngine([calling({ ...paris, name: "constructor" }), saying("ok")]);
  const { calls } = await probe(local.engine, { turn: { tools: [tool] } });
  assert.deepEqual(calls, [{ callId: "call_1", tool: "constructor", input: { city: "Paris" } }]);
});

test("calls with a shared or missing id get distinct ids", async () => {
  const twice = calling(paris, { ...paris, json: '{"city":"Rome"}' });
  await using local = await startLocalEngine([
    twice,
    { pieces: [{ call: { index: 0, name: "weather", arguments: paris.json } }, { finish: "tool_calls" }] },
    saying("ok"),
  ]);
  const { calls } = await probe(local.engine);
  assert.deepEqual(
    calls.map(({ input }) => input),
    [{ city: "Paris" }, { city: "Rome" }, { city: "Paris" }],
  );
  assert.ok(calls.every(({ callId }) => callId !== ""));
});

test("stopping in the middle of a text closes the connection at once", async () => {
  const stop = new AbortController();
  await using local = await startLocalEngine([{ pieces: [{ text: "a" }, { hang: true }] }]);
  await probe(local.engine, {
    turn: { signal: stop.signal },
    onEvent: (event) => event.type === "message.delta" && stop.abort(),
  });
  await local.server.requests[0]!.closed;
});

test("a turn that is stopped before its first call sends no request", async () => {
  await using local = await startLocalEngine([saying("never")]);
  await probe(local.engine, { turn: { signal: AbortSignal.abort() } });
  assert.equal(local.server.requests.length, 0);
});

test("steering text is saved even when the call that took it fails", async () => {
  await using local = await startLocalEngine([{ status: 400 }]);
  const { saved } = await probe(local.engine, { steers: [["listen"]] });
  assert.deepEqual(saved, [{ role: "user", text: "listen" }]);
});

test("forty parallel turns of one engine stay separate", async () => {
  const moves = randomMoves(7);
  const answersBefore = (body: { messages: readonly Readonly<Record<string, unknown>>[] }) =>
    body.messages.filter(({ role }) => role === "assistant").length;
  await using local = await startLocalEngine(({ body }) => {
    const [, user] = body.messages;
    const step = answersBefore(body);
    const move = moves[step] ?? {};
    return toReply({ ...move, text: [`${String(user?.["content"])}: `, ...(move.text ?? [])] }, step);
  });
  const outcomes = await Promise.all(
    Array.from({ length: 40 }, (_, index) =>
      probe(local.engine, { turn: { messages: [{ role: "user", text: `turn ${index}` }] } }),
    ),
  );
  for (const [index, { end, events }] of outcomes.entries()) {
    assert.equal(end.text, `turn ${index}: the end`);
    const others = traceOf(events).filter(
      (line) => /turn \d+/.test(line) && !line.includes(`turn ${index}:`),
    );
    assert.deepEqual(others, []);
  }
});

test("the model SDK's advice stays out of the process's output", async () => {
  const consoles = (["log", "info", "warn", "error"] as const).map((level) =>
    mock.method(console, level, () => {}),
  );
  const warnings: Error[] = [];
  const note = (warning: Error) => void warnings.push(warning);
  process.on("warning", note);
  try {
    // The SDK warns, among others, about reasoning without Anthropic's signature.
    await using local = await startLocalEngine([{ status: 400 }], { provider: { type: "anthropic" } });
    await probe(local.engine, {
      turn: {
        settings: { seed: 1, temperature: 9 },
        messages: [
          { role: "user", text: "hi" },
          {
            role: "assistant",
            parts: [
              { type: "reasoning", text: "hm" },
              { type: "text", text: "ok" },
            ],
          },
          { role: "user", text: "and" },
        ],
      },
    });
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off("warning", note);
    for (const each of consoles) each.mock.restore();
  }
  assert.deepEqual(
    consoles.map((each) => each.mock.callCount()),
    [0, 0, 0, 0],
  );
  assert.deepEqual(
    warnings.map(({ message }) => message).filter((text) => /AI SDK/.test(text)),
    [],
  );
});
