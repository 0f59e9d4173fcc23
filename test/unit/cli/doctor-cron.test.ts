import assert from "node:assert/strict";
import { test } from "node:test";
import { checkJobs } from "../../../src/cli/doctor/cron.ts";
import { Heartbeat } from "../../../src/cron/tick/ticker.ts";
import { createTestCron, type TestCron } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;

async function verdictOf(cron: TestCron, isEnabled = true) {
  const { deps, clock } = cron;
  return checkJobs(cron.store, {
    deps: { ...deps, toolsets: { configured: ["terminal"], tools: () => [] } },
    skills: deps.skills,
    workspace: deps.workspace,
    silentPlatforms: ["telegram"],
    isEnabled,
    nowMs: clock.now(),
  });
}

const beat = (cron: TestCron) => new Heartbeat(cron.store).beat(cron.clock.now());

test("doctor accepts a home without jobs, and jobs that a gateway runs", async () => {
  await using cron = await createTestCron();
  assert.match((await verdictOf(cron)).detail, /^no jobs/);
  await cron.create();
  await beat(cron);
  assert.deepEqual(await verdictOf(cron), { status: "ok", detail: "1 job; the scheduler is running" });
});

test("doctor warns about jobs when no gateway is running", async () => {
  await using cron = await createTestCron();
  const { id } = await cron.create();
  const none = await verdictOf(cron);
  assert.deepEqual([none.status, none.detail], ["warn", "no gateway is running, and one job is scheduled"]);
  assert.match((await verdictOf(cron, false)).fix ?? "", /cron\.enabled/);
  await beat(cron);
  cron.clock.tick(200_001);
  assert.match((await verdictOf(cron)).detail, /has stalled/);
  await cron.jobs.pause(id);
  assert.equal((await verdictOf(cron)).status, "ok");
});

test("doctor reports an unreadable job first", async () => {
  await using cron = await createTestCron();
  await cron.create();
  const { id } = await cron.create({ name: "odd" });
  await cron.store.write((tx) => tx.update("cron_jobs", { id }, { definition: "[]" }));
  const { status, detail, fix } = await verdictOf(cron);
  assert.deepEqual([status, detail], ["fail", `the job odd (${id}) cannot be read`]);
  assert.match(fix ?? "", new RegExp(`agentd cron remove ${id}`));
});

for (const [what, parts, detail] of [
  ["script", { script: "gone.sh" }, /The file "gone\.sh" does not exist/],
  ["skill", { skills: ["gone"] }, /skill "gone" does not exist/],
  ["folder", { workdir: "/nonexistent/folder" }, /\/nonexistent\/folder, does not exist/],
  ["model", { model: "nowhere:gpt" }, /Unknown model "nowhere:gpt"/],
  ["platform", { deliver: "local,telegram:-100" }, /target telegram is not set up/],
  ["platform for failures", { failureDeliver: "telegram:-100" }, /target telegram/],
  ["set of tools", { toolsets: ["gone"] }, /Unknown toolset "gone"/],
] as const) {
  test(`doctor reports a job whose ${what} is missing`, async () => {
    await using cron = await createTestCron();
    await beat(cron);
    const { id } = await cron.create({ name: "needy", ...parts });
    const found = await verdictOf(cron);
    assert.equal(found.status, "warn");
    assert.ok(found.detail.startsWith(`needy (${id}): `), found.detail);
    assert.match(found.detail, detail);
    await cron.jobs.pause(id);
    assert.equal((await verdictOf(cron)).status, "ok");
  });
}

test("doctor reports an unknown time zone", async () => {
  await using cron = await createTestCron();
  await beat(cron);
  const { id, definition } = await cron.create();
  const moved = JSON.stringify({ ...definition, zone: "Mars/Olympus" });
  await cron.store.write((tx) => tx.update("cron_jobs", { id }, { definition: moved }));
  assert.match((await verdictOf(cron)).detail, /Unknown time zone "Mars\/Olympus"/);
});

test("doctor counts problems, and reports late jobs although a gateway runs", async () => {
  await using cron = await createTestCron();
  const { id } = await cron.create({ skills: ["gone"] });
  const other = await cron.create({ skills: ["gone"], name: "other" });
  cron.clock.tick(2 * HOUR_MS);
  await beat(cron);
  assert.match((await verdictOf(cron)).detail, /\(and 1 more\)$/);
  await cron.jobs.remove(other.id);
  await cron.jobs.edit(id, ({ definition }) => ({ ...definition, skills: [] }));
  const { status, detail } = await verdictOf(cron);
  assert.deepEqual([status, detail], ["warn", `a job is late, first tea (${id})`]);
});
