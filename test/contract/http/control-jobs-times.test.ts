/** The times of schedules, and the calendar. */
import assert from "node:assert/strict";
import type { Calendar, JobTime, Occurrence } from "../../../generated/http/client/types.gen.ts";
import { createJob, list, occurrenceThat } from "../../harness/control.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { createGate, post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import type { TestService } from "../../harness/service.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const calendar = async (service: TestService, query = ""): Promise<Calendar> =>
  (await service.request(`/v1/calendar${query}`)).json();

scenario(
  "listJobTimes",
  200,
  {
    title: "times across a clock change mark the gap and the repeated hour",
    clock: new FakeClock(Date.UTC(2026, 2, 1)),
  },
  async (service) => {
    const zone = { time_zone: "Europe/Berlin", paused: true };
    const times = async (schedule: string, from: string) => {
      const { id } = await createJob(service, { schedule, ...zone });
      const found = await list<JobTime>(service, `/v1/jobs/${id}/times?from=${from}&to=2026-10-26T00:00:00Z`);
      return found.map(({ wall_time: time, shift }) => [time, shift] as const);
    };
    const daily = await times("30 2 * * *", "2026-03-28T00:00:00Z");
    assert.deepEqual(daily.slice(0, 3), [
      ["2026-03-28T02:30:00+01:00", null],
      ["2026-03-29T03:00:00+02:00", "gap"],
      ["2026-03-30T02:30:00+02:00", null],
    ]);
    assert.deepEqual(daily.at(-1), ["2026-10-25T02:30:00+02:00", null], "a fixed time runs once");
    assert.equal(daily.length, 212);
    assert.deepEqual(await times("0 * * * *", "2026-10-24T23:59:00Z"), [
      ["2026-10-25T02:00:00+02:00", null],
      ["2026-10-25T02:00:00+01:00", "repeat"],
      ...Array.from(
        { length: 22 },
        (_, hour) => [`2026-10-25T${String(hour + 3).padStart(2, "0")}:00:00+01:00`, null] as const,
      ).slice(0, 21),
      ["2026-10-26T00:00:00+01:00", null],
    ]);
    const hourly = await times("0 * * * *", "2026-03-29T00:00:00Z");
    assert.deepEqual(hourly[1], ["2026-03-29T03:00:00+02:00", null], "it names that hour itself");
  },
);

scenario(
  "listJobTimes",
  200,
  { title: "an interval keeps its phase, and a job that runs once has one time", clock: new FakeClock() },
  async (service) => {
    const { id, next_run_at: next } = await createJob(service, { schedule: "every 2h" });
    const times = async (job: string, query: string) =>
      (await list<JobTime>(service, `/v1/jobs/${job}/times?limit=1&${query}`)).map(
        (each) => each.scheduled_at,
      );
    assert.deepEqual(await times(id, `to=${next! + 4 * 3600}`), [next, next! + 2 * 3600]);
    const from = next! + 5 * 3600;
    assert.deepEqual(await times(id, `from=${from}&to=${from + 3 * 3600}`), [next! + 6 * 3600]);
    const once = await createJob(service, { schedule: "in 90m" });
    assert.deepEqual(await times(once.id, ""), [once.next_run_at]);
  },
);

scenario("listJobTimes", 400, { title: "a cursor of another list" }, async (service) => {
  const { id } = await createJob(service);
  await assertError(await service.request(`/v1/jobs/${id}/times?after=occ_1`), 400, "invalid_cursor");
  await assertError(await service.request(`/v1/jobs/${id}/times?from=today`), 400, "invalid_request");
});

const clock = new FakeClock();
scenario(
  "getCalendar",
  200,
  {
    title: "the calendar shows past occurrences and planned instants without doubling the present one",
    clock,
  },
  async (service) => {
    const job = await createJob(service, { name: "tea" });
    await createJob(service, { schedule: "every 10m", paused: true });
    const startMs = clock.now();
    clock.tick(HOUR_MS);
    await occurrenceThat(service, undefined, { clock });
    const from = startMs / 1000;
    const { data, truncated } = await calendar(service, `?from=${from}&to=${from + 4 * 3600}`);
    assert.deepEqual(
      data.map(({ kind, scheduled_at: at, status, job_id: id }) => [kind, at - from, status, id]),
      [
        ["occurrence", 3600, "ok", job.id],
        ["planned", 2 * 3600, null, job.id],
        ["planned", 3 * 3600, null, job.id],
      ],
    );
    assert.equal(truncated, false);
    assert.deepEqual((await calendar(service, "?job_id=none")).data, []);
  },
);

const now = new FakeClock();
const gate = createGate();
scenario(
  "getCalendar",
  200,
  {
    title: "an instant whose run is active, or was asked for by hand, is in the calendar once",
    clock: now,
    script: gate.script,
  },
  async (service) => {
    const { id } = await createJob(service);
    const startMs = now.now();
    const hours = async () => {
      const from = startMs / 1000;
      const { data } = await calendar(service, `?from=${from}&to=${from + 3 * 3600}`);
      return data.map(({ kind, scheduled_at: at }) => `${kind} ${(at - from) / 3600}`);
    };
    assert.deepEqual(await hours(), ["planned 1", "planned 2"]);
    now.tick(HOUR_MS);
    await occurrenceThat(service, ({ status }) => status === "running", { clock: now });
    assert.deepEqual(await hours(), ["occurrence 1", "planned 2"]);
    gate.open();
    await occurrenceThat(service, undefined, { clock: now });
    assert.deepEqual(await hours(), ["occurrence 1", "planned 2"]);
    await post(service, `/v1/jobs/${id}/run`, undefined);
    const isManual = ({ cause, ended_at: at }: Occurrence) => cause === "manual" && at !== null;
    await occurrenceThat(service, isManual, { clock: now });
    const all = await hours();
    assert.deepEqual([all.length, new Set(all).size, all[0], all[2]], [3, 3, "occurrence 1", "planned 2"]);
  },
);

const later = new FakeClock();
scenario(
  "getCalendar",
  200,
  { title: "a missed range is one occurrence with covers_count", clock: later },
  async (service) => {
    const { id, next_run_at: next } = await createJob(service, { catch_up: false, schedule: "every 1h" });
    // A tick of days is a scheduler that was away.
    const isMissed = ({ status }: Occurrence) => status === "missed";
    const away = { next_run_at: next! * 1000 - 2 * DAY_MS, due_at: next! * 1000 - 2 * DAY_MS };
    await service.service.store.write((tx) => tx.update("cron_jobs", { id }, away));
    const missed = await occurrenceThat(service, isMissed, { clock: later });
    assert.ok(missed.covers_count >= 46 && missed.covers_until !== null, JSON.stringify(missed));
    const { data } = await calendar(service, `?from=${missed.scheduled_at + 7200}&to=${missed.covers_until}`);
    assert.deepEqual(
      data.map(({ occurrence_id: each, covers_count: count }) => [each, count]),
      [[missed.id, missed.covers_count]],
      "it reaches into the window",
    );
  },
);

scenario(
  "getCalendar",
  200,
  {
    title: "a window over 93 days is 400, and more than 2,000 entries set truncated",
    clock: new FakeClock(),
    config: { cron: { enabled: false } },
  },
  async (service) => {
    await createJob(service, { schedule: "every 1m" });
    await createJob(service, { schedule: "* * * * *", time_zone: "UTC" });
    const { data, truncated } = await calendar(service, "?to=2026-01-03T00:00:00Z");
    assert.deepEqual([data.length, truncated], [2_000, true]);
    await assertError(await service.request("/v1/calendar?from=0&to=8035201"), 400, "invalid_request");
    const times = data.map(({ scheduled_at: at }) => at);
    assert.deepEqual(
      times,
      times.toSorted((a, b) => a - b),
    );
  },
);

scenario("getCalendar", 400, { title: "a window over 93 days is 400" }, async (service) => {
  for (const query of ["?from=0&to=8035201", "?from=10&to=9"]) {
    const error = await assertError(await service.request(`/v1/calendar${query}`), 400, "invalid_request");
    assert.equal(error.param, "to");
  }
  assert.equal((await service.request("/v1/calendar?from=0&to=8035200")).status, 200);
});
