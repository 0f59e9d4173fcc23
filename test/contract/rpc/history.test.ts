import assert from "node:assert/strict";
import type { ScriptStep } from "../../../src/agent/engines/scripted.ts";
import type { Json } from "../../harness/rpc.ts";
import { questions } from "./asking.ts";
import { openSession, rpcScenario, takeTurn } from "./scenario.ts";

const callsOf = (host: { events(id: string): Json[] }, id: string) =>
  host.events(id).filter(({ type }) => type === "tool.start");

rpcScenario(
  ["session.history", "event tool.start", "event tool.complete", "clarify.respond"],
  {
    title: "a call has the same context live and in history, where its outcome stands too",
    config: { approvals: { mode: "yolo" } },
    script: ({ step }): ScriptStep => {
      const inputs = [
        { tool: "terminal", input: { command: "exit 3" } },
        { tool: "clarify", input: { questions: [{ question: "Which colour?" }] } },
        { tool: "read_file", input: { path: "nowhere.txt" } },
      ];
      return step === 0 ? { calls: inputs } : { text: "done" };
    },
  },
  async (host) => {
    const id = await openSession(host);
    const turn = takeTurn(host, id, "go");
    const { payload } = await host.event("clarify.request");
    await host.result("clarify.respond", { request_id: payload.request_id, answer: "red" });
    await turn;
    const live = callsOf(host, id).map(({ payload: { name, context } }) => [name, context]);
    assert.deepEqual(live.toSorted(), [
      ["clarify", "Which colour?"],
      ["read_file", "nowhere.txt"],
      ["terminal", "exit 3"],
    ]);
    const { messages } = await host.result("session.history", { session_id: id });
    const stored = messages.filter(({ role }: Json) => role === "tool");
    assert.deepEqual(
      stored.map(({ name, context, status, code }: Json) => [name, context, status, code]),
      [
        ["terminal", "exit 3", "ok", "command_failed"],
        ["clarify", "Which colour?", "ok", undefined],
        ["read_file", "nowhere.txt", "error", "failed"],
      ],
    );
    const ended = host.events(id).find(({ type, payload: { name } }) => {
      return type === "tool.complete" && name === "terminal";
    });
    assert.deepEqual(ended.payload.args, { command: "exit 3" });
  },
);

rpcScenario(
  ["session.history", "session.interrupt"],
  {
    title: "an answer that was interrupted is marked in history",
    script: () => ({ text: ["one ", "two ", "three ", "four "], delayMs: 500 }),
    probe: questions,
  },
  async (host) => {
    const id = await openSession(host);
    await host.result("prompt.submit", { session_id: id, text: "go" });
    await host.event("message.delta");
    await host.result("session.interrupt", { session_id: id });
    await host.event("message.complete");
    const { messages } = await host.result("session.history", { session_id: id });
    assert.equal(messages.at(-1).status, "interrupted");
    assert.equal(messages[0].status, undefined);
  },
);

rpcScenario(
  ["session.compress", "event status.update", "event message.complete"],
  "one compression is reported once, and the usage of an answer is that of the session",
  async (host) => {
    const id = await openSession(host);
    const calls: number[] = [];
    for (let n = 1; n <= 6; n++) {
      const { usage, turn_usage: turn } = await takeTurn(host, id, `prompt ${n} ${"word ".repeat(30)}`);
      assert.ok(turn.calls >= 1 && usage.context_max > 0, JSON.stringify(usage));
      calls.push(usage.calls);
    }
    assert.ok(
      calls.every((count, at) => at === 0 || count > (calls[at - 1] ?? 0)),
      `they do not add up: ${calls.join()}`,
    );
    const from = host.events(id).length;
    assert.equal((await host.result("session.compress", { session_id: id })).status, "compressed");
    await host.event("status.update", ({ payload }) => payload.text === "ready");
    const kinds = host
      .events(id)
      .slice(from)
      .filter(({ type, payload }) => type === "status.update" && payload.kind === "compressing");
    assert.equal(kinds.length, 1);
  },
);
