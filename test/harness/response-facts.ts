/** Events of a run, and the response that they make. */
import assert from "node:assert/strict";
import type { ResponseStreamEvent, RunEvent, RunUsage } from "../../generated/http/client/types.gen.ts";
import { ResponseReducer, type ResponseRequest } from "../../src/http/responses/reducer.ts";
import { echoOf } from "../../src/http/responses/request.ts";
import { checkStream } from "./responses.ts";

export const RUN = "run_01abc";
export const usage: RunUsage = {
  input_tokens: 10,
  output_tokens: 4,
  total_tokens: 14,
  cached_input_tokens: 3,
  cache_write_tokens: 2,
  reasoning_tokens: 1,
  cost_usd: null,
  unpriced_tokens: 0,
  model_calls: 1,
  tool_calls: 0,
};

/** An event of a run without what all have. */
export type Fact = { readonly event: RunEvent["event"] } & Readonly<Record<string, unknown>>;

const about = { session_id: "s1", model: "m", kind: "response" };
export const queued: Fact = { event: "run.queued", ...about };
export const started: Fact = { event: "run.started", ...about };
export const completed: Fact = { event: "run.completed", output: "", usage, stop: "end" };
export const failed = (code: string): Fact => ({
  event: "run.failed",
  error: { code, message: "It broke." },
  usage,
});

export const says = (id: string, ...pieces: string[]): Fact[] => [
  { event: "message.started", message_id: id },
  ...pieces.map((delta): Fact => ({ event: "message.delta", message_id: id, delta })),
  { event: "message.completed", message_id: id, text: pieces.join("") },
];
export const thinks = (...pieces: string[]): Fact[] => [
  ...pieces.map((delta): Fact => ({ event: "reasoning.delta", delta })),
  { event: "reasoning.completed", text: pieces.join("") },
];
export const calls = (id: string, input: unknown = { command: "ls" }): Fact => ({
  event: "tool.started",
  tool_call_id: id,
  tool: "terminal",
  arguments: input,
});
export const returns = (id: string, result: string, status = "ok"): Fact => ({
  event: "tool.completed",
  tool_call_id: id,
  tool: "terminal",
  status,
  duration: 1,
  error: status !== "ok",
  result,
});
export const asksClient = (id: string): Fact => ({
  event: "tool.requested",
  tool_call_id: id,
  tool: "weather",
  arguments: '{"city":"Rome"}',
});

export const request = (
  body: Parameters<typeof echoOf>[0] = {},
  more: Partial<ResponseRequest> = {},
): ResponseRequest => ({
  echo: echoOf(body, "agentd"),
  toolItems: "mcp_call",
  showReasoning: true,
  ...more,
});

/** The events of the response that these facts make. */
export function fold(facts: readonly Fact[], asked = request()): ResponseStreamEvent[] {
  const folding = new ResponseReducer(RUN, asked);
  const events = facts.flatMap((fact, index) =>
    folding.take({ run_id: RUN, seq: index + 1, timestamp: 1000.5 + index, ...fact } as RunEvent),
  );
  assert.equal(folding.count, events.length);
  const last = events.at(-1);
  if (folding.isOver && last && "response" in last) assert.deepEqual(last.response, folding.response);
  return events;
}

/** The response at the end, its stream held to the rules. */
export const whole = (facts: readonly Fact[], asked = request()) => checkStream(fold(facts, asked));
export const types = (events: readonly ResponseStreamEvent[]) =>
  events.map(({ type }) => type.replace("response.", ""));
