import assert from "node:assert/strict";
import { test } from "node:test";
import { runPlain } from "../../../src/chat/run-plain.ts";
import type { Json } from "../../harness/rpc.ts";
import { createScriptedGateway, type ScriptedOptions } from "../../harness/scripted-gateway.ts";

const INFO = {
  model: "m",
  provider: "p",
  running: false,
  tools: {},
  skills: {},
  cwd: "/",
  title: "",
  version: "1",
};
const SESSION = { session_id: "s", messages: [], info: INFO };

/** One prompt whose turn waits; `sent` resolves once the gateway has such a call. */
function plain(options: ScriptedOptions = {}) {
  const waiting = new Map<string, (call: Json) => void>();
  const gateway = createScriptedGateway({
    ...options,
    answer: (call) => {
      setImmediate(() => waiting.get(call.method)?.(call));
      if (call.method === "session.create") return SESSION;
      if (call.method === "prompt.submit") return { status: "queued", turn_id: "turn_1" };
      return options.answer?.(call) ?? {};
    },
  });
  const sent = (method: string) => new Promise<Json>((resolve) => waiting.set(method, resolve));
  const submitted = sent("prompt.submit");
  const stop = new AbortController();
  const end = runPlain({
    transport: gateway.transport,
    version: "0",
    target: { kind: "new" },
    prompt: "hi",
    write: () => {},
    report: () => {},
    signal: stop.signal,
  });
  end.catch(() => {});
  let seq = 0;
  const report = (type: string, payload: object) =>
    gateway.tell({ type, session_id: "s", seq: ++seq, ts: 0, turn_id: "turn_1", payload });
  return { gateway, submitted, end, stop, report, sent };
}

test("a prompt that is removed from the queue ends as interrupted", async () => {
  const { submitted, end, report } = plain();
  await submitted;
  report("session.queue", { queued: [{ turn_id: "turn_1", text_preview: "hi" }] });
  report("session.queue", { queued: [] });
  assert.equal(await end, "interrupted");
});

test("a prompt that starts from the queue continues to its end", async () => {
  const { submitted, end, report } = plain();
  await submitted;
  report("session.queue", { queued: [{ turn_id: "turn_1", text_preview: "hi" }] });
  report("message.start", { turn_id: "turn_1", origin: "queue" });
  report("message.complete", { text: "done", status: "complete", usage: {} });
  assert.equal(await end, "complete");
});

test("an interrupt names the prompt's own turn, whichever turn is running", async () => {
  const { submitted, end, stop, report, sent } = plain();
  await submitted;
  const interrupt = sent("session.interrupt");
  stop.abort();
  assert.equal((await interrupt).params.turn_id, "turn_1");
  report("message.complete", { text: "", status: "interrupted", usage: {} });
  assert.equal(await end, "interrupted");
});

test("a closed or lost session, or a gap in its events, fails instead of waiting", async () => {
  const closed = plain();
  await closed.submitted;
  closed.report("session.closed", { reason: "closed" });
  await assert.rejects(closed.end, /closed/);
  const refuse: ScriptedOptions["refuse"] = ({ method }) =>
    method === "session.resume" ? { code: 4007, message: "It is gone." } : undefined;
  const lost = plain({ refuse });
  await lost.submitted;
  lost.gateway.cut();
  await assert.rejects(lost.end, /It is gone/);
  const resumed = { open_requests: [], latest_seq: 9, truncated: true, epoch: "e" };
  const gap = plain({
    answer: ({ method }) => (method === "session.resume" ? { ...SESSION, ...resumed } : {}),
  });
  await gap.submitted;
  gap.gateway.cut();
  await assert.rejects(gap.end, /--resume s/);
});
