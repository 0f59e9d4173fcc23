/** The budgets of owners and keys, which tests of models and runs share. */
import assert from "node:assert/strict";
import type { Budget } from "../../../generated/http/client/types.gen.ts";
import { list } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY } from "../../harness/service.ts";

const OPENAI = { name: "openai", type: "openai", models: ["gpt-5.1"], hasKey: true };
const keys = [
  { key: KEY, name: "laptop", owner: "ann", scopes: ["read", "runs"], dayBudgetUsd: 0.5 },
  { key: "second-key-0123456789", name: "ops", scopes: ["admin"] },
];

const JSON_BODY = { "content-type": "application/json" };

scenario(
  "listBudgets",
  200,
  {
    title: "the budgets of the owner and of its keys, with what is spent",
    keys,
    providers: [OPENAI],
    config: { agent: { day_token_budget: 1000, day_cost_budget: 2 } },
    script: () => ({ text: "x".repeat(400) }),
  },
  async (service) => {
    await (
      await service.request("/v1/runs", { method: "POST", body: '{"input":"hi"}', headers: JSON_BODY })
    ).json();
    await list(service, "/v1/runs");
    let budgets: Budget[];
    do budgets = await list<Budget>(service, "/v1/budgets");
    // Other connections may read before the end of the run is committed.
    while (budgets.some(({ spent }) => spent === 0));
    assert.deepEqual(
      budgets.map(({ kind, owner, key, unit, limit }) => [kind, owner, key, unit, limit]),
      [
        ["owner_tokens", "ann", null, "tokens", 1000],
        ["owner_cost", "ann", null, "usd", 2],
        ["key_cost", "ann", "laptop", "usd", 0.5],
      ],
    );
    assert.equal(budgets[0]?.spent, 101);
    assert.ok(budgets[1]!.spent > 0 && budgets[1]!.spent === budgets[2]!.spent);
    assert.equal(budgets[0]!.resets_at % 86_400, 0);
    const all = await list<Budget>(service, "/v1/budgets", {
      authorization: "Bearer second-key-0123456789",
      "x-agent-owner": "*",
    });
    assert.deepEqual(new Set(all.map(({ owner }) => owner)), new Set(["ann", "ops"]));
  },
);

scenario(
  "testModel",
  429,
  {
    title: "a test does not pass the budget of its key",
    providers: [OPENAI],
    keys: [{ ...keys[0]!, dayBudgetUsd: 0.000001 }],
  },
  async (service) => {
    const first = await (await post(service, "/v1/providers/test", { with_tool: false })).json();
    assert.equal(first.ok, true);
    // What a call used is stored behind it.
    const isSpent = async () =>
      (await service.service.store.read.selectFrom("spending").select("cost_nano").execute()).length > 0;
    while (!(await isSpent())) await new Promise((resolve) => setImmediate(resolve));
    const second = await post(service, "/v1/providers/test", { with_tool: false });
    assert.ok(Number(second.headers.get("retry-after")) >= 1);
    await assertError(second, 429, "budget_exceeded");
  },
);

scenario(
  "testModel",
  200,
  {
    title: "what a test spends counts for the runs of its key",
    providers: [OPENAI],
    keys: [{ ...keys[0]!, dayBudgetUsd: 0.000001 }],
  },
  async (service) => {
    const first = await (await post(service, "/v1/providers/test", { with_tool: false })).json();
    assert.equal(first.ok, true);
    let spent = 0;
    while (spent === 0) {
      const [budget] = (await list<Budget>(service, "/v1/budgets")).filter(({ kind }) => kind === "key_cost");
      spent = budget!.spent;
    }
    const started = await post(service, "/v1/runs", { input: "hi" });
    const { run_id: run } = await started.json();
    const { status, error } = await (await service.request(`/v1/runs/${run}?wait=30`)).json();
    assert.deepEqual([status, error.code], ["failed", "budget_exceeded"]);
  },
);

scenario(
  "testModel",
  429,
  {
    title: "what a run spends counts for the next test of its key",
    providers: [OPENAI],
    keys: [{ ...keys[0]!, dayBudgetUsd: 0.000001 }],
    script: () => ({ text: "x".repeat(400) }),
  },
  async (service) => {
    const { run_id: run } = await (await post(service, "/v1/runs", { input: "hi" })).json();
    const { status, usage } = await (await service.request(`/v1/runs/${run}?wait=30`)).json();
    assert.deepEqual([status, usage.cost_usd > 0.000001], ["completed", true]);
    const refused = await post(service, "/v1/providers/test", { with_tool: false });
    await assertError(refused, 429, "budget_exceeded");
  },
);

scenario(
  "listBudgets",
  200,
  {
    title: "a key that was created while the server runs has its budget in the list until it is revoked",
    keys: [keys[1]!],
  },
  async (service) => {
    const ops = { authorization: "Bearer second-key-0123456789" };
    const body = { name: "phone", owner: "ops", scopes: ["runs"], day_budget_usd: 0.25 };
    const created = await (await post(service, "/v1/keys", body, ops)).json();
    await post(service, "/v1/keys", { ...body, name: "free", day_budget_usd: null }, ops);
    const budgets = await list<Budget>(service, "/v1/budgets", ops);
    assert.deepEqual(
      budgets.map(({ kind, owner, key, unit, limit, spent }) => [kind, owner, key, unit, limit, spent]),
      [["key_cost", "ops", "phone", "usd", 0.25, 0]],
    );
    await service.request(`/v1/keys/${created.id}`, { method: "DELETE", headers: ops });
    assert.deepEqual(await list(service, "/v1/budgets", ops), []);
  },
);
