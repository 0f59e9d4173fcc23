import { occurrenceRow } from "../unit/store/rows.ts";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import type { Job, JobTimeList } from "../../generated/http/client/types.gen.ts";
import { firstIdAt } from "../../src/base/text.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import type { OccurrenceRow } from "../../src/store/schema/tables.ts";
import { startConsole, type ConsoleTest } from "../harness/browser.ts";
import { callApi } from "../harness/console-webhooks.ts";

const ZONES = [
  "Europe/Paris",
  "America/New_York",
  "America/St_Johns",
  "Asia/Kolkata",
  "Australia/Lord_Howe",
  "UTC",
] as const;

const EXPRESSIONS = `
  0 9 * * 1-5
  30 17 * * 1,3
  0 */6 * * *
  15 2 * * *
  0 0 1 * *
  0 12 29 2 *
  45 23 31 12 *
  0 8 1,15 * *
  0 7 * * sun
  0 6 * JAN,JUL *
  5 4 * * 7
  0 0 * * 0
  59 23 L * *
  0 9 * * 5#1
  0 9 15W * *
  30 1,2,3 * * *
  0 22-23 * * *
  0 3-21/6 * * *
  10 10 10 10 *
  0 10 13 * 5
  @daily
  @weekly
  @monthly
  @yearly
  daily
  weekly
  monthly
  noon
  midnight
  weekdays at 9am
  monday, wednesday at 17:30
  sunday at 2:30
  every 2h
  every 1d
  every 90m
  every day at 8am
  0 2 * * *
  30 2 * * 0
  0 1 * * *
  30 1 * 10,11 *
  30 2 * 3 *
  0 0,12 * * *
  20 20 20 * *
  0 5 * * 2-4
  0 5 * 2 1
  40 6 2-8 * *
  0 0 31 * *
  0 18 * * FRI
  25 14 * 6-8 *
  @hourly
`
  .trim()
  .split("\n")
  .map((line) => line.trim());

/** Writes a schedule and waits for its times. */
async function previewOf(page: Page, schedule: string, zone: string): Promise<readonly string[]> {
  const answer = page.waitForResponse(
    (response) =>
      new URL(response.url()).pathname === "/v1/scheduler/preview" &&
      new URL(response.url()).searchParams.get("schedule") === schedule,
  );
  await page.getByLabel("Time zone").fill(zone);
  await page.getByLabel("Schedule", { exact: true }).fill(schedule);
  await answer;
  const list = page.getByRole("list", { name: `In ${zone}` });
  await page.waitForFunction(
    (wanted) => document.querySelector(".preview code")?.getAttribute("data-typed") === wanted,
    schedule,
  );
  return list
    .getByRole("listitem")
    .locator("time")
    .evaluateAll((times) => times.map((time) => time.getAttribute("datetime") ?? ""));
}

test("the preview agrees with the scheduler, for 50 schedules in six zones", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/schedule/new");
  assert.equal(EXPRESSIONS.length, 50);
  for (const [index, schedule] of EXPRESSIONS.entries()) {
    const zone = ZONES[index % ZONES.length]!;
    const preview = await previewOf(page, schedule, zone);
    const job = await callApi<Job>(shown, "/v1/jobs", { schedule, time_zone: zone, prompt: "tea" });
    // Its first time may have passed since, and an interval counts from when the job was made.
    const { data } = await callApi<JobTimeList>(shown, `/v1/jobs/${job.id}/times?limit=10`);
    const planned = data.map(({ wall_time: time }) => time);
    assert.ok(preview.length > 0, schedule);
    if (job.schedule_kind === "interval") continue;
    const later = preview.slice(planned.includes(preview[0]!) ? 0 : 1);
    assert.deepEqual(later, planned.slice(0, later.length), `${schedule} in ${zone}`);
  }
});

test("a job is made with its next times in sight, run now, paused, changed and deleted", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/schedule");
  await page.getByRole("heading", { name: "No job yet" }).waitFor();
  await page.getByRole("button", { name: "Create a job" }).click();
  await page.getByLabel("Schedule", { exact: true }).fill("weekdays at 9am");
  await page.getByText("On weekdays at 09:00").waitFor();
  await page.getByLabel("Prompt").fill("Summarize what is new.");
  await page.getByLabel("Name", { exact: true }).fill("Digest");
  await page.getByRole("button", { name: "Create the job" }).click();
  await page.getByRole("heading", { name: "Digest" }).waitFor();
  await page.getByRole("button", { name: "Run now" }).click();
  const history = page.getByRole("table", { name: "History" });
  await history.getByText("done").waitFor();
  await history.getByRole("button", { name: "Output" }).click();
  await page.getByRole("dialog").getByText("Summarize what is new.").first().waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();

  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  await page.getByLabel("Name", { exact: true }).fill("Morning digest");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Morning digest" }).waitFor();
  const [job] = (await callApi<{ readonly data: readonly Job[] }>(shown, "/v1/jobs")).data;
  assert.deepEqual([job?.name, job?.schedule, job?.state], ["Morning digest", "0 9 * * 1-5", "paused"]);

  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No job yet" }).waitFor();
});

test("many jobs are paused and resumed at once", async () => {
  await using shown = await startConsole();
  for (const name of ["a", "b", "c"]) {
    await callApi(shown, "/v1/jobs", { name, schedule: "0 9 * * *", prompt: "tea" });
  }
  const page = await shown.open("/schedule");
  await page.getByRole("checkbox", { name: "Select b" }).check();
  await page.getByRole("button", { name: "Pause 1 job" }).click();
  await page.getByText("1 job paused.").waitFor();
  await page.getByRole("button", { name: "Select all" }).click();
  await page.getByRole("button", { name: "Pause 2 jobs" }).click();
  await page.getByText("2 jobs paused.").waitFor();
  await page.getByRole("button", { name: "Select all" }).click();
  await page.getByRole("button", { name: "Resume 3 jobs" }).click();
  await page.getByText("3 jobs resumed.").waitFor();
  const { data } = await callApi<{ readonly data: readonly Job[] }>(shown, "/v1/jobs");
  assert.deepEqual(
    data.map(({ state }) => state),
    ["scheduled", "scheduled", "scheduled"],
  );
});

/** A store on the database of the gateway, beside it. */
async function openBeside(t: TestContext, shown: ConsoleTest): Promise<Store> {
  const store = await openStore({ url: shown.place.database });
  t.after(() => store.close());
  return store;
}

const DAY_MS = 86_400_000;

test("a job that no scheduler ran in time is marked as missed, and one that caught up as late", async (t) => {
  await using shown = await startConsole();
  const make = (name: string, catchUp: boolean) =>
    callApi<Job>(shown, "/v1/jobs", { name, schedule: "0 9 * * *", prompt: "tea", catch_up: catchUp });
  const left = await make("left out", false);
  const caught = await make("caught up", true);
  const page = await shown.open("/schedule?view=timeline");
  await page.getByRole("link", { name: /^left out: \d planned$/ }).waitFor();
  await shown.kill();
  const store = await openBeside(t, shown);
  await store.write(async (tx) => {
    for (const { id } of [left, caught]) {
      const past = (left.next_run_at ?? 0) * 1_000 - 2 * DAY_MS;
      assert.equal(await tx.update("cron_jobs", { id }, { next_run_at: past, due_at: past }), 1);
    }
  });
  await shown.restart();
  // The page comes back by itself and shows what happened meanwhile.
  await page.getByRole("link", { name: /^left out:.*missed/ }).waitFor();
  await page.getByRole("link", { name: /^caught up:.*late/ }).waitFor();
  const table = page.getByRole("table", { name: "Not as planned" });
  await table.getByRole("row").filter({ hasText: "left out" }).getByText("missed", { exact: true }).waitFor();
  await table
    .getByRole("row")
    .filter({ hasText: "caught up" })
    .getByText(/done, caught up, .* late/)
    .waitFor();
  await page.locator(".mark-missed").first().waitFor();
  await page.locator(".mark-late").first().waitFor();
});

function occurrence(job: Job, at: string, set: Partial<OccurrenceRow> = {}): OccurrenceRow {
  const atMs = Date.parse(at);
  return occurrenceRow({
    // Lists of a window find occurrences by their ids, which begin with the time of the claim.
    id: firstIdAt("occ", atMs + 1),
    job_id: job.id,
    job_name: job.name,
    claimed_at: atMs,
    ended_at: atMs + 1_000,
    ...set,
  });
}

test("the timeline marks done, late and missed times over a change of the clock", async (t) => {
  await using shown = await startConsole({ config: { timezone: "Europe/Paris" } });
  const job = await callApi<Job>(shown, "/v1/jobs", { name: "tea", schedule: "30 2 * * *", prompt: "tea" });
  const store = await openBeside(t, shown);
  const late = Date.parse("2026-03-29T01:12:00Z");
  const rows = [
    occurrence(job, "2026-03-28T01:30:00Z"),
    // 02:30 does not exist on this day: the instant is at the end of the gap.
    occurrence(job, "2026-03-29T01:00:00Z", {
      timing: "late",
      started_at: late,
      ended_at: late + 1_000,
    }),
    occurrence(job, "2026-03-30T00:30:00Z", {
      status: "missed",
      covers_until: Date.parse("2026-03-31T00:30:00Z"),
      covers_count: 2,
      reason: "No scheduler was running.",
    }),
  ];
  await store.write((tx) => tx.insert("occurrences", rows));
  const page = await shown.open("/schedule?view=timeline&from=2026-03-28");
  await page.getByRole("link", { name: "tea: 2 missed, 1 late, 1 done" }).waitFor();
  const positionOf = (mark: string) =>
    page
      .locator(`.timeline-track .mark-${mark}`)
      .evaluate((element) => parseFloat((element as HTMLElement).style.left));
  // Five days, of which the second has 23 hours: 119 hours from midnight.
  const percent = (hours: number) => Math.round((hours / 119) * 1_000) / 10;
  const rounded = async (mark: string) => Math.round((await positionOf(mark)) * 10) / 10;
  assert.equal(await rounded("done"), percent(2.5));
  assert.equal(await rounded("late"), percent(24 + 2));
  assert.equal(await rounded("missed"), percent(24 + 23 + 2.5));
  const due = page.getByRole("table", { name: "Not as planned" });
  await due.getByRole("row").filter({ hasText: "done, 12 min late" }).getByText("29 Mar, 03:00").waitFor();
  await due.getByRole("row").filter({ hasText: "2 times" }).getByText("30 Mar, 02:30").waitFor();
});
