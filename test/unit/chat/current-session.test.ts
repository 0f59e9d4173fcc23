import assert from "node:assert/strict";
import { test } from "node:test";
import type { GatewayEvent } from "../../../src/client/gateway.ts";
import type { GatewayCall } from "../../../src/client/conversation/gateway.ts";
import { createStore } from "../../../src/client/conversation/state.ts";
import { CurrentSession } from "../../../src/client/conversation/current-session.ts";
import { shown } from "./session.ts";

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

function errorOf(sessionId: string, message: string): GatewayEvent {
  return { type: "error", session_id: sessionId, ts: 1, payload: { message, fatal: false } };
}

test("events received while a session opens are shown in it, and those of the previous session are not", async () => {
  const store = createStore();
  const asked: string[] = [];
  let opening = Promise.withResolvers<unknown>();
  const call = async (method: string, params: { readonly session_id: string }) => {
    asked.push(`${method} ${params.session_id}`);
    return method === "session.resume" ? opening.promise : {};
  };
  const session = new CurrentSession({ call: call as GatewayCall, store, now: () => 0, columns: () => 80 });
  for (const id of ["one", "two"]) {
    opening = Promise.withResolvers();
    const opened = session.open({ kind: "saved", ref: id });
    session.take(errorOf(id, `first of ${id}`));
    session.take(errorOf("one", "late of one"));
    opening.resolve({ session_id: id, messages: [], info: INFO });
    await opened;
  }
  assert.deepEqual(shown(store.get()), ["notice: first of two"]);
  assert.deepEqual(asked, ["session.resume one", "session.resume two", "session.detach one"]);
});

test("when a session cannot be opened, the shown one stays, with all its events", async () => {
  const store = createStore();
  let answer: () => Promise<unknown> = async () => ({ session_id: "one", messages: [], info: INFO });
  const call = (() => answer()) as unknown as GatewayCall;
  const session = new CurrentSession({ call, store, now: () => 0, columns: () => 80 });
  await session.open({ kind: "saved", ref: "one" });
  answer = async () => {
    throw new Error("no such session");
  };
  const opened = session.open({ kind: "saved", ref: "two" });
  session.take(errorOf("one", "meanwhile"));
  await assert.rejects(opened, /no such session/);
  assert.equal(session.sessionId, "one");
  assert.deepEqual(shown(store.get()), ["notice: meanwhile"]);
});

test("events that a reloaded session already includes are not applied again", async () => {
  const store = createStore();
  let opening = Promise.withResolvers<unknown>();
  const call = (() => opening.promise) as unknown as GatewayCall;
  const session = new CurrentSession({ call, store, now: () => 0, columns: () => 80 });
  const at = (seq: number) => ({ ...errorOf("one", `number ${seq}`), seq }) as GatewayEvent;
  opening.resolve({ session_id: "one", messages: [], info: INFO, latest_seq: 1 });
  await session.open({ kind: "saved", ref: "one" });
  session.take(at(2));
  opening = Promise.withResolvers();
  const reloaded = session.reload();
  session.take(at(3)); // happened before the gateway looked
  session.take(at(5)); // and this one behind it
  const messages = [2, 3, 4].map((seq) => ({ role: "assistant", text: `number ${seq}` }));
  opening.resolve({ session_id: "one", messages, info: INFO, latest_seq: 4 });
  await reloaded;
  session.take(at(4)); // was still on its way
  session.take(at(6));
  assert.deepEqual(
    shown(store.get()).map((line) => line.slice(-1)),
    ["2", "3", "4", "5", "6"],
  );
});
