import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { EngineEvent } from "../../../../src/agent/engine.ts";
import { FakeClock } from "../../../harness/fake-clock.ts";
import { saying, type ModelReply } from "../../../harness/openai-server.ts";
import { API_KEY, startLocalEngine } from "./local-engine.ts";
import { probe, type Outcome } from "./turn-probe.ts";
import { unnamed } from "../../../harness/unnamed.ts";

/** A refusal as servers write it: its text may repeat the key. */
const refusal = (status: number, headers: Record<string, string> = {}): ModelReply => ({
  status,
  headers,
  body: JSON.stringify({ error: { message: `no, not with ${API_KEY}` } }),
});

/** Runs a turn while the clock only advances by `waitsMs`, one wait for each notice. */
async function probeWaiting(replies: readonly ModelReply[], waitsMs: readonly number[]) {
  const clock = new FakeClock();
  await using local = await startLocalEngine(replies, { clock });
  const notices: string[] = [];
  const stillWaiting: boolean[] = [];
  const onEvent = (event: EngineEvent) => {
    if (event.type !== "notice") return;
    const waitMs = waitsMs[notices.push(event.text) - 1] ?? 0;
    // The engine starts to wait right after its notice. One millisecond less must not suffice.
    queueMicrotask(() => {
      clock.tick(Math.max(0, waitMs - 1));
      stillWaiting.push(clock.pending === 1);
      clock.tick(1);
    });
  };
  const outcome = await probe(local.engine, { onEvent });
  return { ...outcome, notices, stillWaiting, asked: local.server.requests.length };
}

async function failWith(reply: ModelReply): Promise<{ outcome: Outcome; log: string }> {
  await using local = await startLocalEngine([reply]);
  const outcome = await probe(local.engine);
  return { outcome, log: local.logLines.join("") };
}

test("a 429 with retry-after in seconds is retried after that time", async () => {
  const { end, notices, stillWaiting, asked } = await probeWaiting(
    [refusal(429, { "retry-after": "7" }), saying("ok")],
    [7000],
  );
  assert.equal(end.text, "ok");
  assert.equal(asked, 2);
  assert.deepEqual(stillWaiting, [true], "not a millisecond earlier");
  assert.equal(notices.length, 1);
  assert.match(notices[0]!, /local.*7 seconds/);
});

test("a 429 with retry-after as a date is retried at that date", async () => {
  const date = new Date(new FakeClock().now() + 5000).toUTCString();
  const { end, stillWaiting } = await probeWaiting(
    [refusal(429, { "retry-after": date }), saying("ok")],
    [5000],
  );
  assert.equal(end.text, "ok");
  assert.deepEqual(stillWaiting, [true], "not a millisecond earlier");
});

test("temporary failures are retried after 250 and 500 ms, then reported", async () => {
  const { end, asked, notices, stillWaiting } = await probeWaiting(
    [refusal(500), refusal(503), refusal(502), saying("too late")],
    [250, 500],
  );
  assert.equal(end.stop, "error");
  assert.equal(end.error?.code, "provider_error");
  assert.match(end.error?.message ?? "", /502/);
  assert.equal(asked, 3);
  assert.equal(notices.length, 2);
  assert.deepEqual(stillWaiting, [true, true], "not a millisecond earlier");
});

test("a persistent 429 reports how long the provider asks to wait", async () => {
  const busy = refusal(429, { "retry-after": "2" });
  const { end, asked } = await probeWaiting([busy, busy, busy], [2000, 2000]);
  assert.equal(asked, 3);
  assert.equal(end.error?.code, "provider_error");
  assert.equal(end.error?.retryAfterSeconds, 2);
});

test("a provider that asks for more than 30 seconds is not retried", async () => {
  const { end, asked, notices } = await probeWaiting([refusal(429, { "retry-after": "31" })], []);
  assert.equal(asked, 1);
  assert.deepEqual(notices, []);
  assert.equal(end.error?.retryAfterSeconds, 31);
});

for (const header of ["soon", "-1", "", "1e99", "99999999999999999999"]) {
  test(`a retry-after of ${JSON.stringify(header)} neither hangs nor breaks the turn`, async () => {
    const { end } = await probeWaiting([refusal(429, { "retry-after": header }), saying("ok")], [250]);
    assert.ok(end.text === "ok" || end.error?.code === "provider_error");
  });
}

test("stopping during a wait ends the turn at once", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  await using local = await startLocalEngine([refusal(500)], { clock });
  const { end, steps } = await probe(local.engine, {
    turn: { signal: stop.signal },
    onEvent: (event) => event.type === "notice" && queueMicrotask(() => stop.abort()),
  });
  assert.equal(end.stop, "aborted");
  assert.deepEqual(steps, []);
  assert.equal(clock.pending, 0, "no timer is left");
});

for (const status of [401, 403]) {
  test(`a ${status} names the key to check and never its value`, async () => {
    const { outcome, log } = await failWith(refusal(status));
    const { end } = outcome;
    assert.equal(end.error?.code, "provider_error");
    assert.match(end.error?.message ?? "", /model\.providers\.local\.api_key/);
    assert.ok(!JSON.stringify(outcome).includes(API_KEY), "the key is in what the turn says");
    assert.match(log, new RegExp(`"statusCode":${status}`));
  });
}

test("a provider's text stays out of the log", async () => {
  const { log } = await failWith(refusal(401));
  assert.ok(!log.includes(API_KEY), log);
});

test("a 404 says that the provider does not have the model", async () => {
  const { end } = (await failWith(refusal(404))).outcome;
  assert.equal(end.error?.code, "model_not_found");
});

test("a 400 is not retried and reports only its status", async () => {
  const { end, events } = (await failWith(refusal(400))).outcome;
  assert.equal(end.error?.code, "provider_error");
  assert.match(end.error?.message ?? "", /400/);
  assert.ok(!end.error?.message.includes(API_KEY));
  assert.deepEqual(events, []);
});

test("an unreachable provider is reported with its address and the system's code", async () => {
  const unused = createServer().listen(0, "127.0.0.1");
  await once(unused, "listening");
  const { port } = unused.address() as AddressInfo;
  unused.close();
  await once(unused, "close");
  await using local = await startLocalEngine([], { provider: { baseUrl: `http://127.0.0.1:${port}/v1` } });
  const { end, events } = await probe(local.engine);
  assert.equal(end.error?.code, "provider_error");
  assert.match(
    end.error?.message ?? "",
    new RegExp(`local could not be reached at 127.0.0.1:${port}: ECONNREFUSED`),
  );
  assert.deepEqual(
    events.map(({ type }) => type),
    ["notice", "notice"],
    "it is tried again twice",
  );
});

test("an unconfigured provider is reported as a model that is not found", async () => {
  await using local = await startLocalEngine([]);
  const { end } = await probe(local.engine, { turn: { model: { provider: "nowhere", id: "x" } } });
  assert.equal(end.error?.code, "model_not_found");
  assert.match(end.error?.message ?? "", /"nowhere".*model\.providers/);
  assert.equal(local.server.requests.length, 0);
});

test("a stream that breaks after output is not retried; its text is saved as interrupted", async () => {
  await using local = await startLocalEngine([
    { pieces: [{ text: "half" }, { cut: true }] },
    saying("again"),
  ]);
  const { end, saved } = await probe(local.engine);
  assert.equal(end.stop, "error");
  assert.equal(end.text, "half");
  assert.equal(local.server.requests.length, 1);
  assert.deepEqual(saved.map(unnamed), [
    { role: "assistant", parts: [{ type: "text", text: "half" }], interrupted: true },
  ]);
});

test("a stream that breaks after reasoning is not retried either", async () => {
  await using local = await startLocalEngine([
    { pieces: [{ reasoning: "hm" }, { cut: true }] },
    saying("again"),
  ]);
  const { end } = await probe(local.engine);
  assert.equal(end.stop, "error");
  assert.equal(local.server.requests.length, 1);
});

test("a stream that breaks before any output is retried", async () => {
  await using local = await startLocalEngine([
    { pieces: [{ raw: ": hello\n\n" }, { cut: true }] },
    saying("ok"),
  ]);
  const { end } = await probe(local.engine);
  assert.equal(end.text, "ok");
  assert.equal(local.server.requests.length, 2);
});

test("a stream that breaks inside a call's arguments is retried, because nothing was shown or run", async () => {
  const begun = { index: 0, id: "call_a", name: "weather", arguments: '{"city":"Pa' };
  await using local = await startLocalEngine([{ pieces: [{ call: begun }, { cut: true }] }, saying("ok")]);
  const { end, calls } = await probe(local.engine);
  assert.equal(end.text, "ok");
  assert.deepEqual(calls, []);
});

for (const [title, reply] of [
  ["breaks after output", { pieces: [{ text: "half" }, { cut: true }] }],
  ["ends without a finish reason", { pieces: [{ text: "half" }], done: false }],
] as const) {
  test(`a stream that ${title} is reported as an answer that ended early`, async () => {
    await using local = await startLocalEngine([reply]);
    const { end } = await probe(local.engine);
    assert.match(end.error?.message ?? "", /ended its answer early/);
  });
}

test("a stream that ends without a finish reason is an error, and its text is saved as interrupted", async () => {
  await using local = await startLocalEngine([{ pieces: [{ text: "half" }], done: false }, saying("again")]);
  const { end, saved } = await probe(local.engine);
  assert.equal(end.stop, "error");
  assert.equal(local.server.requests.length, 1);
  assert.deepEqual(saved.map(unnamed), [
    { role: "assistant", parts: [{ type: "text", text: "half" }], interrupted: true },
  ]);
});

test("a stream that ends without a finish reason runs none of its tool calls, and answers them all", async () => {
  await using local = await startLocalEngine([
    {
      pieces: [
        { text: "let me see" },
        { call: { index: 0, id: "call_a", name: "weather", arguments: '{"city":"Paris"}' } },
        { call: { index: 1, id: "call_b", name: "weather", arguments: '{"city":"R' } },
      ],
      done: false,
    },
    saying("too late"),
  ]);
  const { end, calls, saved } = await probe(local.engine);
  assert.equal(end.stop, "error");
  assert.deepEqual(calls, []);
  const answers = saved.flatMap((message) => (message.role === "tool" ? [message.status] : []));
  assert.deepEqual(answers, ["aborted", "aborted"]);
});

for (const [title, raw] of [
  ["bytes that are not JSON", "data: {nonsense\n\n"],
  ["JSON of another shape", 'data: {"choices": 7}\n\n'],
  ["an error in the middle of the stream", `data: {"error":{"message":"bad key ${API_KEY}"}}\n\n`],
] as const) {
  test(`${title} after output end the turn with an error that repeats none of it`, async () => {
    await using local = await startLocalEngine([{ pieces: [{ text: "half" }, { raw }] }, saying("again")]);
    const { end, saved } = await probe(local.engine);
    assert.equal(end.stop, "error");
    assert.equal(local.server.requests.length, 1);
    assert.ok(!end.error?.message.includes(API_KEY));
    assert.equal(saved[0]?.role === "assistant" && saved[0].interrupted, true);
  });
}

test("a provider that never starts to answer times out", async () => {
  const clock = new FakeClock();
  await using local = await startLocalEngine([{ pieces: [{ hang: true }] }], {
    clock,
    provider: { timeoutMs: 5000 },
  });
  const turn = probe(local.engine);
  const request = await local.server.requested(1);
  clock.tick(4999);
  clock.tick(1);
  const { end, events } = await turn;
  assert.equal(end.error?.code, "agent_timeout");
  assert.match(end.error?.message ?? "", /local sent nothing for 5 seconds/);
  assert.deepEqual(events, [], "a stall is not tried again");
  await request.closed;
  assert.equal(clock.pending, 0, "no timer is left");
});

test("a provider does not time out while its answer waits to be stored", async () => {
  const clock = new FakeClock();
  await using local = await startLocalEngine([saying("a", "b")], { clock, provider: { timeoutMs: 5000 } });
  let waits = 0;
  const { end } = await probe(local.engine, {
    drain: () => {
      waits += 1;
      return waits > 1 ? undefined : Promise.resolve().then(() => clock.tick(60_000));
    },
  });
  assert.deepEqual([end.stop, end.text], ["end", "ab"]);
  assert.equal(clock.pending, 0, "no timer is left");
});

test("each piece of an answer restarts the timeout, and a stall saves the partial text", async () => {
  const clock = new FakeClock();
  await using local = await startLocalEngine([{ pieces: [{ text: "a" }, { text: "b" }, { hang: true }] }], {
    clock,
    provider: { timeoutMs: 5000 },
  });
  const { end, saved } = await probe(local.engine, {
    onEvent: (event) => {
      if (event.type !== "message.delta") return;
      if (event.text === "a") clock.tick(4000);
      else queueMicrotask(() => clock.tick(5000));
    },
  });
  assert.equal(end.error?.code, "agent_timeout");
  assert.equal(end.text, "ab");
  assert.deepEqual(saved.map(unnamed), [
    { role: "assistant", parts: [{ type: "text", text: "ab" }], interrupted: true },
  ]);
});

test("the time of a tool does not count towards the provider's timeout", async () => {
  const clock = new FakeClock();
  const asksTool: ModelReply = {
    pieces: [
      { call: { index: 0, id: "call_a", name: "weather", arguments: '{"city":"Paris"}' } },
      { finish: "tool_calls" },
    ],
  };
  await using local = await startLocalEngine([asksTool, saying("ok")], {
    clock,
    provider: { timeoutMs: 5000 },
  });
  const { end } = await probe(local.engine, {
    callTool: () => {
      clock.tick(3_600_000);
      return { status: "ok", text: "slow" };
    },
  });
  assert.equal(end.text, "ok");
});
