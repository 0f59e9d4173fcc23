/** Jobs of the clock from end to end: real processes, the demo model, files in the home. */
import assert from "node:assert/strict";
import { mkdir, readFile, readdir, watch, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { openStore } from "../../../src/store/open.ts";
import { createGatewayPlace, type GatewayPlace } from "../../harness/gateway.ts";
import type { Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";

/** `agentd cron` in the home of the place; it must work. */
async function cron({ home, database }: GatewayPlace, ...words: string[]): Promise<Outcome> {
  const outcome = await keptAgentd(["cron", ...words], { AGENTD_HOME: home, AGENTD_DATABASE_URL: database });
  assert.equal(outcome.code, 0, `${words.join(" ")}: ${outcome.stdout}${outcome.stderr}`);
  return outcome;
}

async function create(place: GatewayPlace, ...words: string[]): Promise<string> {
  const { stdout } = await cron(place, "create", ...words);
  return /^Created job: ([0-9a-f]{12})$/m.exec(stdout)?.[1] ?? assert.fail(stdout);
}

async function outputs(place: GatewayPlace, id: string): Promise<readonly string[]> {
  return (await readdir(join(place.home, "cron", "output", id)).catch(() => [])).filter((name) =>
    name.endsWith(".md"),
  );
}

/** The first output of a job that has none yet, as soon as its file is there. */
async function firstOutput(place: GatewayPlace, id: string, withinMs: number): Promise<string> {
  const folder = join(place.home, "cron", "output", id);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const changes = watch(folder, { signal: AbortSignal.timeout(withinMs) });
  const changed = changes[Symbol.asyncIterator]();
  for (;;) {
    // Asked before the folder is read, so that no change falls between the two.
    const next = changed.next();
    const [name] = await outputs(place, id);
    if (name !== undefined) {
      next.catch(() => {});
      void changed.return?.();
      return readFile(join(folder, name), "utf8");
    }
    await next;
  }
}

test("a job created beside a running gateway runs there when it is due, repeatedly", async () => {
  await using place = await createGatewayPlace();
  await using gateway = await running(place);
  const id = await create(place, "every 1m", "run: echo from-the-clock", "--deliver", "local");
  const { job: created } = await shown(place, id);
  const inMs = created.next_run_at * 1000 - Date.now();
  assert.ok(inMs > 0 && inMs <= 60_000, `it runs in ${inMs} ms`);
  await moveTo(place, id, Date.now() + 2_000);
  const output = await firstOutput(place, id, 70_000);
  assert.match(output, new RegExp(`^\\*\\*Job ID:\\*\\* ${id}$`, "m"));
  assert.match(output, /^## Response$[\s\S]*from-the-clock/m);
  const { job } = await shown(place, id);
  assert.ok(job.next_run_at * 1000 > Date.now(), String(job.next_run_at));
  assert.equal(await gateway.kill("SIGTERM"), 0);
});

async function shown(place: GatewayPlace, id: string) {
  const { stdout } = await cron(place, "show", id, "--json");
  return JSON.parse(stdout) as { readonly job: { readonly next_run_at: number } };
}

/** Moves a job's next run, which nobody wants to wait for. */
async function moveTo({ database }: GatewayPlace, id: string, atMs: number): Promise<void> {
  const store = await openStore({ url: database });
  try {
    const set = { next_run_at: atMs, due_at: atMs };
    await store.write((tx) => tx.db.updateTable("cron_jobs").set(set).where("id", "=", id).execute());
  } finally {
    await store.close();
  }
}

test(
  "a run by hand, a script, a skill, a pause and a restart of the gateway",
  { timeout: 180_000 },
  async () => {
    await using place = await createGatewayPlace();
    await mkdir(join(place.home, "scripts"));
    await writeFile(join(place.home, "scripts", "hello.sh"), "echo hello from the script\n", { mode: 0o700 });
    await mkdir(join(place.home, "skills", "greet"), { recursive: true });
    const skill = "---\nname: greet\ndescription: Greets\n---\nGreet warmly.\n";
    await writeFile(join(place.home, "skills", "greet", "SKILL.md"), skill);
    const first = await place.start();

    const agentJob = await create(
      place,
      "every 1d",
      "Say hello.",
      "--skill",
      "greet",
      "--script",
      "hello.sh",
    );
    const ran = await cron(place, "run", agentJob, "--wait");
    assert.match(
      ran.stdout,
      /^Triggered job: Say hello\. .*\n {2}Outcome: ok after [\d.]+ s\n {2}Output: +.+\n\n\[demo model\][\s\S]*You said: "Say hello\."/,
    );
    const [name] = await outputs(place, agentJob);
    const text = await readFile(join(place.home, "cron", "output", agentJob, name ?? ""), "utf8");
    assert.match(text, /^## Response$[\s\S]*You said: "Say hello\."/m);

    const scriptJob = await create(
      place,
      "0 3 * * *",
      "--script",
      "hello.sh",
      "--no-agent",
      "--name",
      "plain",
    );
    await cron(place, "pause", "plain", "--reason", "later");
    assert.equal(await first.kill("SIGTERM"), 0);
    const second = await place.start();
    const paused = JSON.parse((await cron(place, "run", scriptJob, "--wait", "--json")).stdout) as {
      readonly output: string;
      readonly answer: string;
      readonly run: { readonly status: string; readonly cause: string };
    };
    assert.equal(paused.answer, "hello from the script");
    assert.deepEqual([paused.run.status, paused.run.cause], ["ok", "manual"]);
    assert.match(
      await readFile(join(place.home, paused.output), "utf8"),
      /^## Response$\s+hello from the script$/m,
    );
    const { job } = JSON.parse((await cron(place, "show", "plain", "--json")).stdout) as {
      readonly job: { readonly state: string; readonly last_status: string; readonly paused_reason: string };
    };
    assert.deepEqual([job.state, job.last_status, job.paused_reason], ["paused", "ok", "later"]);
    assert.match((await cron(place, "resume", "plain")).stdout, /Next run: \d{4}-/);
    const status = JSON.parse((await cron(place, "status", "--json")).stdout) as {
      readonly state: string;
    };
    assert.equal(status.state, "ticking");
    await cron(place, "edit", "plain", "--deliver", "all");
    const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
    const lost = await keptAgentd(["cron", "run", "plain", "--wait"], env);
    assert.match(
      lost.stdout,
      /Outcome: ok after [\d.]+ s; its message failed: all: No platform has a home channel/,
    );
    assert.equal(lost.code, 1);
    assert.equal(await second.kill("SIGTERM"), 0);
  },
);

test("`cron tick` beside a running gateway runs each due job once", { timeout: 180_000 }, async () => {
  await using place = await createGatewayPlace();
  const store = await openStore({ url: place.database });
  try {
    const ids: string[] = [];
    for (const name of ["a", "b", "c"])
      ids.push(await create(place, "every 1d", `Say ${name}.`, "--name", name));
    await using gateway = await running(place);
    // Both find the same jobs due: the rows are what people's `run` writes, all at once.
    const at = Date.now();
    await store.write((tx) =>
      tx.db.updateTable("cron_jobs").set({ manual_at: at, due_at: at }).where("id", "in", ids).execute(),
    );
    const ticked = JSON.parse((await cron(place, "tick", "--json")).stdout) as {
      readonly runs: readonly { readonly job_id: string; readonly status: string }[];
    };
    assert.ok(ticked.runs.every(({ status }) => status === "ok"));
    for (const id of ids) await firstOutput(place, id, 30_000);
    const rows = await store.read.selectFrom("occurrences").select(["job_id", "status"]).execute();
    assert.deepEqual(rows.map(({ job_id }) => job_id).toSorted(), ids.toSorted());
    assert.equal(await gateway.kill("SIGTERM"), 0);
  } finally {
    await store.close();
  }
});

test(
  "`cron tick` without a gateway runs each due job once, and prints what ran",
  { timeout: 180_000 },
  async () => {
    await using place = await createGatewayPlace();
    const id = await create(place, "every 1d", "Say hello.", "--name", "tea");
    const [idle, asked] = [await cron(place, "tick"), await cron(place, "run", "tea")];
    assert.equal(idle.stdout, "Nothing was due.\n");
    assert.match(asked.stderr, /Run the job with `agentd cron tick`/);
    const { stdout } = await cron(place, "tick");
    const [file] = await outputs(place, id);
    const path = join(place.home, "cron", "output", id, file ?? "");
    assert.match(
      stdout,
      new RegExp(`^Ran 1 job:\n {2}tea \\(${id}\\): ok after [\\d.]+ s\n {4}(.*)${file}\n$`),
    );
    assert.match(await readFile(path, "utf8"), /You said: "Say hello\."/);
    assert.equal((await cron(place, "tick")).stdout, "Nothing was due.\n");
  },
);

async function running(place: GatewayPlace) {
  const gateway = await place.start();
  return { kill: gateway.kill, [Symbol.asyncDispose]: async () => void (await gateway.kill("SIGKILL")) };
}
