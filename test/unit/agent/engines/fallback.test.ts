import assert from "node:assert/strict";
import { test } from "node:test";
import { createModelEngine } from "../../../../src/agent/engines/model-engine.ts";
import { systemClock, type Clock } from "../../../../src/base/time.ts";
import { FakeClock } from "../../../harness/fake-clock.ts";
import { createLog } from "../../../../src/base/observe.ts";
import { checkToolInput } from "../../../../src/app/models.ts";
import {
  calling,
  saying,
  startModelServer,
  strict,
  tooLong,
  type ModelReply,
  type Replies,
} from "../../../harness/openai-server.ts";
import { probe, type ProbeOptions } from "./turn-probe.ts";

const paris = { id: "call_1", name: "weather", json: '{"city":"Paris"}' };
const status = (code: number, headers: Record<string, string> = {}): ModelReply => ({
  status: code,
  headers,
  body: "{}",
});
/** Longer than any test runs. */
const busy = status(429, { "retry-after": "31" });

const fallbacks = [{ provider: "second", id: "spare" }];

/** Two providers, `local` and `second`, and a turn that starts with the first. */
async function probeTwo(
  first: Replies,
  second: Replies,
  options: ProbeOptions & { readonly clock?: Clock; readonly timeoutMs?: number } = {},
) {
  await using one = await startModelServer(first);
  await using two = await startModelServer(second);
  const { timeoutMs = 60_000, clock = systemClock, ...more } = options;
  const log: string[] = [];
  const engine = createModelEngine({
    providers: [
      { name: "local", type: "openai_compatible", baseUrl: one.baseUrl, timeoutMs },
      { name: "second", type: "openai_compatible", baseUrl: two.baseUrl, timeoutMs },
    ],
    checkInput: checkToolInput,
    clock,
    log: createLog("debug", (line) => void log.push(line)),
  });
  const outcome = await probe(engine, { ...more, turn: { fallbacks, ...more.turn } });
  const notices = outcome.events.flatMap((event) => (event.type === "notice" ? [event.text] : []));
  return {
    ...outcome,
    notices,
    log,
    asked: [one.requests.length, two.requests.length],
    second: two.requests,
  };
}

test("when a model is rate-limited, the next one takes over with a notice and stays for the turn", async () => {
  const { end, notices, asked, second } = await probeTwo([busy], strict([calling(paris), saying("Sunny")]));
  assert.equal(end.text, "Sunny");
  assert.deepEqual(notices, ["local:test-model does not respond; switching to second:spare."]);
  assert.deepEqual(asked, [1, 2]);
  assert.equal(second[0]?.body.model, "spare");
});

test("a model that fails after a tool ran hands over the whole conversation", async () => {
  const { end, calls, second } = await probeTwo([calling(paris), busy], strict([saying("Sunny")]));
  assert.equal(end.text, "Sunny");
  assert.equal(calls.length, 1);
  assert.deepEqual(
    second[0]?.body.messages.map(({ role }) => role),
    ["system", "user", "assistant", "tool"],
  );
});

test("a provider that fails three times is an outage", async () => {
  const { end, asked } = await probeTwo([status(500), status(502), status(503)], [saying("ok")]);
  assert.equal(end.text, "ok");
  assert.deepEqual(asked, [3, 1]);
});

test("a provider that starts no answer in time is an outage", async () => {
  const clock = new FakeClock();
  const { end, notices } = await probeTwo(
    () => {
      queueMicrotask(() => clock.tick(5000));
      return { pieces: [{ hang: true }] };
    },
    [saying("ok")],
    { clock, timeoutMs: 5000 },
  );
  assert.equal(end.text, "ok");
  assert.equal(notices.length, 1);
});

for (const code of [400, 401, 403, 404, 422]) {
  test(`a ${code} is not an outage: it is reported, and no fallback takes over`, async () => {
    const { end, asked, notices } = await probeTwo([status(code)], [saying("never")]);
    assert.equal(end.stop, "error");
    assert.deepEqual(asked, [1, 0]);
    assert.deepEqual(notices, []);
  });
}

test("an answer that broke after its first word is not repeated by another model", async () => {
  const { end, asked } = await probeTwo([{ pieces: [{ text: "half" }, { cut: true }] }], [saying("never")]);
  assert.equal(end.text, "half");
  assert.equal(end.stop, "error");
  assert.deepEqual(asked, [1, 0]);
});

test("when all models are unavailable, the error of the first one is reported", async () => {
  const { end, asked, log } = await probeTwo([busy], [status(429, { "retry-after": "99" })]);
  assert.equal(end.error?.retryAfterSeconds, 31);
  assert.match(end.error?.message ?? "", /local limits/);
  assert.deepEqual(asked, [1, 1]);
  assert.match(log.join(""), /second/, "the log tells of the other");
});

test("duplicate and unconfigured fallbacks are skipped", async () => {
  const { end, asked } = await probeTwo([busy], [saying("ok")], {
    turn: {
      fallbacks: [{ provider: "local", id: "test-model" }, { provider: "nowhere", id: "x" }, ...fallbacks],
    },
  });
  assert.equal(end.text, "ok");
  assert.deepEqual(asked, [1, 1]);
});

test("a context that is too long is not an outage: it is compressed for the same model", async () => {
  const { end, asked } = await probeTwo([tooLong, saying("ok")], [saying("never")], {
    compact: async () => [{ role: "user", text: "short" }],
  });
  assert.equal(end.text, "ok");
  assert.deepEqual(asked, [2, 0]);
});

test("an exhausted budget stops a turn between two models", async () => {
  let asked = 0;
  const outcome = await probeTwo([busy], [saying("never")], {
    steers: [["be quick"]],
    admit: () => (++asked > 1 ? { message: "Spent." } : undefined),
  });
  assert.deepEqual(outcome.end.error, { code: "budget_exceeded", message: "Spent." });
  assert.deepEqual(outcome.asked, [1, 0]);
  assert.deepEqual(outcome.saved, [{ role: "user", text: "be quick" }], "what was steered in is not lost");
});

test("a step that cannot be saved is the server's failure, not the provider's", async () => {
  const { end, log, asked } = await probeTwo([saying("ok")], [saying("never")], {
    onSave: () => {
      throw new Error("the disk is full");
    },
  });
  assert.equal(end.error?.code, "internal_error");
  assert.ok(!end.error?.message.includes("reached"), end.error?.message);
  assert.match(log.join(""), /the disk is full/);
  assert.deepEqual(asked, [1, 0]);
});

test("the provider's own count decides whether the next call would be too long", async () => {
  const counted: ModelReply = {
    pieces: [
      { call: { index: 0, id: "a", name: "weather", arguments: '{"city":"Paris"}' } },
      { finish: "tool_calls" },
      { usage: { prompt_tokens: 9_000, completion_tokens: 1_000, total_tokens: 10_000 } },
    ],
  };
  const reasons: string[] = [];
  const { end } = await probeTwo([counted, saying("ok")], [], {
    turn: { compactAtTokens: 9_500 },
    compact: async (reason) => {
      reasons.push(reason);
      return [{ role: "user", text: "short" }];
    },
  });
  assert.equal(end.text, "ok");
  assert.deepEqual(reasons, ["near_limit"]);
});
