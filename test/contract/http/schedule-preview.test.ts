/** What a schedule means, before it is saved. */
import assert from "node:assert/strict";
import type { Job, SchedulePreview } from "../../../generated/http/client/types.gen.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import type { TestService } from "../../harness/service.ts";

const PATH = "/v1/scheduler/preview";

async function preview(service: TestService, query: Record<string, string>): Promise<SchedulePreview> {
  const response = await service.request(`${PATH}?${new URLSearchParams(query)}`);
  const body = (await response.json()) as SchedulePreview;
  assert.equal(response.status, 200, JSON.stringify(body));
  return body;
}

// Before clocks go forward in Europe, on the 29th.
const march = () => new FakeClock(Date.UTC(2026, 2, 27, 12));

scenario(
  "previewSchedule",
  200,
  { title: "a schedule in words, with its cron form and its next times", clock: march() },
  async (service) => {
    const paris = { time_zone: "Europe/Paris" };
    const weekdays = await preview(service, { ...paris, schedule: "weekdays at 9am", count: "3" });
    assert.deepEqual(
      [weekdays.expression, weekdays.description, weekdays.schedule_kind, weekdays.time_zone],
      ["0 9 * * 1-5", "At 09:00, Monday through Friday", "cron", "Europe/Paris"],
    );
    assert.deepEqual(
      weekdays.times.map(({ wall_time: wall }) => wall),
      ["2026-03-30T09:00:00+02:00", "2026-03-31T09:00:00+02:00", "2026-04-01T09:00:00+02:00"],
    );
    assert.deepEqual(weekdays.clock_changes, []);
    for (const [schedule, words] of [
      ["every 90m", "Every 90 minutes"],
      ["every 1h", "Every hour"],
      ["every 2d", "Every 2 days"],
      ["2026-12-24T18:00", "Once, at 2026-12-24 18:00"],
      ["0 0 1 * 1", "At 00:00, on day 1 of the month, or on Monday"],
      ["@hourly", "Every hour"],
      ["*/15 * * * *", "Every 15 minutes"],
    ] as const) {
      const shown = await preview(service, { ...paris, schedule });
      assert.equal(shown.description, words, schedule);
      assert.equal(shown.times.length, schedule.startsWith("2026") ? 1 : 5, schedule);
    }
  },
);

scenario(
  "previewSchedule",
  200,
  { title: "names the times that a clock change moves or repeats", clock: march() },
  async (service) => {
    const { clock_changes: changes } = await preview(service, {
      schedule: "30 2 * * *",
      time_zone: "Europe/Paris",
    });
    assert.deepEqual(
      changes.map(({ wall_time: wall, shift }) => [wall, shift]),
      [["2026-03-29T03:00:00+02:00", "gap"]],
    );
    const hourly = await preview(service, { schedule: "30 * * * *", time_zone: "Europe/Paris" });
    assert.deepEqual(
      hourly.clock_changes.map(({ wall_time: wall, shift }) => [wall, shift]),
      [["2026-10-25T02:30:00+01:00", "repeat"]],
    );
    assert.deepEqual(
      (await preview(service, { schedule: "30 2 * * *", time_zone: "UTC" })).clock_changes,
      [],
    );
  },
);

const ZONES = [
  "UTC",
  "Europe/Paris",
  "America/New_York",
  "Asia/Kolkata",
  "Australia/Lord_Howe",
  "Pacific/Apia",
];
const EXPRESSIONS = [
  "* * * * *",
  "*/5 * * * *",
  "7 * * * *",
  "0,30 * * * *",
  "10-20/5 * * * *",
  "0 */2 * * *",
  "30 */3 * * *",
  "0 0 * * *",
  "30 2 * * *",
  "15 1 * * *",
  "0 3 * * *",
  "59 23 * * *",
  "0 9 * * 1-5",
  "0 9 * * mon,wed",
  "0 9 * * 0",
  "0 9 * * 7",
  "0 9 1 * *",
  "0 9 15 * *",
  "0 9 31 * *",
  "0 0 29 2 *",
  "0 12 1 1 *",
  "0 12 1 */3 *",
  "0 0 1 * 1",
  "0 0 13 * 5",
  "30 2 29 3 *",
  "30 2 * 3 0",
  "30 1 25 10 *",
  "*/7 1-3 * * *",
  "5,35 8-18/2 * * *",
  "0 9 * jan-mar *",
  "0 9 * 6 *",
  "1 2 3 4 *",
  "0 22 * * 5,6",
  "45 6 * * 2-4",
  "0 5 10-20 * *",
  "20 4 */10 * *",
  "@hourly",
  "@daily",
  "@weekly",
  "@monthly",
  "@yearly",
  "every 1m",
  "every 45m",
  "every 3h",
  "every 7d",
  "in 30m",
  "daily",
  "weekdays at 9am",
  "monday, wednesday at 17:30",
  "2026-12-24T18:00",
];

scenario(
  "previewSchedule",
  200,
  { title: "agrees with the job that the schedule then makes, in every zone", clock: march() },
  async (service) => {
    assert.ok(EXPRESSIONS.length >= 50);
    for (const timeZone of ZONES) {
      for (const schedule of EXPRESSIONS) {
        const { times, description } = await preview(service, { schedule, time_zone: timeZone });
        const body = { schedule, time_zone: timeZone, prompt: "hi" };
        const job = (await (await post(service, "/v1/jobs?dry_run=true", body)).json()) as Job;
        assert.deepEqual(times, job.next_runs, `${schedule} in ${timeZone}`);
        assert.equal(times[0]?.scheduled_at, job.next_run_at);
        assert.ok(description.length > 5);
      }
    }
  },
);

scenario(
  "previewSchedule",
  400,
  { title: "text that is no schedule, an unknown zone and too many times" },
  async (service) => {
    const ask = (query: Record<string, string>) => service.request(`${PATH}?${new URLSearchParams(query)}`);
    const error = await assertError(await ask({ schedule: "now and then" }), 400, "invalid_schedule");
    assert.match(error.message, /every 30m/);
    await assertError(await ask({ schedule: "daily", time_zone: "Mars/Olympus" }), 400, "invalid_request");
    await assertError(await ask({ schedule: "daily", count: "51" }), 400, "invalid_request");
    await assertError(await ask({}), 400, "missing_required_parameter");
    await assertError(await ask({ schedule: "daily", prompt: "x" }), 400, "unsupported_parameter");
  },
);
