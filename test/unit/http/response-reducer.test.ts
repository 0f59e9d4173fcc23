import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { RunEvent } from "../../../generated/http/client/types.gen.ts";
import { ResponseReducer } from "../../../src/http/responses/reducer.ts";
import {
  asksClient,
  calls,
  completed,
  failed,
  fold,
  queued,
  request,
  returns,
  RUN,
  says,
  started,
  thinks,
  types,
  type Fact,
  whole,
} from "../../harness/response-facts.ts";
import { checkStream } from "../../harness/responses.ts";

test("a message gives its events in the order of the format", () => {
  const events = fold([queued, started, ...says("msg_1", "he", "llo"), completed]);
  assert.deepEqual(types(events), [
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
  ]);
  const response = checkStream(events);
  assert.equal(response.id, "resp_01abc");
  assert.equal(response.status, "completed");
  assert.equal(response.created_at, 1000);
  assert.equal(response.completed_at, 1006);
  assert.deepEqual(response.agent, { run_id: RUN, session_id: "s1" });
  assert.deepEqual(response.output, [
    {
      id: "msg_1",
      type: "message",
      status: "completed",
      role: "assistant",
      content: [{ type: "output_text", text: "hello", annotations: [], logprobs: [] }],
    },
  ]);
  assert.deepEqual(response.usage, {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 3, cache_write_tokens: 2 },
    output_tokens: 4,
    output_tokens_details: { reasoning_tokens: 1 },
    total_tokens: 14,
  });
});

test("a background response is queued first", () => {
  const events = fold([queued, started, completed], request({ background: true }));
  assert.deepEqual(types(events), ["created", "queued", "in_progress", "completed"]);
  const states = events.map((event) => "response" in event && event.response.status);
  assert.deepEqual(states, ["queued", "queued", "in_progress", "completed"]);
  checkStream(events);
});

test("open items are closed as incomplete when the run ends", () => {
  const open = [
    { event: "reasoning.delta", delta: "hm" } as const,
    { event: "message.started", message_id: "msg_1" } as const,
    { event: "message.delta", message_id: "msg_1", delta: "half" } as const,
    calls("c1"),
  ];
  for (const end of [completed, failed("provider_error"), { event: "run.cancelled" } as const]) {
    const { output } = whole([queued, started, ...open, end]);
    assert.deepEqual(
      output.map((item) => [item.type, item.status]),
      [
        ["reasoning", "incomplete"],
        ["message", "incomplete"],
        ["mcp_call", "incomplete"],
      ],
    );
  }
});

test("a run cut by a limit gives an incomplete response with the reason", () => {
  for (const [stop, reason] of [
    ["length", "max_output_tokens"],
    ["max_steps", "max_output_tokens"],
    ["refusal", "content_filter"],
  ]) {
    const events = fold([queued, started, ...says("msg_1", "x"), { ...completed, stop }]);
    assert.equal(types(events).at(-1), "incomplete");
    const response = checkStream(events);
    assert.equal(response.status, "incomplete");
    assert.deepEqual(response.incomplete_details, { reason });
  }
});

test("a failed run gives a failed response with an error code that clients know", () => {
  for (const [code, known, type] of [
    ["provider_error", "server_error", "server_error"],
    ["agent_timeout", "server_error", "server_error"],
    ["model_not_found", "server_error", "server_error"],
    ["something_new", "server_error", "server_error"],
    ["rate_limit_exceeded", "rate_limit_exceeded", "rate_limit_error"],
    ["budget_exceeded", "rate_limit_exceeded", "rate_limit_error"],
    ["context_too_long", "invalid_prompt", "invalid_request_error"],
  ] as const) {
    const events = fold([queued, started, failed(code)]);
    assert.equal(types(events).at(-1), "failed");
    const response = checkStream(events);
    assert.equal(response.status, "failed");
    assert.deepEqual(response.error, { code: known, message: "It broke.", type, param: null });
  }
});

test("an interrupted run gives a failed response with zero usage", () => {
  const error = { code: "interrupted", message: "The server went down." };
  const response = whole([queued, started, { event: "run.interrupted", error }]);
  assert.equal(response.status, "failed");
  assert.equal(response.error?.message, "The server went down.");
  assert.equal(response.usage?.total_tokens, 0);
});

test("a cancelled run ends the stream as incomplete, with the status cancelled", () => {
  for (const before of [[queued], [queued, started]]) {
    const events = fold([...before, { event: "run.cancelled", reason: "asked" }]);
    assert.equal(types(events).at(-1), "incomplete");
    const response = checkStream(events);
    assert.equal(response.status, "cancelled");
    assert.equal(response.incomplete_details, null);
    assert.ok(response.usage);
  }
});

test("a run that another process resumes continues the same response", () => {
  const cut: Fact[] = [
    { event: "message.started", message_id: "msg_1" },
    { event: "message.delta", message_id: "msg_1", delta: "hal" },
  ];
  const events = fold([
    queued,
    started,
    ...cut,
    calls("c1"),
    started,
    calls("c1"),
    returns("c1", "ok"),
    ...says("msg_2", "all"),
    completed,
  ]);
  assert.equal(types(events).filter((type) => type === "in_progress").length, 1);
  const { output } = checkStream(events);
  assert.deepEqual(
    output.map((item) => [item.id, item.status]),
    [
      ["msg_1", "incomplete"],
      ["mcp_c1", "completed"],
      ["msg_2", "completed"],
    ],
  );
});

test("other event types, and events after the final one, give no response event", () => {
  const folding = new ResponseReducer(RUN, request());
  const take = (fact: Fact) => folding.take({ run_id: RUN, seq: 1, timestamp: 1, ...fact } as RunEvent);
  take(queued);
  take(started);
  for (const event of ["usage.updated", "run.notice", "tool.progress", "approval.request", "run.steered"]) {
    assert.deepEqual(take({ event } as Fact), []);
  }
  assert.deepEqual(take(returns("never begun", "x")), []);
  take(completed);
  assert.deepEqual(take(started), []);
  assert.ok(folding.isOver);
});

test("any run gives a valid response, wherever its stream is cut", () => {
  const piece = fc.string({ minLength: 1, maxLength: 5 });
  const id = fc.constantFrom("a", "b", "c");
  const step: fc.Arbitrary<readonly Fact[]> = fc.oneof(
    fc.tuple(id, fc.array(piece)).map(([name, pieces]) => says(`msg_${name}`, ...pieces)),
    fc.array(piece).map((pieces) => thinks(...pieces)),
    id.map((name) => [calls(name)]),
    id.map((name) => [returns(name, "done")]),
    id.map((name) => [returns(name, "broken", "error")]),
    id.map((name) => [asksClient(name)]),
    fc.constant([started]),
  );
  const end = fc.constantFrom(completed, failed("provider_error"), { event: "run.cancelled" } as const);
  const shown = fc.record({
    toolItems: fc.constantFrom("mcp_call" as const, "function_call" as const, "none" as const),
    showReasoning: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), fc.nat(), end, shown, (steps, cut, last, more) => {
      const facts = steps.flat();
      const kept = facts.slice(0, cut % (facts.length + 1));
      whole([queued, started, ...kept, last], request({}, more));
    }),
    { numRuns: 300 },
  );
});
