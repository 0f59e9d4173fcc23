import assert from "node:assert/strict";
import { test } from "node:test";
import type { GatewayEvent, GatewayEventType, GatewayPayload } from "../../../generated/gateway/host.gen.ts";
import { reduceEvent } from "../../../src/client/conversation/reduce.ts";
import {
  INITIAL_STATE,
  type ChatState,
  type TranscriptItem,
} from "../../../src/client/conversation/state.ts";
import { commandLines } from "../../../src/chat/view/dialog/dialog.ts";

const ID = "20260101_000000_abcdef";
const USAGE = {
  model: "demo:demo",
  input: 10,
  output: 5,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  prompt: 10,
  completion: 5,
  total: 15,
  calls: 1,
};
const INFO = {
  model: "demo",
  provider: "demo",
  running: false,
  tools: {},
  skills: {},
  cwd: "/tmp",
  title: "A title",
  version: "1",
  usage: { ...USAGE, context_used: 15, context_max: 100, context_percent: 15, cost_usd: 0.25 },
};
const OPEN: ChatState = { ...INITIAL_STATE, session: { id: ID, title: "", cwd: "/" } };

type Told = { [K in GatewayEventType]: readonly [K, GatewayPayload<K>] }[GatewayEventType];

function event([type, payload]: Told, seq = 1): GatewayEvent {
  return { type, payload, session_id: ID, seq, ts: 1_000 + seq } as GatewayEvent;
}

function fold(told: readonly Told[], from: ChatState = OPEN): ChatState {
  return told.reduce((state, each, index) => reduceEvent(state, event(each, index + 1)), from);
}

/** Kind and text of each item, the settled ones first. */
function shown({ settled, live }: ChatState): string[] {
  return [...settled, ...live].map((item) => `${item.kind}: ${textOf(item)}`);
}

function textOf(item: TranscriptItem): string {
  if (item.kind === "tool") return `${item.name} ${item.status}`;
  return item.kind === "subagent" ? `${item.goal} ${item.status}` : item.text;
}

const start: Told = [
  "message.start",
  { turn_id: "turn_1", input: { role: "user", text: "hello" }, origin: "user" },
];
const complete = (text: string): Told => ["message.complete", { text, status: "complete", usage: USAGE }];

test("the text of message.complete replaces the deltas", () => {
  const during = fold([start, ["message.delta", { text: "Hal" }], ["message.delta", { text: "o" }]]);
  assert.deepEqual(shown(during), ["user: hello", "assistant: Halo"]);
  assert.equal(during.live.length, 1);
  const after = fold([complete("Hello.")], during);
  assert.deepEqual(shown(after), ["user: hello", "assistant: Hello."]);
  assert.equal(after.live.length, 0);
  assert.equal(after.turn, undefined);
});

test("a turn without any delta shows its answer", () => {
  assert.deepEqual(shown(fold([start, complete("All at once.")])), [
    "user: hello",
    "assistant: All at once.",
  ]);
});

test("dropped deltas leave a visible gap until the complete text arrives", () => {
  const during = fold([
    start,
    ["message.delta", { text: "a" }],
    ["message.delta", { text: "c", dropped: 3 }],
  ]);
  assert.deepEqual(shown(during), ["user: hello", "assistant: a […] c"]);
  assert.deepEqual(shown(fold([complete("abc")], during)), ["user: hello", "assistant: abc"]);
});

test("two messages of one turn are two items, and the last one is the answer", () => {
  const edge: Told = ["thinking.delta", { text: "" }];
  const state = fold([
    start,
    edge,
    ["message.delta", { text: "First." }],
    edge,
    edge,
    ["message.delta", { text: "Seco" }],
    edge,
    complete("Second."),
  ]);
  assert.deepEqual(shown(state), ["user: hello", "assistant: First.", "assistant: Second."]);
});

test("a message that stands before the last tool is not shown twice", () => {
  const state = fold([
    start,
    ["message.delta", { text: "I look." }],
    ["tool.start", { tool_id: "c1", name: "terminal", context: "ls" }],
    ["tool.complete", { tool_id: "c1", name: "terminal", duration_s: 1, result: "x" }],
    complete("I look."),
  ]);
  assert.deepEqual(shown(state), ["user: hello", "assistant: I look.", "tool: terminal done"]);
});

test("reasoning streams, and reasoning.available replaces what streamed", () => {
  const during = fold([start, ["reasoning.delta", { text: "hm" }], ["reasoning.delta", { text: "m" }]]);
  assert.deepEqual(shown(during), ["user: hello", "reasoning: hmm"]);
  const state = fold(
    [
      ["reasoning.available", { text: "hmm!" }],
      ["message.delta", { text: "Yes" }],
    ],
    during,
  );
  assert.deepEqual(shown(state), ["user: hello", "reasoning: hmm!", "assistant: Yes"]);
  assert.equal(state.settled.length, 2);
});

test("parallel tools are matched by tool_id and settle in order", () => {
  const state = fold([
    start,
    ["tool.generating", { name: "terminal", tool_id: "a" }],
    ["tool.generating", { name: "read_file", tool_id: "b" }],
    ["tool.start", { tool_id: "a", name: "terminal", context: "sleep 1" }],
    ["tool.start", { tool_id: "b", name: "read_file", context: "x.txt" }],
    ["tool.progress", { tool_id: "a", name: "terminal", preview: "", output: "one\n" }],
    ["tool.progress", { tool_id: "a", name: "terminal", preview: "", output: "two" }],
    [
      "tool.complete",
      { tool_id: "b", name: "read_file", duration_s: 0.1, result: "text", error: "no such file" },
    ],
  ]);
  assert.deepEqual(
    state.live.map((item) => item.kind === "tool" && [item.name, item.status, item.progress]),
    [
      ["terminal", "running", "one\ntwo"],
      ["read_file", "failed", ""],
    ],
  );
  const done = fold(
    [
      [
        "tool.complete",
        { tool_id: "a", name: "terminal", duration_s: 2, result: { exit: 0 }, inline_diff: "+a" },
      ],
    ],
    state,
  );
  assert.equal(done.live.length, 0);
  const tool = done.settled[1];
  assert.ok(tool?.kind === "tool");
  assert.equal(tool.diff, "+a");
  assert.equal(tool.durationSeconds, 2);
  assert.match(tool.output ?? "", /"exit": 0/);
});

test("a call id that is used again in another turn is another item", () => {
  const call: Told[] = [
    ["tool.start", { tool_id: "call_1", name: "terminal", context: "ls" }],
    ["tool.complete", { tool_id: "call_1", name: "terminal", duration_s: 1, result: "x" }],
  ];
  const again: Told = ["message.start", { turn_id: "turn_2", origin: "user" }];
  const { settled } = fold([start, ...call, complete("one"), again, ...call, complete("two")]);
  const tools = settled.filter(({ kind }) => kind === "tool");
  assert.equal(new Set(tools.map(({ id }) => id)).size, 2);
});

test("items behind a tool that never ends are bounded", () => {
  let state = fold([start, ["tool.start", { tool_id: "slow", name: "terminal", context: "sleep" }]]);
  for (let at = 0; at < 300; at++) state = fold([["error", { message: `${at}`, fatal: false }]], state);
  assert.ok(state.live.length <= 200);
  assert.equal(state.settled[1]?.kind === "tool" && state.settled[1].status, "cut");
});

test("progress keeps its last lines only", () => {
  const lines = Array.from({ length: 100 }, (_, index) => `line ${index}\n`).join("");
  const state = fold([
    start,
    ["tool.progress", { tool_id: "a", name: "terminal", preview: "", output: lines }],
  ]);
  const [tool] = state.live;
  assert.ok(tool?.kind === "tool");
  assert.ok(tool.progress.split("\n").length <= 8);
  assert.match(tool.progress, /line 99/);
});

test("an interrupted turn cuts its tools and says so", () => {
  const state = fold([
    start,
    ["tool.start", { tool_id: "a", name: "terminal", context: "sleep 9" }],
    ["message.complete", { text: "", status: "interrupted", usage: USAGE }],
  ]);
  assert.deepEqual(shown(state), ["user: hello", "tool: terminal cut", "notice: Interrupted."]);
});

test("a failed turn says why, and what to do", () => {
  const state = fold([
    start,
    [
      "message.complete",
      {
        text: "",
        status: "error",
        usage: USAGE,
        error: "The provider is down.",
        error_info: { code: "provider_error", retryable: true, layer: "provider" },
      },
    ],
  ]);
  const last = state.settled.at(-1);
  assert.ok(last?.kind === "notice" && last.level === "error");
  assert.match(last.text, /^The provider is down\. \(provider_error\) Try again/);
});

test("an undelivered steer is reported", () => {
  const state = fold([
    start,
    ["message.complete", { text: "ok", status: "complete", usage: USAGE, undelivered_steer: ["be brief"] }],
  ]);
  assert.match(shown(state).at(-1) ?? "", /be brief/);
});

test("message.start twice is one turn", () => {
  assert.deepEqual(shown(fold([start, start])), ["user: hello"]);
});

test("session.info fills the status line, and without a turn ends what was left open", () => {
  const state = fold([start, ["message.delta", { text: "cut of" }], ["session.info", INFO]]);
  assert.equal(state.turn, undefined);
  assert.equal(state.live.length, 0);
  assert.deepEqual(state.status, {
    model: "demo",
    provider: "demo",
    totalTokens: 15,
    isCostEstimated: false,
    isYolo: false,
    contextUsed: 15,
    contextMax: 100,
    contextPercent: 15,
    costUsd: 0.25,
  });
  assert.equal(state.session?.title, "A title");
});

test("session.queue shows the queued prompts", () => {
  const state = fold([["session.queue", { queued: [{ turn_id: "turn_2", text_preview: "and\nthen" }] }]]);
  assert.deepEqual(state.queue, [{ turnId: "turn_2", preview: "and then" }]);
  assert.deepEqual(fold([["session.queue", { queued: [] }]], state).queue, []);
});

test("a prompt whose turn begins leaves the queue", () => {
  const queued = ["turn_1", "turn_2"].map((turn_id) => ({ turn_id, text_preview: "hello" }));
  const state = fold([["session.queue", { queued }], start]);
  assert.deepEqual(
    state.queue.map(({ turnId }) => turnId),
    ["turn_2"],
  );
});

const approval: Told = [
  "approval.request",
  {
    request_id: "ask_1",
    command: "rm \u202e-rf x",
    description: "Run",
    choices: ["once", "deny"],
    allow_permanent: false,
    allow_session: false,
    expires_at: 60,
  },
];

test("an approval of an edit shows its diff, and a command that failed is marked as failed", () => {
  const [type, payload] = approval as Extract<Told, readonly ["approval.request", unknown]>;
  const asked = fold([[type, { ...payload, inline_diff: "-a\n+b\u001b[7m" }]]);
  assert.ok(asked.questions[0]?.kind === "approval");
  const lines = commandLines(asked.questions[0], 40).map((line) =>
    line
      .map(({ text }) => text)
      .join("")
      .trim(),
  );
  assert.deepEqual(lines.slice(1), ["-a", "+b"]);
  const ended = fold([
    ["tool.complete", { tool_id: "a", name: "terminal", duration_s: 0, result: "x", code: "command_failed" }],
  ]);
  const [tool] = [...ended.settled, ...ended.live].filter(({ kind }) => kind === "tool");
  assert.ok(tool?.kind === "tool" && tool.status === "failed" && tool.error === undefined);
});

test("a tool call waits from its question to the answer, in whichever order they come", () => {
  const [type, payload] = approval as Extract<Told, readonly ["approval.request", unknown]>;
  const asked: Told = [type, { ...payload, tool_id: "a" }];
  const call = (id: string): Told => ["tool.start", { tool_id: id, name: "terminal", context: "ls" }];
  const statuses = (...told: readonly Told[]) =>
    fold([start, ...told]).live.flatMap((item) => (item.kind === "tool" ? [item.status] : []));
  assert.deepEqual(statuses(call("a"), call("b"), asked), ["waiting", "running"]);
  assert.deepEqual(statuses(asked, call("a"), call("b")), ["waiting", "running"]);
  const answered: Told = ["request.cancel", { id: "ask_1", method: "approval", reason: "resolved" }];
  assert.deepEqual(statuses(call("a"), asked, answered), ["running"]);
  assert.deepEqual(statuses(call("a"), approval), ["running"], "an earlier gateway does not say which call");
});

test("a repeated question is shown once", () => {
  const state = fold([approval, approval]);
  assert.equal(state.questions.length, 1);
  const [question] = state.questions;
  assert.ok(question?.kind === "approval");
  assert.equal(question.command, "rm -rf x");
  assert.equal(question.expiresAtMs, 60_000);
});

test("request.cancel removes the question and says how it was answered", () => {
  const state = fold([
    approval,
    ["request.cancel", { id: "ask_1", method: "approval", reason: "resolved", resolution: "once" }],
  ]);
  assert.equal(state.questions.length, 0);
  assert.deepEqual(shown(state), ["notice: The approval was answered elsewhere: once."]);
});

test("request.cancel of an unknown question changes nothing", () => {
  const state = fold([["request.cancel", { id: "ask_9", method: "sudo", reason: "timeout" }]]);
  assert.equal(state, OPEN);
});

test("late events do not change a sub-agent that has ended", () => {
  const report = { subagent_id: "s1", parent_id: null, depth: 1, goal: "look", status: "running" } as const;
  const state = fold([
    start,
    ["subagent.start", report],
    ["subagent.tool", { ...report, tool_name: "terminal", tool_preview: "ls", tool_count: 1 }],
    ["subagent.complete", { ...report, status: "completed", summary: "seen", duration_seconds: 2 }],
    ["subagent.progress", { ...report, text: "late" }],
  ]);
  const agents = [...state.settled, ...state.live].filter((item) => item.kind === "subagent");
  assert.deepEqual(
    agents.map(({ goal, status, line, toolCount }) => [goal, status, line, toolCount]),
    [["look", "completed", "seen", 1]],
  );
});

test("background.complete, error and status.update warn become notices", () => {
  const state = fold([
    ["background.complete", { task_id: "bg_1", text: "done", status: "complete" }],
    ["error", { message: "bad", fatal: false }],
    ["status.update", { kind: "warn", text: "careful" }],
    ["status.update", { kind: "lifecycle", text: "" }],
  ]);
  assert.deepEqual(shown(state), ["notice: Background task bg_1: done", "notice: bad", "notice: careful"]);
});

test("work outside a turn is shown until it is done", () => {
  const during = fold([["status.update", { kind: "compressing", text: "Compressing." }]]);
  assert.deepEqual(
    during.notifications.map(({ text }) => text),
    ["Compressing."],
  );
  assert.deepEqual(fold([["status.update", { kind: "status", text: "ready" }]], during).notifications, []);
});

test("events of another session change nothing", () => {
  const other = { ...event(start), session_id: "20260101_000000_zzzzzz" };
  assert.equal(reduceEvent(OPEN, other), OPEN);
});

test("text of the model and of tools cannot steer the terminal", () => {
  const state = fold([
    start,
    ["message.delta", { text: "\u001b]0;owned\u0007hi\u001b[2J" }],
    ["tool.start", { tool_id: "a", name: "term\u001b[1minal", context: "ls\u001b[A" }],
    ["tool.progress", { tool_id: "a", name: "x", preview: "", output: "\u001b[2Kp" }],
    [
      "tool.complete",
      { tool_id: "a", name: "x", duration_s: 0, result: "\u001bcr", inline_diff: "\u001b[7m+d" },
    ],
    ["status.update", { kind: "warn", text: "\u001b[5mw" }],
    ["session.title", { session_id: ID, title: "\u001b]0;t\u0007t" }],
    complete("\u009b31mend"),
  ]);
  // oxlint-disable-next-line no-control-regex
  assert.doesNotMatch(JSON.stringify(state), /\\u00(?:1b|9b|07)|[\u0080-\u009f]/);
});

test("the transcript in memory is bounded", () => {
  let state = OPEN;
  for (let turn = 0; turn < 600; turn++) {
    state = fold(
      [
        [
          "message.start",
          { turn_id: `turn_${turn}`, input: { role: "user", text: `${turn}` }, origin: "user" },
        ],
        complete(`answer ${turn}`),
      ],
      state,
    );
  }
  assert.equal(state.settled.length, 500);
  assert.equal(state.dropped + state.settled.length, 1_200);
  assert.equal(new Set(state.settled.map(({ id }) => id)).size, 500);
});
