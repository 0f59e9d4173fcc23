import assert from "node:assert/strict";
import { test } from "node:test";
import {
  asksClient,
  calls,
  completed,
  fold,
  queued,
  request,
  returns,
  says,
  started,
  thinks,
  types,
  type Fact,
  whole,
} from "../../harness/response-facts.ts";
import { checkStream, outputText } from "../../harness/responses.ts";

test("reasoning is an item with one summary part, and can be hidden", () => {
  const facts = [queued, started, ...thinks("hm", "m"), ...says("msg_1", "x"), completed];
  const events = fold(facts);
  assert.deepEqual(types(events).slice(2, 9), [
    "output_item.added",
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
    "output_item.done",
  ]);
  const [reasoning, message] = checkStream(events).output;
  assert.deepEqual(reasoning, {
    id: "rs_01abc_0",
    type: "reasoning",
    summary: [{ type: "summary_text", text: "hmm" }],
    status: "completed",
  });
  assert.equal(message?.type, "message");
  const hidden = whole(facts, request({}, { showReasoning: false }));
  assert.deepEqual(
    hidden.output.map(({ type }) => type),
    ["message"],
  );
});

test("a call of the agent's own tool is an mcp_call with its arguments and result", () => {
  const events = fold([queued, started, calls("c1"), returns("c1", "a.txt"), completed]);
  assert.deepEqual(types(events).slice(2, 8), [
    "output_item.added",
    "mcp_call.in_progress",
    "mcp_call_arguments.delta",
    "mcp_call_arguments.done",
    "mcp_call.completed",
    "output_item.done",
  ]);
  assert.deepEqual(checkStream(events).output, [
    {
      id: "mcp_c1",
      type: "mcp_call",
      server_label: "agentd",
      name: "terminal",
      arguments: '{"command":"ls"}',
      status: "completed",
      output: "a.txt",
      error: null,
      approval_request_id: null,
    },
  ]);
});

test("a failed or denied call is reported as failed", () => {
  for (const status of ["error", "denied", "aborted"]) {
    const events = fold([queued, started, calls("c1"), returns("c1", "no", status), completed]);
    assert.ok(types(events).includes("mcp_call.failed"));
    const [item] = checkStream(events).output;
    assert.ok(item?.type === "mcp_call");
    assert.equal(item.status, "failed");
    assert.equal(item.output, null);
    assert.deepEqual(item.error, {
      type: "mcp_tool_execution_error",
      content: [{ type: "text", text: "no" }],
    });
  }
});

test("parallel calls are listed in the order in which they started", () => {
  const facts = [calls("c1"), calls("c2"), returns("c2", "second"), returns("c1", "first")];
  const { output } = whole([queued, started, ...facts, completed]);
  assert.deepEqual(
    output.map((item) => item.type === "mcp_call" && [item.id, item.output]),
    [
      ["mcp_c1", "first"],
      ["mcp_c2", "second"],
    ],
  );
});

test("repeated call ids get different item ids", () => {
  const twice = [calls("call_0"), returns("call_0", "a"), calls("call_0"), returns("call_0", "b")];
  const { output } = whole([queued, started, ...twice, completed]);
  assert.deepEqual(
    output.map((item) => [item.id, item.type === "mcp_call" && item.output]),
    [
      ["mcp_call_0", "a"],
      ["mcp_call_0_2", "b"],
    ],
  );
});

test("calls can be shown as function calls, or hidden", () => {
  const facts = [queued, started, calls("c1"), returns("c1", "a.txt"), completed];
  const [item] = whole(facts, request({}, { toolItems: "function_call" })).output;
  assert.deepEqual(item, {
    id: "fc_c1",
    type: "function_call",
    call_id: "c1",
    name: "terminal",
    arguments: '{"command":"ls"}',
    status: "completed",
  });
  assert.deepEqual(whole(facts, request({}, { toolItems: "none" })).output, []);
});

test("a call for the client is always shown", () => {
  const end: Fact = { ...completed, output: null, stop: "tool_calls" };
  for (const toolItems of ["mcp_call", "function_call", "none"] as const) {
    const events = fold([queued, started, asksClient("c1"), end], request({}, { toolItems }));
    assert.deepEqual(types(events).slice(2), [
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
      "completed",
    ]);
    const response = checkStream(events);
    assert.equal(response.status, "completed");
    assert.deepEqual(response.output, [
      {
        id: "fc_c1",
        type: "function_call",
        call_id: "c1",
        name: "weather",
        arguments: '{"city":"Rome"}',
        status: "completed",
      },
    ]);
  }
});

test("text without deltas arrives whole", () => {
  const text: Fact[] = [
    { event: "message.started", message_id: "msg_1" },
    { event: "message.completed", message_id: "msg_1", text: "all at once" },
    { event: "reasoning.completed", text: "and why" },
  ];
  const response = whole([queued, started, ...text, completed]);
  assert.equal(outputText(response), "all at once");
});
