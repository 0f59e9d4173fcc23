import assert from "node:assert/strict";
import { test } from "node:test";
import { Budget, DaySpending, DayTotal } from "../../../src/agent/usage/budgets.ts";
import { zeroUsage } from "../../../src/agent/usage/usage.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";

const tokens = (count: number) => ({ ...zeroUsage, inputTokens: count - 1, outputTokens: 1 });
const spent = (count: number) => ({ tokens: count, costNano: 0 });
const model = { provider: "openai", id: "gpt-5.1" };

function spending(store: Store, clock: FakeClock, owner = "o", limit = 100) {
  const problems: unknown[] = [];
  const [ofOwner, ofKey] = [new DayTotal(store, clock, { owner }), new DayTotal(store, clock, { key: "k" })];
  const day = new DaySpending({
    store,
    clock,
    owner,
    key: "k",
    limits: { tokens: limit, costUsd: 0, keyCostUsd: 0 },
    ofOwner,
    ofKey,
    onProblem: (error) => problems.push(error),
  });
  return { day, problems, load: () => ofOwner.load(), admit: () => day.admit()?.message };
}

test("a run is refused once it has used its tokens, not before, and without a limit never", () => {
  const budget = new Budget({ limit: 10 });
  budget.spend(tokens(9));
  assert.equal(budget.admit(model), undefined);
  budget.spend(tokens(5));
  assert.match(budget.admit(model)?.message ?? "", /used 14 of 10 tokens/);
  const free = new Budget({ limit: 0 });
  free.spend(tokens(1e9));
  assert.equal(free.admit(model), undefined);
});

test("a sub-agent's spending counts for every run above it, and not the other way", () => {
  const top = new Budget({ limit: 100 });
  const middle = new Budget({ limit: 0, above: top });
  const [left, right] = [new Budget({ limit: 30, above: middle }), new Budget({ limit: 0, above: middle })];
  left.spend(tokens(30));
  assert.notEqual(left.admit(model), undefined);
  assert.equal(right.admit(model), undefined);
  right.spend(tokens(70));
  for (const budget of [top, middle, right]) assert.notEqual(budget.admit(model), undefined);
});

test("the day's total counts each token once, however many generations share it", async (t) => {
  const { store } = await openTestStore(t);
  const { day, load } = spending(store, new FakeClock());
  const top = new Budget({ limit: 0, day });
  new Budget({ limit: 0, above: new Budget({ limit: 0, above: top, day }), day }).spend(tokens(60));
  assert.equal(top.admit(model), undefined);
  await load();
  const row = await store.read.selectFrom("spending").selectAll().executeTakeFirstOrThrow();
  assert.equal(row.tokens, 60);
});

test("concurrent spending of two processes on a new day is all counted", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const clock = new FakeClock();
  const both = [spending(store, clock), spending(await openAnother(), clock)];
  for (let n = 0; n < 20; n++) for (const { day } of both) day.add(spent(1));
  for (const { load } of both) await load();
  assert.deepEqual(
    both.flatMap(({ problems }) => problems),
    [],
  );
  const rows = await store.read.selectFrom("spending").select("tokens").execute();
  assert.deepEqual(rows, [{ tokens: 40 }]);
});

test("reading the day's total forgets no concurrent spending", async (t) => {
  const { store } = await openTestStore(t);
  const { day, load, admit } = spending(store, new FakeClock());
  const loading = load();
  day.add(spent(100));
  await loading;
  assert.notEqual(admit(), undefined);
  day.add(spent(1));
  await Promise.all([load(), load()]);
  assert.match(admit() ?? "", /used 101 of 100 tokens/);
});

test("a day ends at midnight UTC, and owners are separate", async (t) => {
  const { store } = await openTestStore(t);
  const clock = new FakeClock(Date.UTC(2026, 1, 28, 23, 59, 59, 999));
  const [mine, other] = [spending(store, clock), spending(store, clock, "other")];
  mine.day.add(spent(100));
  await Promise.all([mine.load(), other.load()]);
  assert.notEqual(mine.admit(), undefined);
  assert.equal(other.admit(), undefined);
  clock.tick(1);
  assert.equal(mine.admit(), undefined);
  await mine.load();
  mine.day.add(spent(99));
  assert.equal(mine.admit(), undefined);
  mine.day.add(spent(1));
  assert.notEqual(mine.admit(), undefined);
  await mine.load();
});

test("a failing store is reported, and the limit still applies", async (t) => {
  const { openAnother } = await openTestStore(t);
  const closed = await openAnother();
  const { day, problems, load, admit } = spending(closed, new FakeClock());
  await closed.close();
  day.add(spent(100));
  assert.notEqual(admit(), undefined);
  await assert.rejects(load());
  assert.equal(problems.length, 1);
});
