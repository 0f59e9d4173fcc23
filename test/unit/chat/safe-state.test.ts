import assert from "node:assert/strict";
import { test } from "node:test";
import { Chat } from "../../../src/client/conversation/chat.ts";
import { reduceEvent, showSession } from "../../../src/client/conversation/reduce.ts";
import type { GatewayCall } from "../../../src/client/conversation/gateway.ts";
import { createStore, INITIAL_STATE, type ChatState } from "../../../src/client/conversation/state.ts";
import type { GatewayEvent } from "../../../src/client/gateway.ts";

/** Clears the screen, sets the title, writes to the clipboard. */
const EVIL = "a\u001b[2J\u001b]0;title\u0007\u001b]52;c;eA==\u0007\u009b1mz";
const ID = "20260101_000000_abcdef";
const OPEN: ChatState = { ...INITIAL_STATE, session: { id: ID, title: "", cwd: "/" } };
const INFO = {
  model: EVIL,
  provider: EVIL,
  running: false,
  tools: {},
  skills: {},
  cwd: EVIL,
  title: EVIL,
  version: EVIL,
  branch: EVIL,
  reasoning_effort: EVIL,
};

function assertSafe(state: ChatState): void {
  assert.doesNotMatch(JSON.stringify(state), /\\u00[01][0-9a-f]|[\u007f-\u009f]|\\u007f|\\u00[89]/);
}

function told(type: string, payload: object): GatewayEvent {
  return { type, payload, session_id: ID, seq: 1, ts: 1 } as unknown as GatewayEvent;
}

for (const status of ["complete", "interrupted", "error"]) {
  test(`why a turn ended cannot steer the terminal: ${status}`, () => {
    const info = { code: EVIL, retryable: false, layer: "provider" };
    const payload = {
      text: EVIL,
      status,
      error: EVIL,
      warning: EVIL,
      error_info: info,
      undelivered_steer: [EVIL],
    };
    const state = reduceEvent(OPEN, told("message.complete", payload));
    assertSafe(state);
    assert.ok(state.settled.length > 0);
  });
}

test("prompts of others that the up key brings cannot steer the terminal", () => {
  const messages = [{ role: "user" as const, text: EVIL }];
  const state = showSession(INITIAL_STATE, { session_id: ID, messages, info: INFO as never }, 0);
  assert.equal(state.composer.history.length, 1);
  assertSafe(state);
});

test("what a command puts into the composer, and what was sent first, cannot steer the terminal", async () => {
  const store = createStore(OPEN);
  const answers: Record<string, unknown> = {
    "session.create": { session_id: ID, messages: [], info: INFO },
    "slash.exec": { type: "prefill", message: EVIL, notice: EVIL },
    "prompt.submit": { status: "steered" },
  };
  const call = (async (method: string) => answers[method] ?? {}) as unknown as GatewayCall;
  const chat = new Chat({ call, store, now: () => 0, leave: () => {} });
  await chat.open({ kind: "new" });
  chat.submit(EVIL);
  chat.submit("/undo");
  await new Promise<void>((resolve) => {
    store.subscribe(() => store.get().composer.prefill && resolve());
  });
  assert.equal(store.get().composer.history.length, 2);
  assertSafe(store.get());
});

test("choices that this screen does not know are not offered, and denying always is", () => {
  const asked = { request_id: "ask_1", command: "rm x", description: "", expires_at: null };
  const state = reduceEvent(OPEN, told("approval.request", { ...asked, choices: ["once", "sometimes"] }));
  const [question] = state.questions;
  assert.ok(question?.kind === "approval");
  assert.deepEqual(question.choices, ["once", "deny"]);
});
