/** What runs use and cost: prices, the usage of a day, and budgets. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run, UsageBucket, UsageResult } from "../../../generated/http/client/types.gen.ts";
import { addUsage, type Usage, zeroUsage } from "../../../src/agent/usage/usage.ts";
import type { Engine } from "../../../src/agent/engine.ts";
import { createModelEngine } from "../../../src/agent/engines/model-engine.ts";
import type { ModelRef } from "../../../src/agent/model.ts";
import { createLog } from "../../../src/base/observe.ts";
import { sweep } from "../../../src/store/retention.ts";
import { testTool } from "../../harness/agent.ts";
import { list } from "../../harness/control.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { startModelServer, type ModelReply } from "../../harness/openai-server.ts";
import { runEvents, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const OPENAI = { name: "openai", type: "openai", models: ["gpt-5.1", "gpt-5-mini"] };
const UNKNOWN = {
  name: "corp",
  type: "openai_compatible",
  baseUrl: "https://models.example/v1",
  models: ["m"],
};
const hi = { messages: [{ role: "user", content: "hi" }] };
const SECOND = "second-key-0123456789";
const second = { authorization: `Bearer ${SECOND}` };

/** One model call. */
interface Call {
  /** Default: the turn's model. */
  readonly model?: ModelRef;
  readonly usage: Partial<Usage>;
}

/** An engine that makes these calls in each turn, as far as it may. */
function using(...calls: readonly Call[]): Engine {
  return {
    name: "test",
    runTurn: async ({ model: own, ports }) => {
      let used = zeroUsage;
      for (const { model = own, usage } of calls) {
        const refusal = ports.admit?.(model);
        if (refusal)
          return { stop: "error", text: "", usage: used, error: { code: "budget_exceeded", ...refusal } };
        const one = { ...zeroUsage, modelCalls: 1, ...usage };
        const priced = ports.price?.(model, one) ?? one;
        used = addUsage(used, priced);
        ports.saveStep({
          messages: [{ role: "assistant", parts: [{ type: "text", text: "done" }] }],
          usage: priced,
        });
      }
      return { stop: "end", text: "done", usage: used };
    },
  };
}

const MILLION = { inputTokens: 1_000_000, outputTokens: 1_000_000 };
const thousand = using({ usage: { inputTokens: 1_000, outputTokens: 1_000 } });

async function run(service: TestService, body = {}, headers = {}): Promise<Run> {
  const { run_id: id } = await startRun(service, body, headers);
  return (await (await service.request(`/v1/runs/${id}?wait=30`, { headers })).json()) as Run;
}

async function usage(service: TestService, query = "", headers = {}): Promise<readonly UsageResult[]> {
  const buckets = await list<UsageBucket>(service, `/v1/usage?${query}`, headers);
  return buckets.flatMap(({ results }) => results);
}

async function onlyUsage(service: TestService, query = ""): Promise<UsageResult> {
  const [result, ...others] = await usage(service, query);
  assert.ok(result);
  assert.deepEqual(others, []);
  return result;
}

scenario(
  "getUsage",
  200,
  {
    title: "usage of a day equals the sum of its runs, also after the runs are swept",
    engine: using({ usage: { inputTokens: 100, cachedInputTokens: 10, outputTokens: 7 } }),
    providers: [OPENAI],
  },
  async (service) => {
    const runs = [await run(service), await run(service), await run(service, { model: "openai:gpt-5-mini" })];
    await (await service.chat(hi)).text();
    const sum = (of: (usage: NonNullable<Run["usage"]>) => number) =>
      runs.reduce((total, { usage: used }) => total + of(used!), 0);
    const result = await onlyUsage(service, "kind=run");
    assert.equal(result.runs, 3);
    assert.equal(result.model_calls, 3);
    assert.equal(
      result.input_tokens,
      sum((used) => used.input_tokens),
    );
    assert.equal(result.cached_input_tokens, 30);
    assert.equal(
      result.output_tokens,
      sum((used) => used.output_tokens),
    );
    assert.ok(result.cost_usd! > 0);
    assert.equal(result.cost_usd, Math.round(sum((used) => used.cost_usd!) * 1e9) / 1e9);
    const whole = await onlyUsage(service);
    assert.equal(whole.runs, 4);
    const { store } = service.service;
    await sweep(store, { retention: { runsMs: -60_000, usageMs: 400 * 86_400_000 } });
    assert.deepEqual(await store.read.selectFrom("runs").select("id").execute(), []);
    assert.deepEqual(await onlyUsage(service), whole);
    await sweep(store, { retention: { usageMs: -2 * 86_400_000 } });
    assert.deepEqual(await usage(service), []);
  },
);

scenario(
  "getUsage",
  200,
  {
    title: "grouping by model splits a run that fell back to another model",
    engine: using(
      { usage: { inputTokens: 10, outputTokens: 1 } },
      { model: { provider: "openai", id: "gpt-5-mini" }, usage: { inputTokens: 20, outputTokens: 2 } },
    ),
    providers: [OPENAI],
  },
  async (service) => {
    const { usage: used, model } = await run(service);
    assert.equal(used?.input_tokens, 30);
    const split = used.by_model?.map((each) => [each.model, each.input_tokens, each.model_calls]);
    assert.deepEqual(split, [
      ["openai:gpt-5.1", 10, 1],
      ["openai:gpt-5-mini", 20, 1],
    ]);
    const byModel = await usage(service, "group_by=model");
    assert.deepEqual(
      byModel.map((each) => [each.model, each.runs, each.input_tokens, each.output_tokens]),
      [
        ["openai:gpt-5-mini", 0, 20, 2],
        [model, 1, 10, 1],
      ],
    );
    const costs = byModel.map(({ cost_usd: cost }) => cost!);
    assert.ok(costs.every((cost) => cost > 0));
    const whole = await onlyUsage(service);
    assert.equal(whole.cost_usd, Math.round((costs[0]! + costs[1]!) * 1e9) / 1e9);
    assert.equal(whole.model, null);
    assert.equal((await onlyUsage(service, "model=openai:gpt-5-mini")).input_tokens, 20);
  },
);

scenario(
  "getUsage",
  200,
  {
    title: "an unknown price is null and counted as unpriced, never 0",
    engine: using({ usage: { inputTokens: 10, outputTokens: 5 } }),
    providers: [UNKNOWN, OPENAI],
  },
  async (service) => {
    const { usage: used } = await run(service);
    assert.deepEqual([used?.cost_usd, used?.unpriced_tokens], [null, 15]);
    const result = await onlyUsage(service);
    assert.deepEqual([result.cost_usd, result.unpriced_tokens], [null, 15]);
    await run(service, { model: "openai:gpt-5.1" });
    const both = await onlyUsage(service);
    assert.ok(both.cost_usd! > 0, "the part with a price has a cost");
    assert.equal(both.unpriced_tokens, 15);
  },
);

scenario(
  "getUsage",
  200,
  {
    title: "a configured price wins over the bundled one",
    engine: using({ usage: MILLION }),
    providers: [{ ...OPENAI, prices: [{ match: "gpt-5.1*", input: 3, output: 4 }] }],
  },
  async (service) => {
    assert.equal((await run(service)).usage?.cost_usd, 7);
    assert.equal((await onlyUsage(service)).cost_usd, 7);
    const bundled = (await run(service, { model: "openai:gpt-5-mini" })).usage?.cost_usd;
    assert.ok(bundled! > 0 && bundled !== 7);
  },
);

scenario(
  "getUsage",
  200,
  {
    title: "cached tokens are not charged twice",
    engine: using({
      usage: { inputTokens: 1_000_000, cachedInputTokens: 600_000, cacheWriteTokens: 100_000 },
    }),
    providers: [
      { ...OPENAI, prices: [{ match: "*", input: 10, output: 1, cache_read: 1, cache_write: 20 }] },
    ],
  },
  async (service) => {
    assert.equal((await run(service)).usage?.cost_usd, 3 + 0.6 + 2);
    assert.equal((await onlyUsage(service)).cost_usd, 5.6);
  },
);

const keys = [
  { key: KEY, name: "laptop", owner: "ann", scopes: ["admin"], dayBudgetUsd: 0.02 },
  { key: SECOND, name: "phone", owner: "ann", scopes: ["chat", "runs", "read"] },
];
const clock = new FakeClock(Date.UTC(2026, 2, 1, 23, 59, 30));
const later = new FakeClock(Date.UTC(2026, 2, 5, 12));
const owners = [
  { key: KEY, name: "laptop", owner: "ann", scopes: ["chat", "runs", "read"] },
  { key: SECOND, name: "server", owner: "bob", scopes: ["admin"] },
];
const other = second;

scenario(
  "createChatCompletion",
  429,
  {
    title: "the call that would pass the day budget of a key is refused before it is made",
    engine: thousand,
    providers: [OPENAI],
    keys,
    clock,
  },
  async (service) => {
    for (let n = 0; n < 2; n++) await (await service.chat(hi)).text();
    const before = await onlyUsage(service, "key=laptop");
    assert.equal(before.model_calls, 2);
    const refused = await service.chat(hi);
    assert.equal(refused.headers.get("retry-after"), "30");
    const { message } = await assertError(refused, 429, "budget_exceeded");
    assert.match(message, /\$0\.022 of \$0\.020 \(day_budget_usd of the key\)/);
    assert.equal((await onlyUsage(service, "key=laptop")).model_calls, 2);
    assert.equal((await service.chat(hi, { headers: second })).status, 200, "the other key has no budget");
    const failed = await run(service);
    assert.deepEqual([failed.status, failed.error?.code], ["failed", "budget_exceeded"]);
    clock.tick(30_000);
    assert.equal((await service.chat(hi)).status, 200, "the next day has a budget of its own");
  },
);

/** A model that calls a tool each time it is asked, for 1,000 tokens in and 1,000 out. */
const callsAgain: ModelReply = {
  pieces: [
    { call: { index: 0, id: "call_1", name: "terminal", arguments: '{"command":"ls"}' } },
    { finish: "tool_calls" },
    { usage: { prompt_tokens: 1_000, completion_tokens: 1_000, total_tokens: 2_000 } },
  ],
};

test("a run that passes the day budget of its key ends before its next model call: budget_exceeded", async () => {
  await using server = await startModelServer(() => callsAgain);
  const provider = {
    name: "corp",
    type: "openai_compatible",
    baseUrl: server.baseUrl,
    models: ["m"],
    prices: [{ match: "*", input: 1, output: 10 }],
  } as const;
  const now = new FakeClock(Date.UTC(2026, 2, 1, 23, 59, 30));
  const log = createLog("error", () => {});
  let toolCalls = 0;
  await using service = await startTestService({
    engine: createModelEngine({ providers: [provider], clock: now, log }),
    providers: [provider],
    tools: [testTool(async () => `ran ${++toolCalls}`)],
    keys,
    clock: now,
  });
  const { run_id: id } = await startRun(service);
  const events = [];
  for await (const event of runEvents(service, id)) events.push(event.event);
  const ended = (await (await service.request(`/v1/runs/${id}`)).json()) as Run;
  assert.equal(server.requests.length, 2, "0.011 are spent before the second call, 0.022 of 0.020 after it");
  assert.equal(toolCalls, 2);
  assert.equal(events.at(-1), "run.failed");
  assert.deepEqual([ended.status, ended.error?.code], ["failed", "budget_exceeded"]);
  assert.match(
    ended.error?.message ?? "",
    /^Today's runs of the key "laptop" cost \$0\.022 of \$0\.020 \(day_budget_usd of the key\)\. Continue tomorrow/,
  );
  assert.deepEqual([ended.usage?.model_calls, ended.usage?.cost_usd], [2, 0.022]);
  assert.equal((await onlyUsage(service, "key=laptop")).model_calls, 2);
  now.tick(30_000);
  const refused = await service.chat(hi);
  await assertError(refused, 429, "budget_exceeded");
  assert.equal(refused.headers.get("retry-after"), "86400");
  assert.equal(server.requests.length, 4, "a request that spent the budget of the next day is refused alike");
});

scenario(
  "getUsage",
  200,
  { title: "each day of the window is an entry, newest first, and pages follow each other", clock: later },
  async (service) => {
    await run(service);
    const day = Date.UTC(2026, 2, 5) / 1000;
    const days = async (query: string) =>
      (await list<UsageBucket>(service, `/v1/usage?${query}`)).map(({ start_at: at }) => (day - at) / 86_400);
    assert.deepEqual(
      await days("limit=7"),
      Array.from({ length: 30 }, (_, index) => index),
    );
    const at = (text: string) => encodeURIComponent(text);
    assert.deepEqual(
      await days(`from=${at("2026-03-03T23:59:59Z")}&to=${at("2026-03-05T00:00:00Z")}`),
      [1, 2],
    );
    assert.deepEqual(await days(`from=${day}&to=${day + 1}`), [0]);
    assert.deepEqual(await days(`from=${day}&to=${day}`), []);
    const [today] = await list<UsageBucket>(service, "/v1/usage?limit=1&from=" + day);
    assert.deepEqual([today?.end_at, today?.truncated, today?.results.length], [day + 86_400, false, 1]);
  },
);

scenario("getUsage", 400, { title: "a wrong cursor, group or filter is refused" }, async (service) => {
  for (const [query, code, param] of [
    ["after=run_1", "invalid_cursor", "after"],
    ["after=2026-02-30", "invalid_cursor", "after"],
    ["group_by=session", "unsupported_parameter", "group_by"],
    ["bucket=1h", "unsupported_parameter", "bucket"],
    ["from=yesterday", "invalid_request", "from"],
    ["surface=http", "unsupported_parameter", "surface"],
  ]) {
    assert.equal(
      (await assertError(await service.request(`/v1/usage?${query}`), 400, code!)).param,
      param,
      query,
    );
  }
});

scenario(
  "getUsage",
  200,
  { title: "a key sees the usage of its owner only", keys: owners },
  async (service) => {
    await run(service);
    await run(service, {}, other);
    assert.equal((await onlyUsage(service)).runs, 1);
    assert.deepEqual(await usage(service, "owner=bob"), []);
    const seen = await usage(service, "group_by=owner,key", { ...other, "x-agent-owner": "*" });
    assert.deepEqual(seen.map(({ owner, key, runs }) => [owner, key, runs]).sort(), [
      ["ann", "laptop", 1],
      ["bob", "server", 1],
    ]);
  },
);
