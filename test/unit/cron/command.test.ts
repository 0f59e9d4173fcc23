import assert from "node:assert/strict";
import { test } from "node:test";
import { cronCommand } from "../../../src/cron/tool/tool.ts";
import { Heartbeat } from "../../../src/cron/tick/ticker.ts";
import { startTestService } from "../../harness/service.ts";
import { createTestCron, START_MS, type TestCron } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;

/** What people see of `/cron args`. */
async function cronText(cron: TestCron, args: string): Promise<string> {
  const directive = await cronCommand(cron.deps).run({ agent: cron.agent.core, owner: "tester", args });
  assert.equal(directive.type, "exec");
  return directive.type === "exec" ? directive.output : "";
}

test("/cron creates a job, and lists it with its next run in its own zone", async () => {
  await using cron = await createTestCron({ cron: { zone: "America/Toronto" } });
  const made = await cronText(cron, "add every 1h -- make\n tea");
  const id = /^Created job: ([0-9a-f]{12})\n/.exec(made)?.[1] ?? "";
  assert.match(made, /Next +next 2026-01-05 08:00:00 -05:00 \(America\/Toronto\)/);
  assert.match(made, /No gateway is running/);
  await new Heartbeat(cron.store).beat(START_MS);
  const line = `${id}  make tea: every 1h, next 2026-01-05 08:00:00 -05:00 (America/Toronto)`;
  assert.equal(await cronText(cron, ""), line);
  assert.equal(await cronText(cron, "LIST"), line);
});

test("/cron pauses, resumes, runs, shows and removes jobs by id or name", async () => {
  await using cron = await createTestCron();
  const { id } = await cron.create({ name: "Brew Tea", prompt: "make tea" });
  assert.equal(await cronText(cron, "pause brew tea"), `Paused job: Brew Tea (${id})`);
  assert.match(await cronText(cron, "list"), /Brew Tea: every 1h, paused/);
  assert.match(
    await cronText(cron, `resume ${id}`),
    /^Resumed job: Brew Tea .*\n.*next 2026-01-05 13:00:00 \+00:00/,
  );
  assert.match(await cronText(cron, "run BREW TEA"), /^Triggered job: Brew Tea/);
  await cron.tick();
  assert.match(
    await cronText(cron, "runs brew tea"),
    /^2026-01-05 12:00:00 \+00:00 \(UTC\)  ok, manual, delivery delivered$/,
  );
  assert.match(await cronText(cron, "runs"), /Brew Tea: ok, manual/);
  const shown = await cronText(cron, "show brew tea");
  assert.match(shown, /Last run +2026-01-05 12:00:00 .*, ok/);
  assert.match(shown, /Prompt +make tea/);
  assert.equal(Object.keys(await cron.outputs(id)).length, 1);
  assert.equal(await cronText(cron, "remove brew tea"), `Removed job: Brew Tea (${id})`);
  assert.deepEqual(await cron.outputs(id), {});
  assert.match(await cronText(cron, ""), /No scheduled jobs/);
  assert.equal(await cronText(cron, "runs"), "Nothing has run yet.");
});

test("/cron shows its usage, and what is wrong with a schedule", async () => {
  await using cron = await createTestCron();
  const refused = (args: string, message: RegExp) => assert.rejects(cronText(cron, args), { message });
  await refused("bake", /Usage: \/cron \[list/);
  await refused("constructor", /Usage: \/cron/);
  await refused("add every 1h", /Give a schedule and a task: \/cron add/);
  await refused("add every 1h -- ", /Give a schedule and a task/);
  await refused("add 30m -- tea", /use `every 30m` or `in 30m`/);
  await refused("pause", /Name a job: \/cron pause/);
  await refused("run nobody", /No job matches "nobody"/);
  assert.deepEqual((await cron.jobs.list()).jobs, []);
});

test("/cron names failures, late and broken jobs, in one line each and without secrets", async () => {
  const secret = "sk-proj-0123456789abcdefghijklmnop";
  await using cron = await createTestCron();
  const { id } = await cron.create({ name: `two ${secret}`, prompt: "x" });
  const broken = await cron.create({ name: "broken" });
  await cron.store.write(async (tx) => {
    await tx.update(
      "cron_jobs",
      { id },
      { last_status: "error", last_error: `a\nb ${secret}`, last_run_at: 1 },
    );
    await tx.update("cron_jobs", { id: broken.id }, { definition: "{" });
  });
  const listed = await cronText(cron, "");
  assert.match(listed, /; last run: error\n1 cannot be read; `agentd cron list` shows them\./);
  const shown = await cronText(cron, `show ${id}`);
  assert.match(shown, /Last run +1970-01-01 00:00:00 .*, error: a b /);
  assert.doesNotMatch(listed + shown, /sk-proj/);
});

test("/cron list, show and runs change no row", async () => {
  await using cron = await createTestCron();
  const { id } = await cron.create();
  cron.clock.tick(10 * HOUR_MS);
  const rows = () => cron.store.read.selectFrom("cron_jobs").selectAll().execute();
  const before = await rows();
  for (const args of ["list", `show ${id}`, "runs", `runs ${id}`]) await cronText(cron, args);
  assert.deepEqual(await rows(), before);
});

test("a service offers the tool and the command, and both work on its jobs", async () => {
  await using service = await startTestService();
  const { agent, commands } = service.service.deps;
  assert.ok(agent.deps.tools().some(({ name, toolset }) => name === "cronjob" && toolset === "cron"));
  const call = { agent, owner: "tester" };
  const made = await commands.dispatch("/cron add every 1h -- sum up", call);
  assert.match(made.type === "exec" ? made.output : "", /^Created job: [0-9a-f]{12}/);
  const listed = await commands.dispatch("/cron", call);
  assert.match(listed.type === "exec" ? listed.output : "", /sum up: every 1h, next /);
});

test("without `cron` in agent.toolsets the agent has no tool, and people still have the command", async () => {
  await using service = await startTestService({ config: { agent: { toolsets: ["files"] } } });
  const { agent, commands } = service.service.deps;
  assert.ok(!agent.deps.tools().some(({ name }) => name === "cronjob"));
  assert.equal((await commands.resolve("/cron")).name, "cron");
});
