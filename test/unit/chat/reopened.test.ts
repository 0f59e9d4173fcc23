import assert from "node:assert/strict";
import { test } from "node:test";
import { Chat } from "../../../src/client/conversation/chat.ts";
import type { GatewayCall } from "../../../src/client/conversation/gateway.ts";
import { showOlder, showSession } from "../../../src/client/conversation/reduce.ts";
import { createStore, INITIAL_STATE, type ChatState } from "../../../src/client/conversation/state.ts";
import type { TranscriptMessage } from "../../../src/client/gateway.ts";

const ID = "20260101_000000_abcdef";
const INFO = {
  model: "demo",
  provider: "demo",
  running: false,
  tools: {},
  skills: {},
  cwd: "/",
  title: "",
  version: "1",
};

function message(index: number): TranscriptMessage {
  return { role: "user", message_id: `msg_${index}`, text: `message ${index}` };
}

function opened(messages: readonly TranscriptMessage[], more: object = {}) {
  return { session_id: ID, messages: [...messages], info: INFO, ...more } as Parameters<
    typeof showSession
  >[1];
}

const textsOf = ({ settled }: ChatState) => settled.map((item) => ("text" in item ? item.text : ""));

test("tool calls of a reopened session show how they ended", () => {
  const statuses = ["ok", "error", "denied", "aborted", "pending"] as const;
  const tools = statuses.map((status): TranscriptMessage => ({ role: "tool", name: "terminal", status }));
  const shown = (running: boolean) =>
    showSession(INITIAL_STATE, opened(tools, { running }), 0).settled.map((item) =>
      item.kind === "tool" ? item.status : item.kind,
    );
  assert.deepEqual(shown(false), ["done", "failed", "failed", "cut", "cut"]);
  assert.deepEqual(
    shown(true),
    ["done", "failed", "failed", "cut"],
    "the events of a call that runs show it",
  );
});

test("a call that waits for approval is shown in a reopened session", () => {
  const asked = { request_id: "ask_1", command: "rm -rf x", description: "Run", choices: ["once", "deny"] };
  const params = { ...asked, tool_id: "call_1", tool_name: "terminal", expires_at: null };
  const open = { running: true, open_requests: [{ id: "ask_1", method: "approval", params }] };
  const state = showSession(INITIAL_STATE, opened([message(1)], open), 5);
  const shown = state.live.map((item) => item.kind === "tool" && [item.name, item.context, item.status]);
  assert.deepEqual(shown, [["terminal", "rm -rf x", "waiting"]]);
  assert.equal(state.questions.length, 1);
});

test("older messages come before those that are shown, until the first one of the session", () => {
  const open = showSession(INITIAL_STATE, opened([message(3)], { message_count: 3 }), 0);
  assert.deepEqual(open.older, { before: "msg_3", isLoading: false });
  const more = showOlder(open, { messages: [message(2)], has_more: true });
  assert.deepEqual(textsOf(more), ["message 2", "message 3"]);
  assert.equal(more.dropped, -1, "items keep their place in the whole");
  assert.deepEqual(more.older, { before: "msg_2", isLoading: false });
  const all = showOlder(more, { messages: [message(1)], has_more: false });
  assert.deepEqual(textsOf(all), ["message 1", "message 2", "message 3"]);
  assert.equal(all.older, undefined);
  assert.equal(all.generation, open.generation, "the screen need not be cleared");
});

test("older messages are asked for once at a time, and again after a failure", async () => {
  const store = createStore();
  const asked: (() => void)[] = [];
  let fails = true;
  const call = (async (method: string) => {
    if (method === "session.resume") return opened([message(2)], { message_count: 2 });
    if (method !== "session.history") return {};
    await new Promise<void>((resolve) => asked.push(resolve));
    if (fails) throw new Error("The gateway does not answer.");
    return { count: 2, messages: [message(1)], has_more: false };
  }) as unknown as GatewayCall;
  const chat = new Chat({ call, store, now: () => 0, leave: () => {} });
  const changed = () => new Promise<void>((resolve) => setImmediate(resolve));
  await chat.open({ kind: "saved", ref: ID });
  chat.loadOlder();
  chat.loadOlder();
  assert.equal(asked.length, 1);
  asked[0]!();
  await changed();
  assert.deepEqual(store.get().older, { before: "msg_2", isLoading: false });
  fails = false;
  chat.loadOlder();
  asked[1]!();
  await changed();
  assert.deepEqual(textsOf(store.get()).slice(0, 2), ["message 1", "message 2"]);
  chat.loadOlder();
  assert.equal(asked.length, 2, "there is nothing older");
});
