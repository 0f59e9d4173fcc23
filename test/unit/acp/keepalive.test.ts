import assert from "node:assert/strict";
import { test } from "node:test";
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { AcpConnection } from "../../../src/acp/wire/connection.ts";
import { Keepalive } from "../../../src/acp/wire/keepalive.ts";
import { FakeClock } from "../../harness/fake-clock.ts";

function place() {
  const clock = new FakeClock();
  const turns = new Set<unknown>();
  const told: { readonly sessionId: string; readonly update: SessionUpdate }[] = [];
  const client = {
    notify: async (_: string, params: (typeof told)[number]) => void told.push(params),
  };
  const connection = { client, sessions: [{ id: "s", turns }] } as unknown as AcpConnection;
  const keepalive = new Keepalive({ connection, clock, everyMs: 1_000 });
  const send = (update: SessionUpdate) =>
    keepalive.sent({ jsonrpc: "2.0", method: "session/update", params: { sessionId: "s", update } });
  return { clock, turns, told, keepalive, send };
}

const usage: SessionUpdate = { sessionUpdate: "usage_update", used: 7, size: 100 };
const chunk: SessionUpdate = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "x" } };

test("a silent turn repeats its usage, and an active one does not", () => {
  const { clock, turns, told, send } = place();
  send(usage);
  turns.add("turn");
  for (let at = 0; at < 8; at += 1) {
    clock.tick(500);
    send(chunk);
  }
  assert.deepEqual(told, []);
  clock.tick(1_250);
  assert.deepEqual(told, [{ sessionId: "s", update: usage }]);
  clock.tick(1_250);
  assert.equal(told.length, 2);
});

test("before the first usage, the keepalive sends the session's update time", () => {
  const { clock, turns, told } = place();
  turns.add("turn");
  clock.tick(1_500);
  assert.deepEqual(
    told.map(({ update }) => update.sessionUpdate),
    ["session_info_update"],
  );
});

test("an idle session gets no keepalive, and silence is counted from the start of a turn", () => {
  const { clock, turns, told, send } = place();
  send(usage);
  clock.tick(10_000);
  assert.deepEqual(told, []);
  turns.add("turn");
  clock.tick(750);
  assert.deepEqual(told, []);
});

test("a stopped keepalive sends nothing", () => {
  const { clock, turns, told, keepalive } = place();
  turns.add("turn");
  keepalive.stop();
  clock.tick(10_000);
  assert.deepEqual(told, []);
  assert.equal(clock.pending, 0);
});
