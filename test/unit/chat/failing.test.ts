import assert from "node:assert/strict";
import { test } from "node:test";
import { Chat } from "../../../src/client/conversation/chat.ts";
import { createStore, INITIAL_STATE, type ChatState } from "../../../src/client/conversation/state.ts";

const SHOWN: ChatState = {
  ...INITIAL_STATE,
  session: { id: "20260101_000000_abcdef", title: "", cwd: "/" },
  turn: { id: "turn_1", startedAtMs: 0, activity: "", isBetweenMessages: false, isInterrupting: false },
};

/** A chat whose gateway cannot be reached; resolves to the state once it has told of a failure. */
async function told(state: ChatState, act: (chat: Chat) => void): Promise<ChatState> {
  const store = createStore(state);
  const failed = new Promise<void>((resolve) =>
    store.subscribe(() => {
      if (store.get().settled.some((item) => item.kind === "notice" && item.level === "error")) resolve();
    }),
  );
  const call = () => Promise.reject(new Error("The connection was cut."));
  act(new Chat({ call, store, now: Date.now, leave: () => {} }));
  await failed;
  return store.get();
}

test("a question whose answer failed to be sent stays open", async () => {
  const questions = ["ask_1", "ask_2"].map((id) => ({
    kind: "approval" as const,
    id,
    command: "rm x",
    description: "",
    choices: ["once", "deny"] as const,
  }));
  const one = await told({ ...SHOWN, questions }, (chat) =>
    chat.answer("ask_1", { kind: "approval", choice: "once" }),
  );
  assert.deepEqual(one.questions.map(({ id }) => id).toSorted(), ["ask_1", "ask_2"]);
  const all = await told({ ...SHOWN, questions }, (chat) =>
    chat.answer("ask_1", { kind: "approval", choice: "deny", all: true }),
  );
  assert.equal(all.questions.length, 2);
});

test("a failed interrupt can be retried", async () => {
  const { turn } = await told(SHOWN, (chat) => chat.interrupt());
  assert.equal(turn?.isInterrupting, false);
});

test("a picker that cannot be filled is closed", async () => {
  const { picker } = await told(SHOWN, (chat) => chat.openPicker("sessions"));
  assert.equal(picker, undefined);
});

test("while typing, only the last text gets completions", async () => {
  const store = createStore(SHOWN);
  const asked: { readonly text: string; readonly signal: AbortSignal | undefined }[] = [];
  const call = (_method: string, params: { text: string }, options?: { signal?: AbortSignal }) => {
    asked.push({ text: params.text, signal: options?.signal });
    return new Promise(() => {});
  };
  const chat = new Chat({ call: call as never, store, now: Date.now, leave: () => {} });
  for (const text of ["/", "/m", "/mo"]) chat.edit(text);
  assert.deepEqual(
    asked.map(({ signal }) => signal?.aborted),
    [true, true, false],
  );
  chat.edit("no command");
  assert.equal(asked.at(-1)?.signal?.aborted, true);
});
