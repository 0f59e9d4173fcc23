import assert from "node:assert/strict";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createHome } from "../../unit/config/home-folder.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { entryOf, openCronPlace } from "./cron-place.ts";

interface Report {
  readonly dry_run: boolean;
  readonly jobs: readonly { readonly id: string; readonly outcome: string; readonly reason: string | null }[];
  readonly problems: readonly string[];
}

const soon = new Date(Date.now() + 1_800_000);
const records = [
  {
    id: "0123456789ab",
    name: "Tea",
    prompt: "make tea",
    schedule: { kind: "interval", minutes: 60, display: "every 60m" },
    repeat: { times: null, completed: 4 },
    next_run_at: soon.toISOString(),
    deliver: "telegram:-1001",
    context_from: ["ba9876543210"],
  },
  { id: "ba9876543210", prompt: "old", schedule: { kind: "cron", expr: "0 9 * * *" }, enabled: false },
  { name: "No id", prompt: "x", schedule: { kind: "interval", minutes: 5 } },
  { id: "aaaaaaaaaaaa", prompt: "x", schedule: { kind: "once", run_at: "2020-01-01T00:00:00Z" } },
  {
    id: "bbbbbbbbbbbb",
    prompt: "x",
    schedule: { kind: "once", run_at: "2020-01-01T00:00:00Z" },
    state: "completed",
  },
  { id: "cccccccccccc", prompt: "x", schedule: { kind: "moon" } },
  "nonsense",
];

describe("agentd cron import", () => {
  it("imports a bare list beside invalid records, and a second import adds nothing", async (t) => {
    const place = await openCronPlace(t);
    const file = join(place.home, "jobs.json");
    await writeFile(file, `\ufeff${JSON.stringify(records)}`);
    const first = await place.cron("import", file, "--json");
    assert.equal(first.code, 1, "one could not be taken over");
    const { jobs, problems } = entryOf<Report>(first);
    const noId = jobs[2]?.id ?? "";
    assert.match(noId, /^[0-9a-f]{12}$/);
    assert.deepEqual(
      jobs.map(({ id, outcome }) => [id, outcome]),
      [
        ["0123456789ab", "imported"],
        ["ba9876543210", "imported"],
        [noId, "imported"],
        ["aaaaaaaaaaaa", "refused"],
        ["bbbbbbbbbbbb", "over"],
      ],
    );
    assert.match(jobs[3]?.reason ?? "", /more than 120 s in the past/);
    assert.ok(problems.some((problem) => problem.includes("cccccccccccc")));

    const tea = await place.jobs.find("tea");
    assert.deepEqual(
      [tea.nextRunAtMs, tea.repeatDone, tea.definition.deliver, tea.definition.contextFrom],
      [soon.getTime(), 4, "telegram:-1001", ["ba9876543210"]],
    );
    assert.equal((await place.jobs.find("ba9876543210")).state, "paused");
    await place.jobs.edit("tea", ({ definition }) => ({ ...definition, prompt: "changed here" }));

    const second = entryOf<Report>(await place.cron("import", file, "--json"));
    assert.deepEqual(
      second.jobs.map(({ outcome }) => outcome),
      ["exists", "exists", "exists", "refused", "over"],
    );
    assert.equal((await place.jobs.list()).jobs.length, 3);
    assert.equal((await place.jobs.find("tea")).definition.prompt, "changed here");
  });

  it("--dry-run creates nothing, and an invalid file is rejected", async () => {
    await using made = await createHome();
    await using elsewhere = await createHome({ "jobs.json": JSON.stringify({ jobs: records.slice(0, 3) }) });
    const file = join(elsewhere.home, "jobs.json");
    const run = (...words: string[]) => keptAgentd(["cron", "import", ...words], { AGENTD_HOME: made.home });
    const dry = await run(file, "--dry-run");
    assert.deepEqual([dry.code, dry.stdout.split("\n").at(-2)], [0, "Would import 3 of 3 jobs."]);
    assert.match(dry.stdout, /^Would import job: Tea \(0123456789ab\)$/m);
    assert.match(dry.stderr, /^Warning: Telegram is not configured/m, "as for a job that is created");
    await writeFile(file, "[1, 2");
    const refused = await run(file);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /Cannot import .* It is not JSON/);
    assert.deepEqual(await readdir(made.home), []);
  });
});
