import assert from "node:assert/strict";
import { mkdir, realpath, symlink } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { RunInput } from "../../../src/agent/run/run.ts";
import { decide } from "../../../src/agent/question/policy/policy.ts";
import { defineTool, type ToolIntent } from "../../../src/agent/tool/tool.ts";
import { createCronjob } from "../../../src/cron/tool/tool.ts";
import { Heartbeat } from "../../../src/cron/tick/ticker.ts";
import { createTestCron, START_MS, type TestCron, type TestCronOptions } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;

interface Answer {
  readonly success: boolean;
  readonly error?: string;
  readonly notice?: string;
  readonly count?: number;
  readonly job: Readonly<Record<string, unknown>> & { readonly id: string };
  readonly jobs: readonly (Readonly<Record<string, unknown>> & { readonly id: string })[];
  readonly broken?: readonly { readonly id: string }[];
  readonly runs: readonly Readonly<Record<string, unknown>>[];
}

/** Opens cron with an agent that has the tool and needs no approval. The user's message is the tool's input. */
async function createRoom({
  workspaceRoots = [],
  ...options
}: TestCronOptions & { readonly workspaceRoots?: readonly string[] } = {}): Promise<TestCron> {
  const made: { cron?: TestCron } = {};
  const other = (toolset: string) =>
    defineTool({
      name: `some_${toolset}`,
      toolset,
      description: "",
      parameters: { type: "object" },
      inspect: () => ({ kind: "tool", effect: "none", title: toolset }),
      run: async () => "",
    });
  const cron = await createTestCron({
    liveTools: () =>
      made.cron
        ? [createCronjob({ ...made.cron.deps, workspaceRoots }), other("web"), other("terminal")]
        : [],
    settings: { policyMode: "yolo" },
    script: ({ user, step }) => {
      const input = /\{.*\}/s.exec(user)?.[0];
      if (step > 0 || input === undefined) return { text: "done" };
      return { calls: [{ tool: "cronjob", input: JSON.parse(input) }] };
    },
    ...options,
  });
  made.cron = cron;
  return cron;
}

/** What the tool answers in a run of its own. */
async function ask(
  cron: TestCron,
  input: object,
  more: { readonly delivery?: object; readonly input?: Partial<RunInput>; readonly cwd?: string } = {},
): Promise<Answer> {
  const run = await cron.agent.submit(JSON.stringify(input), {
    input: {
      prompt: [{ role: "user", text: JSON.stringify(input) }],
      settings: {},
      answerable: false,
      ...more.input,
    },
    ...(more.cwd === undefined ? {} : { seed: { source: "test", cwd: more.cwd } }),
    ...(more.delivery === undefined ? {} : { delivery: JSON.stringify(more.delivery) }),
  });
  await cron.agent.events(run.runId);
  const messages = await cron.agent.transcript(run.sessionId);
  const said = messages.findLast(({ role }) => role === "tool");
  assert.ok(said?.role === "tool", "the tool was not called");
  return JSON.parse(said.text) as Answer;
}

const daily = { action: "create", schedule: "every 1d", prompt: "sum up" };

test("the agent creates a job, which runs at its time", async () => {
  await using cron = await createRoom();
  const { success, job, notice } = await ask(cron, {
    ...daily,
    schedule: "every 1h",
    time_zone: "Europe/Berlin",
  });
  assert.equal(success, true);
  assert.equal(job["schedule"], "every 1h");
  assert.equal(job["next_run"], "2026-01-05 14:00:00 +01:00 (Europe/Berlin)");
  assert.equal(job["deliver"], "local");
  assert.match(notice ?? "", /No gateway is running/);
  await cron.advance(HOUR_MS);
  const [occurrence] = await cron.occurrences(job.id);
  assert.equal(occurrence?.status, "ok");
});

test("the tool has no notice about the gateway while a scheduler runs", async () => {
  await using cron = await createRoom();
  await new Heartbeat(cron.store).beat(START_MS);
  assert.equal((await ask(cron, daily)).notice, undefined);
});

test("the agent lists, shows, changes, pauses, resumes, runs and removes jobs by id or name", async () => {
  await using cron = await createRoom();
  const { job } = await ask(cron, { ...daily, name: "Digest" });
  const changed = await ask(cron, { action: "update", job: "digest", schedule: "every 2h", name: "Sums" });
  assert.deepEqual(
    [changed.job.id, changed.job["schedule"], changed.job["prompt"]],
    [job.id, "every 2h", "sum up"],
  );
  const paused = await ask(cron, { action: "pause", job: job.id, reason: "holidays" });
  assert.deepEqual(
    [paused.job["state"], paused.job["paused_reason"], paused.job["next_run"]],
    ["paused", "holidays", null],
  );
  assert.equal((await ask(cron, { action: "resume", job: "SUMS" })).job["state"], "scheduled");
  await ask(cron, { action: "run", job: job.id });
  await cron.tick();
  const { runs, job: seen } = await ask(cron, { action: "show", job: job.id });
  assert.equal(seen["last_status"], "ok");
  assert.deepEqual(
    runs.map(({ cause, status }) => [cause, status]),
    [["manual", "ok"]],
  );
  const { count, jobs } = await ask(cron, { action: "list" });
  assert.equal(count, 1);
  assert.deepEqual([jobs[0]?.id, jobs[0]?.["name"], jobs[0]?.["schedule"]], [job.id, "Sums", "every 2h"]);
  assert.equal(Object.keys(await cron.outputs(job.id)).length, 1);
  assert.equal((await ask(cron, { action: "remove", job: "sums" })).job["removed"], true);
  assert.deepEqual(await cron.outputs(job.id), {});
  assert.equal((await ask(cron, { action: "list" })).count, 0);
});

test("a refused action returns a sentence with what is valid", async () => {
  await using cron = await createRoom();
  await ask(cron, { ...daily, name: "twin" });
  await ask(cron, { ...daily, name: "Twin" });
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ ...daily, schedule: "30m" }, /use `every 30m` or `in 30m`/],
    [{ ...daily, schedule: "every 0m" }, /one minute/],
    [{ ...daily, schedule: "0 0 31 2 *" }, /never occurs/],
    [{ ...daily, schedule: "2020-01-01T00:00Z" }, /in the past/],
    [{ ...daily, time_zone: "Europe/Berln" }, /did you mean "Europe\/Berlin"/],
    [{ action: "create", prompt: "x" }, /is not a schedule/],
    [{ action: "create", schedule: "every 1h" }, /nothing to do/i],
    [{ ...daily, no_agent: true }, /needs a script/],
    [{ ...daily, deliver: "telegarm:1" }, /telegram/],
    [{ ...daily, context_from: ["nobody"] }, /No job matches "nobody"/],
    [{ ...daily, toolsets: ["wbe"] }, /Unknown toolset "wbe"/],
    [{ action: "pause" }, /needs job/],
    [{ action: "run", job: "nobody" }, /No job matches "nobody"/],
    [{ action: "remove", job: "twin" }, /twin/i],
  ];
  for (const [input, message] of cases) {
    const { success, error } = await ask(cron, input);
    assert.equal(success, false, JSON.stringify(input));
    assert.match(error ?? "", message);
  }
  assert.equal((await cron.jobs.list()).jobs.length, 2);
});

test("the agent cannot choose a model", async () => {
  await using cron = await createRoom();
  const { checkInput } = cron.agent.deps;
  const tool = createCronjob(cron.deps);
  assert.match(checkInput(tool, { ...daily, model: "demo:demo" }) ?? "", /model/);
  assert.match(checkInput(tool, { ...daily, provider: "demo" }) ?? "", /provider/);
  // Nor does the tool look at what slips through.
  const context = { runId: "run_none", cwd: cron.home } as never;
  const text = await tool.run({ ...daily, model: "demo:demo" } as never, context);
  assert.equal((JSON.parse(String(text)) as Answer).job["model"], null);
});

test("a job never gets toolsets that the run which creates it does not have", async () => {
  await using cron = await createRoom();
  const narrow = { input: { toolsets: ["cron", "web"] } };
  const refused = await ask(cron, { ...daily, toolsets: ["terminal"] }, narrow);
  assert.match(refused.error ?? "", /do not have the toolset "terminal"/);
  assert.deepEqual((await ask(cron, { ...daily, toolsets: ["web"] }, narrow)).job["toolsets"], ["web"]);
  assert.deepEqual((await ask(cron, daily, narrow)).job["toolsets"], ["web"]);
  assert.equal((await ask(cron, daily)).job["toolsets"], null);
});

test("a run without the terminal can neither add nor change a job's script", async () => {
  await using cron = await createRoom();
  await cron.write("scripts/report.sh", "echo secret figures");
  const narrow = { input: { toolsets: ["cron", "web"] } };
  const script = { script: "report.sh", no_agent: true };
  assert.match(
    (await ask(cron, { ...daily, ...script }, narrow)).error ?? "",
    /do not have the toolset terminal/,
  );
  const own = await ask(cron, daily, narrow);
  const update = { action: "update", job: own.job.id };
  assert.match((await ask(cron, { ...update, ...script }, narrow)).error ?? "", /toolset terminal/);
  const { id } = await cron.create({ script: "report.sh", toolsets: ["web"] });
  const turned = await ask(cron, { action: "update", job: id, deliver: "sms:+15550100" }, narrow);
  assert.match(turned.error ?? "", /toolset terminal/);
  assert.equal((await cron.job(id)).definition.deliver, "test");
  assert.equal((await ask(cron, { ...daily, ...script })).success, true);
});

test("a run with fewer toolsets cannot change a job with more", async () => {
  await using cron = await createRoom();
  const { id } = await cron.create({ prompt: "mine" });
  const narrow = { input: { toolsets: ["cron", "web"] } };
  const refused = await ask(cron, { action: "update", job: id, prompt: "rm everything" }, narrow);
  assert.match(refused.error ?? "", /has tools that you do not have \(terminal\)/);
  assert.equal((await cron.job(id)).definition.prompt, "mine");
  const own = await ask(cron, daily, narrow);
  assert.equal(
    (await ask(cron, { action: "update", job: own.job.id, prompt: "more" }, narrow)).success,
    true,
  );
});

test("the cron tool refuses a script outside the scripts folder, also through a link", async () => {
  await using cron = await createRoom();
  await cron.write("scripts/fine.sh", "echo hi");
  await cron.write("outside.sh", "echo bad");
  await symlink(join(cron.home, "outside.sh"), join(cron.home, "scripts", "link.sh"));
  for (const script of ["../outside.sh", join(cron.home, "outside.sh"), "link.sh", "/bin/sh"]) {
    assert.match(
      (await ask(cron, { ...daily, script })).error ?? "",
      /does not exist in <home>\/scripts/,
      script,
    );
  }
  assert.equal((await ask(cron, { ...daily, script: "fine.sh" })).job["script"], "fine.sh");
});

test("a job of the agent works in the workspace, or in the agent's own folder", async () => {
  await using cron = await createRoom();
  await mkdir(join(cron.home, "inside"));
  await symlink("/etc", join(cron.home, "inside", "link"));
  const etc = await realpath("/etc");
  for (const workdir of ["/etc", "/", join(cron.home, ".."), join(cron.home, "inside", "link")]) {
    assert.match((await ask(cron, { ...daily, workdir })).error ?? "", /folder in/, workdir);
  }
  assert.equal((await ask(cron, { ...daily, workdir: join(cron.home, "inside") })).success, true);
  assert.match((await ask(cron, { ...daily, workdir: join(cron.home, "none") })).error ?? "", /not a folder/);
  assert.equal((await ask(cron, { ...daily, workdir: etc }, { cwd: etc })).success, true);
});

test("a job of the agent may work in a configured workspace root", async () => {
  const etc = await realpath("/etc");
  await using cron = await createRoom({ workspaceRoots: [etc] });
  assert.equal((await ask(cron, { ...daily, workdir: etc })).success, true);
  assert.match((await ask(cron, { ...daily, workdir: "/" })).error ?? "", /agent\.workspace_roots/);
});

test("origin is the address at which the creating run answers", async () => {
  await using cron = await createRoom();
  const webhook = (...targets: string[]) => ({ delivery: { ref: "dlv_x", extra: {}, targets } });
  const made = await ask(cron, daily, webhook("local", "telegram:-100:17", "sms:+15550100"));
  assert.deepEqual([made.job["deliver"], made.job["origin"]], ["origin", "telegram:-100:17"]);
  const said = await ask(cron, { ...daily, deliver: "sms:+1,origin" }, webhook("telegram:-100"));
  assert.deepEqual([said.job["deliver"], said.job["origin"]], ["sms:+1,origin", "telegram:-100"]);
  for (const targets of [[], ["local"], ["log"], ["github_comment"], ["all"]]) {
    const { job } = await ask(cron, daily, webhook(...targets));
    assert.deepEqual([job["deliver"], job["origin"]], ["local", null], targets.join());
  }
});

test("a run of a job has no tool that creates jobs", async () => {
  const seen: (readonly string[])[] = [];
  await using cron = await createRoom({
    script: ({ tools }) => {
      seen.push(tools);
      return { text: "done" };
    },
  });
  await cron.create();
  await cron.advance(HOUR_MS);
  assert.deepEqual(seen, [["some_web", "some_terminal"]]);
});

test("with cron.allow_agent_scheduling a job's run creates jobs, and origin is where it answers", async () => {
  await using cron = await createRoom({ cron: { allowAgentScheduling: true } });
  const { id } = await cron.create({ prompt: JSON.stringify(daily), deliver: "telegram:-100" });
  await cron.advance(HOUR_MS);
  const made = (await cron.jobs.list()).jobs.find((job) => job.id !== id);
  assert.deepEqual([made?.definition.deliver, made?.definition.origin], ["origin", "telegram:-100"]);
});

test("reading needs no approval, and the title of a change describes the change", async () => {
  await using cron = await createRoom();
  const tool = createCronjob(cron.deps);
  const intent = (input: object): ToolIntent => tool.inspect(input as never, { cwd: "/" });
  assert.equal(intent({ action: "list" }).effect, "none");
  assert.equal(intent({ action: "show", job: "x" }).effect, "none");
  const long = `look at\n${"everything ".repeat(50)}`;
  const made = intent({ ...daily, prompt: long, deliver: "sms:+1", script: "a.sh", workdir: "/srv" });
  assert.equal(made.effect, "unknown");
  assert.match(
    made.title,
    /^Schedule: every 1d; to sms:\+1; script a\.sh; in \/srv: look at (everything ){40}/,
  );
  for (const action of ["update", "pause", "resume", "remove", "run"]) {
    const { effect, title } = intent({ action, job: "tea", prompt: "brew" });
    assert.equal(effect, "unknown");
    assert.match(title, /job tea/);
  }
});

test("an approval request hides neither targets, nor skills, nor the end of a prompt", async () => {
  await using cron = await createRoom();
  const titleOf = (input: object): string =>
    createCronjob(cron.deps).inspect(input as never, { cwd: "/" }).title;
  const targets = [
    "local",
    ...Array.from({ length: 8 }, (_, at) => `telegram:-100${at}0000000`),
    "sms:+15550100",
  ];
  const input = { ...daily, deliver: targets.join(","), skills: ["news"], context_from: ["payroll"] };
  assert.match(titleOf(input), /sms:\+15550100; .*skills news; with the outputs of payroll: /);
  assert.match(
    titleOf({ ...daily, prompt: `Sum up. ${"Be kind. ".repeat(60)}Then send all.` }),
    /Then send all\.$/,
  );
  assert.match(titleOf({ ...daily, prompt: "a".repeat(1_010) }), /\.\.\. \(10 more characters\)$/);
  assert.doesNotMatch(titleOf({ ...daily, prompt: "a\u202eb\u200b" }), /\p{Cf}/u);
});

test("a remembered approval covers the same job input and no other", async () => {
  await using cron = await createRoom();
  const signature = (input: object): string => {
    const tool = createCronjob(cron.deps);
    const intent = tool.inspect(input as never, { cwd: "/" });
    return decide(intent, { mode: "ask", workspace: "/", home: "/home" } as never, "cronjob").signature;
  };
  assert.equal(signature(daily), signature({ ...daily }));
  const others = [{ prompt: "send all" }, { deliver: "sms:+1" }, { schedule: "every 1m" }];
  for (const other of others) assert.notEqual(signature(daily), signature({ ...daily, ...other }));
  assert.notEqual(signature({ action: "run", job: "a" }), signature({ action: "run", job: "b" }));
});

test("the agent creates a job only after a person approves it", async () => {
  await using cron = await createRoom({ settings: { policyMode: "ask" } });
  const run = await cron.agent.submit(JSON.stringify(daily), { answerable: false });
  await cron.agent.events(run.runId);
  assert.deepEqual((await cron.jobs.list()).jobs, []);
  const asked = await cron.agent.submit(JSON.stringify(daily), { answerable: true });
  const question = await cron.agent.event(asked.runId, "approval.request");
  assert.match(JSON.stringify(question.data), /Schedule: every 1d: sum up/);
  assert.deepEqual((await cron.jobs.list()).jobs, []);
  const answer = { owner: "tester", by: "test", choice: "once" };
  await cron.agent.deps.questions.answer(String(question.data["request_id"]), answer as never);
  await cron.agent.events(asked.runId);
  assert.equal((await cron.jobs.list()).jobs.length, 1);
});

test("the tool names broken rows, cuts long prompts and redacts secrets", async () => {
  await using cron = await createRoom();
  const secret = "sk-proj-0123456789abcdefghijklmnop";
  const broken = await cron.create({ name: "broken" });
  await cron.store.write((tx) => tx.update("cron_jobs", { id: broken.id }, { definition: "{" }));
  const { job } = await ask(cron, { ...daily, prompt: `${secret} ${"x".repeat(20_000)}` });
  const shown = await ask(cron, { action: "show", job: job.id });
  assert.ok(JSON.stringify(shown).length < 8_000);
  const listed = await ask(cron, { action: "list" });
  assert.deepEqual(
    listed.broken?.map(({ id }) => id),
    [broken.id],
  );
  assert.doesNotMatch(JSON.stringify([shown, listed]), /sk-proj/);
  const cut = await ask(cron, { ...daily, prompt: `${"x".repeat(3_990)} ${secret}` });
  assert.doesNotMatch(JSON.stringify(cut), /sk-proj/);
});
