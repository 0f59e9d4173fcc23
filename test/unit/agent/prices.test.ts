import assert from "node:assert/strict";
import { Socket } from "node:net";
import { test } from "node:test";
import {
  zeroUsage,
  addUsage,
  usageByModel,
  formatUsd,
  secondsToMidnight,
  addRunUsage,
  readRunUsage,
  toRunUsage,
} from "../../../src/agent/usage/usage.ts";
import { type ModelProvider, Prices } from "../../../src/agent/model.ts";
import { FakeClock } from "../../harness/fake-clock.ts";

const clock = new FakeClock(Date.UTC(2026, 0, 1));
const OPENAI: ModelProvider = { name: "openai", type: "openai", models: [] };
const GROQ: ModelProvider = {
  name: "groq",
  type: "openai_compatible",
  models: [],
  baseUrl: "https://api.groq.com/openai/v1",
};

const prices = (...providers: ModelProvider[]) => new Prices({ providers }, clock);
const usage = { ...zeroUsage, modelCalls: 1, inputTokens: 1_000, outputTokens: 100 };
const gpt = { provider: "openai", id: "gpt-5.1" };

test("no price lookup touches the network", async (t) => {
  const connect = t.mock.method(Socket.prototype, "connect", () => assert.fail("a socket was opened"));
  const fetched = t.mock.method(globalThis, "fetch", () => assert.fail("something was fetched"));
  const all = prices(OPENAI, GROQ);
  await all.prepare([gpt]);
  for (const model of [
    gpt,
    { provider: "groq", id: "llama-3.3-70b-versatile" },
    { provider: "groq", id: "no" },
  ]) {
    all.priced(model, usage);
    await all.find(model);
  }
  assert.ok(all.priced(gpt, usage).costNano > 0);
  assert.deepEqual([connect.mock.callCount(), fetched.mock.callCount()], [0, 0]);
  for (const mocked of [connect, fetched]) mocked.mock.restore();
});

test("the list of prices is loaded for a model that needs it, and for no other", async () => {
  const local: ModelProvider = { ...GROQ, name: "local", baseUrl: "http://127.0.0.1:1/v1", isLocal: true };
  const own: ModelProvider = { ...OPENAI, name: "own", prices: [{ match: "*", input: 1, output: 1 }] };
  const all = prices(OPENAI, local, own);
  for (const provider of ["demo", "local", "own", "unknown"]) {
    assert.equal(all.prepare([{ provider, id: "demo" }]), undefined, provider);
  }
  assert.equal(all.priced({ provider: "local", id: "m" }, usage).costNano, 0);
  assert.equal(all.priced({ provider: "local", id: "m" }, usage).unpricedTokens, 0);
  assert.equal(all.priced({ provider: "own", id: "m" }, usage).costNano, 1_100_000);
  assert.ok(all.prepare([gpt]) instanceof Promise);
  await all.prepare([gpt]);
  assert.equal(all.prepare([gpt]), undefined);
});

test("a price on this machine can be configured", () => {
  const local = { ...GROQ, isLocal: true, prices: [{ match: "big*", input: 2, output: 2 }] };
  assert.equal(prices(local).priced({ provider: "groq", id: "big-1" }, usage).costNano, 2_200_000);
  assert.equal(prices(local).priced({ provider: "groq", id: "small" }, usage).costNano, 0);
});

test("the first entry that matches the name of a model counts", () => {
  const from = (...matches: string[]) =>
    prices({ ...OPENAI, prices: matches.map((match, index) => ({ match, input: index + 1, output: 0 })) });
  const indexOf = (id: string, ...matches: string[]) => {
    const { costNano, unpricedTokens } = from(...matches).priced({ provider: "openai", id }, usage);
    return unpricedTokens > 0 ? undefined : costNano / 1_000_000;
  };
  assert.equal(indexOf("gpt-5.1", "gpt-5.1", "*"), 1);
  assert.equal(indexOf("gpt-5.1-mini", "gpt-5.1", "*mini"), 2);
  assert.equal(indexOf("a-b-c", "a*c*c", "a*b*c"), 2);
  assert.equal(indexOf("aba", "ab*ba", "*"), 2);
  assert.equal(indexOf("gpt", "Gpt", "gpt*"), 2);
  assert.equal(indexOf("other", "gpt*"), undefined);
});

test("the address decides about prices: another one than the provider's own has no price of it", async () => {
  const proxy = { ...OPENAI, baseUrl: "https://proxy.example/v1" };
  const all = prices(proxy, GROQ);
  await all.prepare([gpt]);
  assert.equal(all.priced(gpt, usage).unpricedTokens, 1_100);
  assert.equal(all.isKnown(gpt), false);
  assert.ok(all.priced({ provider: "groq", id: "llama-3.3-70b-versatile" }, usage).costNano > 0);
});

test("counts that contradict each other have a price, and nothing is charged twice", async () => {
  const all = prices(OPENAI);
  await all.prepare([gpt]);
  const costOf = (more: object) => all.priced(gpt, { ...usage, ...more }).costNano;
  const whole = costOf({});
  assert.ok(costOf({ cachedInputTokens: 1_000 }) < whole);
  assert.equal(costOf({ cachedInputTokens: 5_000 }), costOf({ cachedInputTokens: 1_000 }));
  assert.equal(costOf({ cachedInputTokens: -5, cacheWriteTokens: Number.NaN }), whole);
  assert.ok(costOf({ cachedInputTokens: 800, cacheWriteTokens: 800 }) <= whole);
  assert.equal(all.priced(gpt, zeroUsage).costNano, 0);
});

test("a long call has the price of long calls, several short ones do not", async () => {
  const claude = { provider: "anthropic", id: "claude-sonnet-4-5" };
  const all = prices({ name: "anthropic", type: "anthropic", models: [] });
  await all.prepare([claude]);
  const costOf = (inputTokens: number) => all.priced(claude, { ...zeroUsage, inputTokens }).costNano;
  assert.ok(costOf(300_000) > 3 * costOf(100_000));
});

test("the usage of a run is split by model, and read again as it was written", () => {
  const one = { ...usage, costNano: 5, toolCalls: 1 };
  const other = { ...usage, inputTokens: 7, unpricedTokens: 107 };
  const sum = [
    one,
    { ...other, others: { "far:away": other } },
    { ...other, others: { "far:away": other } },
  ].reduce(addUsage);
  assert.deepEqual(usageByModel(sum, "openai:gpt-5.1"), [
    ["openai:gpt-5.1", one],
    ["far:away", addUsage(other, other)],
  ]);
  const written = toRunUsage(sum, "openai:gpt-5.1");
  assert.deepEqual(
    written.by_model?.map(({ model, cost_usd: cost, unpriced_tokens: unpriced }) => [model, cost, unpriced]),
    [
      ["openai:gpt-5.1", 5e-9, 0],
      ["far:away", null, 214],
    ],
  );
  assert.deepEqual(readRunUsage(written, "openai:gpt-5.1"), sum);
  assert.equal(toRunUsage(one, "m").by_model, undefined);
});

test("a sum has the cost of what is priced, and stays null without any", () => {
  const priced = toRunUsage({ ...usage, costNano: 3 }, "m");
  const unpriced = toRunUsage({ ...usage, unpricedTokens: 1_100 }, "m");
  assert.equal(addRunUsage(unpriced, unpriced).cost_usd, null);
  const both = addRunUsage(priced, unpriced);
  assert.deepEqual([both.cost_usd, both.unpriced_tokens], [3e-9, 1_100]);
});

test("money has the digits that matter, and a day ends at midnight UTC", () => {
  const amounts = [0, 12.345, 0.5, 0.0123, 0.00001234, 1e-12];
  assert.deepEqual(amounts.map(formatUsd), [
    "$0.00",
    "$12.35",
    "$0.50",
    "$0.012",
    "$0.000012",
    "$0.000000000",
  ]);
  assert.equal(secondsToMidnight(Date.UTC(2026, 0, 1)), 86_400);
  assert.equal(secondsToMidnight(Date.UTC(2026, 0, 1, 23, 59, 59, 999)), 1);
});
