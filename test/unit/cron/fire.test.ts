import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { ScriptState } from "../../../src/agent/engines/scripted.ts";
import { createModelCatalog } from "../../../src/agent/model.ts";
import type { RunInput } from "../../../src/agent/run/run.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { claimDue, type Claimed } from "../../../src/cron/tick/claim.ts";
import { fire } from "../../../src/cron/run/fire.ts";
import type { CronDeps } from "../../../src/cron/deps.ts";
import type { Store } from "../../../src/store/store.ts";
import type { OccurrenceRow } from "../../../src/store/schema/tables.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createTestCron, type TestCron } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;

/** Makes a job and claims its first instant, which nothing runs yet. */
async function claimOf(cron: TestCron, parts: Parameters<TestCron["create"]>[0] = {}): Promise<Claimed> {
  const { id } = await cron.create(parts);
  cron.clock.tick(HOUR_MS);
  const { store, homes, settings } = cron.deps;
  const planOptions = { homes, settings };
  const round = await store.write((tx) =>
    claimDue(tx, { store, settings, planOptions, limit: 1, jobId: id }),
  );
  const [claimed] = round.claimed;
  assert.ok(claimed);
  return claimed;
}

/** Runs a claim, and sends what comes of it. */
async function fired(cron: TestCron, claimed: Claimed, deps: Partial<CronDeps> = {}): Promise<void> {
  await fire({ ...cron.deps, ...deps }, claimed);
  await cron.sentAll();
}

async function rowOf(cron: TestCron, { occurrence }: Claimed): Promise<OccurrenceRow> {
  const row = await cron.store.find("occurrences", { id: occurrence.id });
  assert.ok(row);
  return row;
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const draining: CronDeps["runs"] = {
  draining: true,
  submit: () => Promise.reject(new ServiceError("server_draining", "The server is shutting down.")),
};

async function openCron() {
  const asked: ScriptState[] = [];
  const cron = await createTestCron({
    script: (state) => {
      asked.push(state);
      return { text: "done" };
    },
  });
  await cron.write("scripts/note.sh", "echo ran > note; echo noted");
  return { cron, asked, note: join(cron.home, "scripts", "note") };
}

test("a claim that another process holds runs neither script nor agent", async () => {
  for (const parts of [{}, { script: "note.sh" }, { script: "note.sh", isScriptOnly: true }]) {
    const { cron: opened, asked, note } = await openCron();
    await using cron = opened;
    const claimed = await claimOf(cron, parts);
    const { id } = claimed.occurrence;
    await cron.store.write((tx) => tx.update("occurrences", { id }, { lease_owner: "another:1:x" }));
    const before = await rowOf(cron, claimed);
    await fired(cron, claimed);
    assert.deepEqual(await rowOf(cron, claimed), before);
    assert.equal(asked.length, 0);
    assert.equal(await isThere(note), false);
    assert.deepEqual(cron.sent, []);
  }
});

test("an occurrence that ended meanwhile is not run", async () => {
  const { cron: opened, asked, note } = await openCron();
  await using cron = opened;
  const claimed = await claimOf(cron, { script: "note.sh" });
  const { id } = claimed.occurrence;
  await cron.store.write((tx) => tx.update("occurrences", { id }, { status: "skipped", ended_at: tx.nowMs }));
  await fired(cron, claimed);
  assert.equal(asked.length, 0);
  assert.equal(await isThere(note), false);
});

test("a blocked job is not reported when another process holds the claim", async () => {
  const { cron: opened } = await openCron();
  await using cron = opened;
  const claimed = await claimOf(cron, { workdir: "/nowhere" });
  const { id } = claimed.occurrence;
  await cron.store.write((tx) => tx.update("occurrences", { id }, { lease_owner: "another:1:x" }));
  await fired(cron, claimed);
  assert.equal((await rowOf(cron, claimed)).status, "claimed");
  assert.deepEqual(cron.sent, []);
});

test("a process that shuts down releases its claim, and another process runs it once", async () => {
  for (const parts of [{}, { script: "note.sh" }]) {
    const { cron: opened, asked, note } = await openCron();
    await using cron = opened;
    const claimed = await claimOf(cron, parts);
    await fired(cron, claimed, { runs: draining });
    const row = await rowOf(cron, claimed);
    assert.equal(row.status, "claimed");
    assert.equal(row.lease_owner, null);
    assert.equal(row.run_id, null);
    assert.equal(await isThere(note), false);
    await using other = await createTestCron({ like: cron });
    other.clock.tick(60_000);
    await other.tick();
    assert.equal((await rowOf(cron, claimed)).status, "ok");
    assert.equal((await cron.occurrences()).length, 1);
    assert.equal(asked.length, 0);
  }
});

test("a shutdown after the script is reported, and the script does not run again", async () => {
  const { cron: opened, asked, note } = await openCron();
  await using cron = opened;
  const claimed = await claimOf(cron, { script: "note.sh" });
  const runs = { ...draining, draining: false };
  await fired(cron, claimed, { runs });
  const row = await rowOf(cron, claimed);
  assert.ok(await isThere(note));
  assert.equal(row.status, "failed");
  assert.match(row.reason ?? "", /shut down after the script/);
  assert.equal(cron.sent.length, 1);
  assert.equal(asked.length, 0);
});

test("a job waits while too many runs are active", async () => {
  const { cron: opened, asked } = await openCron();
  await using cron = opened;
  const claimed = await claimOf(cron);
  let refusals = 0;
  const refused = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { runs } = cron.agent;
  const busy: CronDeps["runs"] = {
    draining: false,
    submit: (prompt) => {
      const refusal = refused[refusals];
      if (!refusal) return runs.submit(prompt);
      refusals++;
      // The waiting begins behind the rejection.
      setTimeout(() => refusal.resolve(), 0);
      return Promise.reject(
        new ServiceError("too_many_concurrent_runs", "Too many.", { retryAfterSeconds: 7 }),
      );
    },
  };
  const done = fired(cron, claimed, { runs: busy });
  for (const { promise } of refused) {
    await promise;
    assert.equal((await rowOf(cron, claimed)).status, "claimed");
    cron.clock.tick(7_000);
  }
  await done;
  assert.equal(asked.length, 1);
  assert.equal((await rowOf(cron, claimed)).status, "ok");
});

test("jobs over the concurrency limit wait in the store, and every one runs", async () => {
  let runningCount = 0;
  let most = 0;
  await using cron = await createTestCron({
    settings: { maxConcurrentRuns: 1 },
    script: async () => {
      most = Math.max(most, ++runningCount);
      await new Promise((resolve) => setTimeout(resolve, 5));
      runningCount--;
      return { text: "done" };
    },
  });
  for (let index = 0; index < 5; index++) await cron.create({ name: `job ${index}` });
  await cron.advance(HOUR_MS);
  const statuses = (await cron.occurrences()).map(({ status }) => status);
  assert.deepEqual(statuses, ["ok", "ok", "ok", "ok", "ok"]);
  assert.equal(most, 1);
});

test("`fire` never rejects, and releases its permit after any failure", async () => {
  {
    const { cron: opened } = await openCron();
    await using cron = opened;
    const claimed = await claimOf(cron);
    const runs = { draining: false, submit: () => Promise.reject(new Error("sk-ant-0123456789abcdef0123")) };
    await fired(cron, claimed, { runs });
    const row = await rowOf(cron, claimed);
    assert.equal(row.status, "failed");
    assert.doesNotMatch(`${row.reason}`, /sk-ant/);
  }
  for (const parts of [{}, { script: "note.sh" }]) {
    const { cron: opened } = await openCron();
    await using cron = opened;
    const claimed = await claimOf(cron, parts);
    const gone = () => Promise.reject(new ServiceError("state_store_unavailable", "It is gone."));
    const store = Object.assign(Object.create(cron.store) as CronDeps["store"], { write: gone });
    await fired(cron, claimed, { store, runs: { draining: false, submit: gone } });
    assert.equal((await rowOf(cron, claimed)).status, "claimed");
  }
  {
    const { cron: opened } = await openCron();
    await using cron = opened;
    await cron.create({ workdir: "/nowhere" });
    await cron.create({ script: "note.sh", isScriptOnly: true });
    await cron.create();
    await cron.advance(HOUR_MS);
    assert.equal(cron.ticker.runningCount, 0);
  }
});

test("a script that ends after its claim was lost reports nothing", async () => {
  const { cron: opened } = await openCron();
  await using cron = opened;
  const claimed = await claimOf(cron, { script: "note.sh", isScriptOnly: true });
  const { id } = claimed.occurrence;
  const find: CronDeps["store"]["write"] = async (work, options) => {
    const value = await cron.store.write(work, options);
    await cron.store.write((tx) => tx.update("occurrences", { id }, { lease_owner: "another:1:x" }));
    return value;
  };
  const store = Object.assign(Object.create(cron.store) as CronDeps["store"], { write: find });
  await fired(cron, claimed, { store });
  assert.equal((await rowOf(cron, claimed)).status, "running");
  assert.deepEqual(cron.sent, []);
});

test("a run has the model, effort, folder and limits of its job, or else the configured ones", async () => {
  const { cron: opened } = await openCron();
  await using cron = opened;
  const provider = { name: "openai", type: "openai", models: ["gpt-x"], hasKey: true };
  const models = createModelCatalog({ providers: [provider], defaultModel: "demo:demo" });
  const settings = { ...cron.deps.settings, runTokenBudget: 500, inactivityMs: 600_000 };
  const submitted = async (parts: Parameters<TestCron["create"]>[0]) => {
    const claimed = await claimOf(cron, parts);
    let prompt: Parameters<CronDeps["runs"]["submit"]>[0] | undefined;
    const submit: CronDeps["runs"]["submit"] = (each) => {
      prompt = each;
      return Promise.reject(new ServiceError("server_draining", "Enough."));
    };
    await fired(cron, claimed, { models, settings, runs: { draining: false, submit } });
    assert.ok(prompt);
    return prompt;
  };
  const input = async (parts: Parameters<TestCron["create"]>[0]) => {
    const { input: all, model, seed } = await submitted(parts);
    const { inactivityMs, tokenBudget, settings: of, answerable, slot } = all as RunInput;
    return { inactivityMs, tokenBudget, of, answerable, slot, model, cwd: seed.cwd };
  };
  const slot = { group: "cron" };
  assert.deepEqual(await input({}), {
    inactivityMs: 600_000,
    tokenBudget: 500,
    of: {},
    answerable: false,
    slot,
    model: undefined,
    cwd: undefined,
  });
  const own = {
    model: "gpt-x",
    reasoningEffort: "high",
    workdir: cron.home,
    tokenBudget: 7,
    inactivitySeconds: 0,
  };
  assert.deepEqual(await input(own), {
    inactivityMs: 0,
    tokenBudget: 7,
    of: { reasoningEffort: "high" },
    answerable: false,
    slot,
    model: { provider: "openai", id: "gpt-x" },
    cwd: cron.home,
  });
});

test("a run over its token budget fails, and the reason names the limit", async () => {
  await using cron = await createTestCron({
    script: ({ step }) => (step === 0 ? { text: "x".repeat(400), calls: [{ tool: "none", input: {} }] } : {}),
  });
  await cron.create({ tokenBudget: 50, failureDeliver: "test" });
  await cron.advance(HOUR_MS);
  const [occurrence] = await cron.occurrences();
  assert.equal(occurrence?.status, "failed");
  assert.match(occurrence.reason ?? "", /of 50 tokens .*and was stopped/);
  assert.match(cron.sent[0]?.text ?? "", /of 50 tokens/);
});

test("a run without activity fails after the inactivity limit", async () => {
  const asked = Promise.withResolvers<void>();
  await using cron = await createTestCron({
    cron: { inactivityMs: 120_000 },
    script: ({ signal }) => {
      asked.resolve();
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  });
  const { id } = await cron.create({ failureDeliver: "test" });
  cron.clock.tick(HOUR_MS);
  await cron.ticker.tick();
  await asked.promise;
  cron.clock.tick(120_000);
  await cron.ticker.settled();
  await cron.sentAll();
  const [occurrence] = await cron.occurrences();
  assert.equal(occurrence?.status, "failed");
  assert.match(cron.sent[0]?.text ?? "", /Nothing happened in the run for 120 seconds/);
  assert.equal((await cron.job(id)).lastStatus, "error");
  assert.equal(cron.ticker.runningCount, 0);
});

test("a long script keeps the lease of its occurrence, which is running meanwhile", async () => {
  await using cron = await createTestCron();
  const begun = join(cron.home, "begun");
  const go = join(cron.home, "go");
  await cron.write("scripts/wait.sh", `touch ${begun}; until [ -e ${go} ]; do sleep 0.02; done; echo waited`);
  await cron.create({ script: "wait.sh", isScriptOnly: true });
  cron.clock.tick(HOUR_MS);
  await cron.ticker.tick();
  const patience = AbortSignal.timeout(60_000);
  while (!(await isThere(begun))) {
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const [running] = await cron.occurrences();
  assert.equal(running?.status, "running");
  assert.equal(running.lease_owner, cron.store.owner);
  assert.equal(running.run_id, null);
  await cron.write("go", "");
  await cron.ticker.settled();
  await cron.sentAll();
  const [ended] = await cron.occurrences();
  assert.equal(ended?.status, "ok");
});

test("a run stopped by a person is reported as failed with that person's reason", async () => {
  const begun = Promise.withResolvers<void>();
  await using cron = await createTestCron({
    script: async ({ signal }) => {
      begun.resolve();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      return { text: "" };
    },
  });
  const { id } = await cron.create({ failureDeliver: "test" });
  const advanced = cron.advance(HOUR_MS);
  await begun.promise;
  const [row] = await cron.occurrences(id);
  await cron.agent.runs.stop(row?.run_id ?? "", "Stopped by a person.");
  await advanced;
  assert.match(cron.sent[0]?.text ?? "", /The job tea failed: Stopped by a person\./);
  assert.equal((await cron.occurrences(id))[0]?.status, "failed");
});

test("a job's run does not wait for approval: a tool call that needs it is refused", async () => {
  let deeds = 0;
  await using cron = await createTestCron({
    script: callsOnce("rm -rf build"),
    tools: [testTool(async () => `done ${++deeds}`)],
    settings: { policyMode: "always_ask" },
  });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  assert.deepEqual([deeds, (await cron.occurrences(id))[0]?.status], [0, "ok"]);
  assert.match(cron.sent[0]?.text ?? "", /requires approval/);
});

test("the output of a script is not lost when the database is briefly unavailable", async () => {
  await using cron = await createTestCron();
  await cron.write("scripts/say.sh", "echo tea is ready");
  const claimed = await claimOf(cron, { script: "say.sh", isScriptOnly: true, prompt: "" });
  let writes = 0;
  const write: Store["write"] = (work, options) => {
    if (++writes === 2) return Promise.reject(new ServiceError("state_store_unavailable", "It is away."));
    return cron.deps.store.write(work, options);
  };
  const store = Object.create(cron.deps.store, { write: { value: write } }) as Store;
  await fired(cron, claimed, { store });
  assert.equal((await rowOf(cron, claimed)).status, "ok");
  assert.match(cron.sent.map(({ text }) => text).join(), /tea is ready/);
});
