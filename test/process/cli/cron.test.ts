import assert from "node:assert/strict";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { definition } from "../../harness/cron.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { addRun, entryOf, idIn, openCronPlace, piped } from "./cron-place.ts";

const NO_GATEWAY = /Warning: No scheduler is running: jobs run while `agentd gateway` runs/;

describe("agentd cron create", () => {
  it("works in a fresh home: creates the database and warns that jobs do not run without a gateway", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home };
    const created = await keptAgentd(["cron", "create", "every 2h", "Look around."], env);
    assert.equal(created.code, 0, created.stderr);
    assert.match(
      created.stdout,
      /^Created job: [0-9a-f]{12}\n {2}Name: +Look around\.\n {2}Schedule: every 2h\n {2}Next run: \d{4}-\d\d-\d\d [\d:]{8} [+-]\d\d:\d\d \([^)]+\)\n$/,
    );
    assert.match(created.stderr, NO_GATEWAY);
    const listed = await keptAgentd(["cron", "list", "--json"], env);
    const { jobs, count } = entryOf<{ readonly jobs: readonly { readonly id: string }[]; count: number }>(
      listed,
    );
    assert.deepEqual([jobs.map(({ id }) => id), count], [[idIn(created)], 1]);
  });

  it("commands that need a job create no home, and say how to create a job", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home };
    for (const words of [
      ["pause", "x"],
      ["resume", "x"],
      ["run", "x"],
      ["edit", "x", "--name", "y"],
      ["remove", "x", "--yes"],
    ]) {
      const { code, stderr } = await keptAgentd(["cron", ...words], env);
      assert.equal(code, 1);
      assert.match(
        stderr,
        /^Failed to \w+ job: No jobs exist yet\. Create one with `agentd cron create`\.$/m,
      );
    }
    assert.deepEqual(
      (await readdir(made.home)).filter((name) => name.startsWith("state.db")),
      [],
    );
  });

  it("takes every option of a job, and prints it as JSON with --json", async (t) => {
    const place = await openCronPlace(t);
    await place.beat();
    await mkdir(join(place.home, "scripts"));
    await writeFile(join(place.home, "scripts", "x.sh"), "echo hi");
    await addSkills(place.home, "one", "two");
    const unknown = await place.cron("create", "every 1d", "hi", "--skill", "onw");
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /Unknown skill "onw"\. Known: .*one.*two/);
    const other = await place.jobs.create(definition({ name: "Other" }));
    const words = [
      ["create", "0 9 * * 1-5", "Sum up.", "--name", "News", "--deliver", "local, telegram:-1001:17"],
      ["--deliver", "sms:+15550100", "--failure-deliver", "email:ops@example.org", "--repeat", "3"],
      ["--skill", "one", "--skill", "two", "--script", "x.sh", "--context-from", "other"],
      ["--workdir", place.home, "--model", "demo", "--provider", "demo", "--reasoning-effort", "high"],
      ["--toolsets", "web,files", "--tz", "Asia/Tokyo", "--no-catch-up", "--grace", "90"],
      ["--overlap", "allow", "--jitter", "30", "--token-budget", "5000", "--inactivity", "0"],
      ["--paused", "--paused-reason", "not yet", "--json"],
    ].flat();
    const created = await place.cron(...words);
    assert.equal(created.code, 0, created.stderr);
    assert.doesNotMatch(created.stderr, NO_GATEWAY);
    const { job } = entryOf<{ readonly job: Readonly<Record<string, unknown>> }>(created);
    const expected = {
      name: "News",
      state: "paused",
      schedule: "0 9 * * 1-5",
      schedule_kind: "cron",
      time_zone: "Asia/Tokyo",
      repeat: { times: 3, completed: 0 },
      prompt: "Sum up.",
      skills: ["one", "two"],
      script: "x.sh",
      no_agent: false,
      context_from: [other.id],
      deliver: "local, telegram:-1001:17, sms:+15550100",
      failure_deliver: "email:ops@example.org",
      origin: null,
      workdir: place.home,
      model: "demo:demo",
      reasoning_effort: "high",
      toolsets: ["web", "files"],
      token_budget: 5_000,
      inactivity_seconds: 0,
      catch_up: false,
      misfire_grace_seconds: 90,
      overlap: "allow",
      jitter_seconds: 30,
      paused_reason: "not yet",
    };
    assert.deepEqual(Object.fromEntries(Object.keys(expected).map((key) => [key, job[key]])), expected);
    assert.equal(Number(job["next_run_at"]) % 86_400, 0, "09:00 in Tokyo is midnight in UTC");
  });

  it("reads the prompt from standard input with -", async (t) => {
    const place = await openCronPlace(t);
    const { code, stdout } = await piped(place, ["create", "every 1h", "-"], "Many\nlines.\n");
    assert.equal(code, 0);
    assert.match(stdout, /^ {2}Name: +Many lines\.$/m);
    const { jobs } = await place.jobs.list();
    assert.equal(jobs[0]?.definition.prompt, "Many\nlines.");
    const empty = await piped(place, ["create", "every 1h", "-"], "\n");
    assert.equal(empty.code, 2);
    assert.match(empty.stderr, /^Standard input is empty\./);
  });

  it("rejects invalid jobs with `Failed to create job:` and exit code 1, and creates nothing", async (t) => {
    const place = await openCronPlace(t);
    const refused: readonly (readonly [readonly string[], RegExp])[] = [
      [["30m", "x"], /use `every 30m` or `in 30m`/],
      [["every 1h"], /set a prompt, a skill or a script/],
      [["every 1h", "x", "--tz", "Europe/Berln"], /did you mean "Europe\/Berlin"/],
    ];
    for (const [words, text] of refused) {
      const { code, stdout, stderr } = await place.cron("create", ...words);
      assert.deepEqual([code, stdout], [1, ""], words.join(" "));
      assert.match(stderr, /^Failed to create job: /);
      assert.match(stderr, text);
    }
    assert.deepEqual(await place.jobs.list({ withOver: true }), { jobs: [], broken: [] });
  });

  it("rejects usage errors with exit code 2, and creates no home", async () => {
    await using made = await createHome();
    const home = join(made.home, "new");
    for (const [words, text] of [
      [["create"], /<schedule> is missing/],
      [
        ["create", "every 1h", "x", "--catch-up", "--no-catch-up"],
        /--catch-up and --no-catch-up cannot be combined/,
      ],
      [["edit", "x"], /No changes/],
      [["resume", "x", "--run-now", "--at", "in 5m"], /cannot be combined/],
      [["lst"], /Unknown command "lst"; did you mean "list"/],
    ] as const) {
      const refused = await keptAgentd(["cron", ...words], { AGENTD_HOME: home });
      assert.equal(refused.code, 2, words.join(" "));
      assert.match(refused.stderr, text);
    }
    assert.deepEqual(await readdir(made.home), []);
  });

  it("warns that origin is only a file for a job that no chat created", async (t) => {
    const place = await openCronPlace(t);
    const { code, stderr } = await place.cron("create", "every 1h", "x", "--deliver", "origin");
    assert.equal(code, 0, stderr);
    assert.match(stderr, /^Warning: no chat created this job, so `origin` is `local`/m);
  });

  it("warns about a platform that is not set up, and creates the job", async (t) => {
    const place = await openCronPlace(t);
    const { code, stderr } = await place.cron("create", "every 1h", "x", "--deliver", "slack,local");
    assert.equal(code, 0);
    assert.match(stderr, /^Warning: Slack is not configured/m);
  });
});

describe("agentd cron edit, pause, resume, run and remove", () => {
  it("pauses, resumes and runs a job by id or name, and refuses ambiguous names and runs of finished jobs", async (t) => {
    const place = await openCronPlace(t);
    await place.beat();
    const job = await place.jobs.create(definition({ name: "Tea time" }));
    const called = `Tea time (${job.id})`;
    const paused = await place.cron("pause", "TEA TIME", "--reason", "holiday");
    assert.deepEqual([paused.code, paused.stdout], [0, `Paused job: ${called}\n`]);
    assert.equal((await place.jobs.find(job.id)).pausedReason, "holiday");
    const resumed = await place.cron("resume", job.id);
    assert.match(resumed.stdout, new RegExp(`^Resumed job: Tea time \\(${job.id}\\)\n {2}Next run: `));
    const run = await place.cron("run", "tea time");
    assert.deepEqual([run.code, run.stdout, run.stderr], [0, `Triggered job: ${called}\n`, ""]);
    assert.notEqual((await place.jobs.find(job.id)).manualAtMs, undefined);

    const twin = await place.jobs.create(definition({ name: "tea TIME" }));
    const ambiguous = await place.cron("pause", "tea time");
    assert.deepEqual([ambiguous.code, ambiguous.stdout], [1, ""]);
    assert.match(ambiguous.stderr, /^Failed to pause job: /);
    assert.ok(ambiguous.stderr.includes(job.id) && ambiguous.stderr.includes(twin.id), ambiguous.stderr);

    await place.store.write((tx) => tx.update("cron_jobs", { id: twin.id }, { state: "completed" }));
    const terminal = await place.cron("run", twin.id);
    assert.equal(terminal.code, 1);
    assert.match(terminal.stderr, /^Failed to run job: .*is completed/);
    assert.match((await place.cron("resume", "nobody")).stderr, /^Failed to resume job: /);
  });

  it("remove deletes the folder of outputs and the history", async (t) => {
    const place = await openCronPlace(t);
    const job = await place.jobs.create(definition({ name: "Tea" }));
    await addRun(place.store, job);
    const folder = join(place.home, "cron", "output");
    await mkdir(join(folder, job.id), { recursive: true });
    await writeFile(join(folder, job.id, "2026-01-05_12-00-00.md"), "x");
    const unknown = await place.cron("remove", "nosuch");
    assert.equal(unknown.code, 1, "it looks before it asks");
    assert.match(unknown.stderr, /nosuch/);
    const asked = await place.cron("remove", "tea");
    assert.equal(asked.code, 2);
    assert.match(asked.stderr, /Pass --yes to remove the job/);
    const removed = await place.cron("delete", "tea", "-y", "--json");
    assert.deepEqual(entryOf(removed), { removed: { id: job.id, name: "Tea" } });
    assert.deepEqual(await readdir(folder), []);
    assert.equal(await place.store.find("occurrences", { job_id: job.id }), undefined);
  });

  it("edit changes the given options, clears empty ones, and keeps the rest", async (t) => {
    const place = await openCronPlace(t);
    await addSkills(place.home, "three");
    const made = definition({
      name: "Tea",
      skills: ["one", "two"],
      failureDeliver: "local",
      jitterSeconds: 5,
    });
    const job = await place.jobs.create(made);
    const words = [
      ["edit", "tea", "--schedule", "weekdays at 9am", "--tz", "Asia/Tokyo", "--add-skill", "three"],
      ["--remove-skill", "one", "--failure-deliver", "", "--jitter", "", "--catch-up"],
    ].flat();
    const edited = await place.cron(...words);
    assert.equal(edited.code, 0, edited.stderr);
    assert.match(edited.stdout, new RegExp(`^Updated job: Tea \\(${job.id}\\)\n`));
    const { definition: after, nextRunAtMs } = await place.jobs.find(job.id);
    const { failureDeliver: _, ...kept } = made;
    assert.deepEqual(after, {
      ...kept,
      schedule: { kind: "cron", expression: "0 9 * * 1-5" },
      zone: "Asia/Tokyo",
      skills: ["two", "three"],
      jitterSeconds: 0,
      catchUp: true,
    });
    assert.equal(new Date(nextRunAtMs ?? 0).toISOString().slice(11), "00:00:00.000Z");
    assert.equal((await place.cron("edit", "tea", "--clear-skills", "--name", "Coffee")).code, 0);
    assert.deepEqual((await place.jobs.find("coffee")).definition.skills, []);
    const refused = await place.cron("edit", "coffee", "--prompt", "");
    assert.match(refused.stderr, /^Failed to edit job: .*set a prompt, a skill or a script/);
  });

  it("resume --at accepts a single time in the job's zone", async (t) => {
    const place = await openCronPlace(t);
    await place.jobs.create(definition({ name: "Tea", zone: "Asia/Tokyo" }), { isPaused: true });
    const again = await place.cron("resume", "tea", "--at", "every 1h");
    assert.match(again.stderr, /^Failed to resume job: The time must be a single one/);
    const day = new Date(Date.now() + 172_800_000).toISOString().slice(0, 10);
    const resumed = await place.cron("resume", "tea", "--at", `${day}T09:00`);
    assert.match(resumed.stdout, new RegExp(`Next run: ${day} 09:00:00 \\+09:00 \\(Asia/Tokyo\\)`));
  });

  it("run prints a hint when no gateway ticks, and does not wait for one", async (t) => {
    const place = await openCronPlace(t);
    await place.jobs.create(definition({ name: "Tea" }));
    const { code, stdout, stderr } = await place.cron("run", "tea", "--wait");
    assert.equal(code, 1);
    assert.match(stdout, /^Triggered job: Tea/);
    assert.match(stderr, /^Warning: no gateway is running\. Run the job with `agentd cron tick`\./);
  });
});

async function addSkills(home: string, ...names: readonly string[]): Promise<void> {
  for (const name of names) {
    await mkdir(join(home, "skills", name), { recursive: true });
    const skill = `---\nname: ${name}\ndescription: About ${name}\n---\nText.\n`;
    await writeFile(join(home, "skills", name, "SKILL.md"), skill);
  }
}
