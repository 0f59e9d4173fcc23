import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { describe, it } from "node:test";
import { definition } from "../../harness/cron.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { addRun, entryOf, openCronPlace } from "./cron-place.ts";

describe("agentd cron list, show, runs and status", () => {
  it("create nothing in a home without a database, and say so", async () => {
    await using made = await createHome();
    const look = async (...words: string[]) => keptAgentd(["cron", ...words], { AGENTD_HOME: made.home });
    const list = await look("list");
    assert.equal(list.code, 0);
    assert.match(list.stdout, /^No scheduled jobs\. Create one: agentd cron create "/);
    assert.match(list.stderr, /The database does not exist yet/);
    assert.deepEqual(entryOf(await look("list", "--json")), { jobs: [], count: 0 });
    assert.deepEqual(entryOf(await look("runs", "--json")), { runs: [], next_cursor: null });
    const status = entryOf<Readonly<Record<string, unknown>>>(await look("status", "--json"));
    assert.deepEqual([status["state"], status["running"], status["next"]], ["none", 0, null]);
    assert.equal((await look("show", "tea")).code, 1);
    assert.deepEqual(await readdir(made.home), []);
  });

  it("list, show, status and runs change no job", async (t) => {
    const place = await openCronPlace(t);
    const job = await place.jobs.create(definition({ name: "Tea" }));
    await place.store.write((tx) => tx.update("cron_jobs", { id: job.id }, { next_run_at: 5, due_at: 5 }));
    const before = await place.store.find("cron_jobs", { id: job.id });
    for (const words of [
      ["list"],
      ["list", "--all", "--json"],
      ["show", "TEA"],
      ["status"],
      ["runs", "tea"],
    ]) {
      assert.equal((await place.cron(...words)).code, 0, words.join(" "));
    }
    assert.deepEqual(await place.store.find("cron_jobs", { id: job.id }), before);
    assert.match((await place.cron("status")).stdout, /^Late: +1 overdue by more than a minute$/m);
  });

  it("list marks broken rows, and hides ended jobs without --all", async (t) => {
    const place = await openCronPlace(t);
    const [tea, old, odd] = [
      await place.jobs.create(definition({ name: "Tea" })),
      await place.jobs.create(definition({ name: "Old" })),
      await place.jobs.create(definition({ name: "Odd" })),
    ];
    await place.store.write(async (tx) => {
      await tx.update("cron_jobs", { id: old.id }, { state: "completed", next_run_at: null, due_at: null });
      await tx.update("cron_jobs", { id: odd.id }, { definition: "{" });
    });
    const { stdout, stderr } = await place.cron("list");
    assert.match(stdout, new RegExp(`^${tea.id} +active .*\\n[\\s\\S]*^${odd.id} +broken `, "m"));
    assert.ok(!stdout.includes(old.id));
    assert.match(stderr, /1 more job has ended\. Pass --all to include them/);
    const all = entryOf<{ readonly jobs: readonly { readonly id: string; readonly state: string }[] }>(
      await place.cron("list", "--all", "--json"),
    );
    assert.deepEqual(
      all.jobs.map(({ id, state }) => [id, state]).toSorted(),
      [
        [tea.id, "scheduled"],
        [old.id, "completed"],
        [odd.id, "broken"],
      ].toSorted(),
    );
    const removed = await place.cron("rm", odd.id, "--yes");
    assert.deepEqual([removed.code, removed.stdout], [0, `Removed job: Odd (${odd.id})\n`]);
  });

  it("runs lists newest first, in pages, and in the zone of a single job", async (t) => {
    const place = await openCronPlace(t);
    const job = await place.jobs.create(definition({ name: "Tea", zone: "Asia/Tokyo" }));
    const rows = [];
    for (const day of [1, 2, 3])
      rows.push(await addRun(place.store, job, { claimed_at: Date.UTC(2026, 0, day) }));
    const { stdout, stderr } = await place.cron("runs", "tea", "--limit", "2");
    assert.match(
      stdout,
      /^ID +DUE \(Asia\/Tokyo\)[^\n]*\nocc_\w+ +2026-01-03 09:00:00 \+09:00[^\n]*\nocc_\w+ +2026-01-02/,
    );
    assert.match(stderr, new RegExp(`Outputs are in .*${job.id}`));
    const cursor = /--cursor (\S+)/.exec(stderr)?.[1] ?? assert.fail(stderr);
    const next = await place.cron("history", "--json", "--cursor", cursor);
    const { runs } = entryOf<{ readonly runs: readonly { readonly id: string }[] }>(next);
    assert.deepEqual(
      runs.map(({ id }) => id),
      [rows[0]?.id],
    );
  });

  it("status reports a scheduler without a tick for over 200 s as stalled", async (t) => {
    const place = await openCronPlace(t);
    await place.beat(201_000);
    const { stdout, stderr } = await place.cron("status");
    assert.match(stdout, /^Scheduler: stalled/);
    assert.match(stderr, /^Warning: the scheduler has stalled/);
  });
});
