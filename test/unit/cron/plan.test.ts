import { isPlan } from "../../../src/cron/queries.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobDefinition } from "../../../src/cron/job/job.ts";
import { planOccurrence, readPlan, type DeliveryPlan } from "../../../src/cron/run/result.ts";
import { createTestCron, definition, START_MS } from "../../harness/cron.ts";

const settings = { wrapResponse: true, silentMatch: "contains" } as const;
const occurrence = {
  id: "occ_1",
  scheduled_at: START_MS,
  claimed_at: START_MS,
  cause: "schedule",
  timing: "on_time",
  output_file: "x.md",
} as const;

function plan(parts: Partial<JobDefinition>, homes: Readonly<Record<string, string>> = {}): DeliveryPlan {
  const job = { id: "0123456789ab", owner: "default", definition: definition(parts) };
  return planOccurrence({ occurrence, job }, { homes: new Map(Object.entries(homes)), settings });
}

const targets = (deliver: string, parts: Partial<JobDefinition> = {}, homes = {}) =>
  plan({ deliver, ...parts }, homes).targets;

const HOMES = { telegram: "-100:17", slack: "C1" };

test("targets resolve from the origin, home channels, explicit addresses, lists and `all`, without repeats", () => {
  const origin = "telegram:-200:5";
  assert.deepEqual(targets("origin", { origin }, HOMES), [origin]);
  assert.deepEqual(targets("telegram", { origin }, HOMES), ["telegram:-100:17"]);
  assert.deepEqual(targets("telegram:-300:9", {}, HOMES), ["telegram:-300:9"]);
  assert.deepEqual(targets("telegram:-300, slack , local"), ["telegram:-300", "slack"]);
  assert.deepEqual(targets("all", {}, HOMES), ["telegram:-100:17", "slack:C1"]);
  assert.deepEqual(targets("all, telegram, telegram:-100:17, slack:C1,origin", { origin }, HOMES), [
    "telegram:-100:17",
    "slack:C1",
    origin,
  ]);
  assert.deepEqual(targets("origin", {}, {}), []);

  assert.deepEqual(targets("local", { origin }, HOMES), []);
  assert.deepEqual(targets("all"), ["all"], "the target of this name refuses");
});

test("`origin` of a job that no chat created is the output file only, whatever home channels exist", () => {
  assert.deepEqual(targets("origin", {}, HOMES), []);
  assert.deepEqual(targets("origin,slack:C1", {}, HOMES), ["slack:C1"]);
});

test("a platform without a home channel resolves to the origin when that is on the platform", () => {
  const origin = "telegram:-200:5";
  assert.deepEqual(targets("telegram", { origin }), [origin]);
  assert.deepEqual(targets("telegram,origin", { origin }), [origin], "each place once");
  assert.deepEqual(targets("slack", { origin }), ["slack"]);
  assert.deepEqual(targets("telegram", { origin: "telegrams:1" }), ["telegram"]);
  assert.deepEqual(targets("matrix", { origin: "matrix:!a:b.org:$e" }), ["matrix:!a:b.org:$e"]);
});

test("failures go to the same targets as answers unless failure targets are set", () => {
  const origin = "slack:C9";
  assert.deepEqual(plan({ deliver: "origin", origin }).failureTargets, [origin]);
  assert.deepEqual(plan({ deliver: "local", failureDeliver: "origin,log", origin }).failureTargets, [
    origin,
    "log",
  ]);
  assert.deepEqual(plan({ deliver: "log", failureDeliver: "local" }).failureTargets, []);
});

test("a plan is recognized among the records of other triggers, and survives a round trip", () => {
  const made = plan({ deliver: "all" }, HOMES);
  const text = JSON.stringify(made);
  assert.deepEqual(readPlan(text), made);
  for (const other of ['{"targets":["log"],"ref":"occ_1"}', '{"ref":"dlv_1"}', "", "{"]) {
    assert.equal(isPlan(other), false);
    assert.equal(readPlan(other), undefined);
  }
  assert.equal(readPlan(null), undefined);
});

test("a job that delivers to `all` without home channels runs ok and records a delivery failure", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea" }) });
  const { id } = await cron.create({ deliver: "all" });
  await cron.advance(3_600_000);
  const [only] = await cron.occurrences(id);
  assert.equal(only?.status, "ok", "the run is well");
  assert.equal(only.delivery_status, "failed");
  assert.match(only.delivery_error ?? "", /^all: No platform has a home channel/);
  const job = await cron.job(id);
  assert.equal(job.lastStatus, "delivery_failed");
  assert.match(job.lastDeliveryError ?? "", /home channel/);
  assert.equal(job.failureStreak, 0);
  assert.equal(Object.keys(await cron.outputs(id)).length, 1);
});

test("targets resolve when the job fires, and each gets one message", async () => {
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    homes: { telegram: "-100:17", slack: "C1" },
  });
  await cron.create({ deliver: "all,telegram,origin", origin: "slack:C2" });
  await cron.advance(3_600_000);
  assert.deepEqual(cron.sent.map(({ target }) => target).toSorted(), [
    "slack:C1",
    "slack:C2",
    "telegram:-100:17",
  ]);
});
