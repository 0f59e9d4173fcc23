import assert from "node:assert/strict";
import { test } from "node:test";
import { nextRunMs } from "../../../src/cron/schedule/instants.ts";
import { formatSchedule } from "../../../src/cron/job/job.ts";
import { parseSchedule } from "../../../src/cron/schedule/text.ts";
import { machineZone, zoneProblem } from "../../../src/base/suggest.ts";

const nowMs = Date.UTC(2026, 10, 21, 12, 0);
const parse = (text: string, zone = "Europe/Berlin") => parseSchedule(text, { nowMs, zone });
const iso = (text: string, zone?: string) => {
  const schedule = parse(text, zone);
  return schedule.kind === "once" ? new Date(schedule.atMs).toISOString() : schedule;
};
const refused = (text: string, why: RegExp, zone?: string) =>
  assert.throws(
    () => parse(text, zone),
    (error: Error & { code?: string }) => error.code === "invalid_schedule" && why.test(error.message),
    text,
  );

test("`every` accepts minutes, hours and days and refuses other input", () => {
  const table = {
    "every 1m": 1,
    "every 30 min": 30,
    "every 5 minutes": 5,
    "every 2h": 120,
    "every 2 hrs": 120,
    "EVERY 3 HOURS": 180,
    "every 1d": 1440,
    "every 2 days": 2880,
    "every hour": 60,
    "every day": 1440,
    "every   10m": 10,
  };
  for (const [text, minutes] of Object.entries(table)) {
    assert.deepEqual(parse(text), { kind: "interval", minutes }, text);
  }
  for (const text of [
    "",
    "every",
    "every m30",
    "every -5m",
    "every 1.5h",
    "every 3 weeks",
    "soon",
    "every 5",
    "every 1e3m",
  ]) {
    refused(text, /is not a schedule\. Use one of: `every 30m`/);
  }
  refused("every 99999999d", /ten years/);
  refused(`every ${"9".repeat(300)}m`, /200 characters/);
});

test("`every 2h` parses to an interval and formats back in its largest unit", () => {
  const schedule = parse("every 2h");
  assert.deepEqual(schedule, { kind: "interval", minutes: 120 });
  assert.equal(formatSchedule(schedule), "every 2h");
  assert.equal(formatSchedule(parse("every 90m")), "every 90m");
  assert.equal(formatSchedule(parse("every 48h")), "every 2d");
});

test("a valid cron expression parses, formats back and has a next run, and an invalid one is refused", () => {
  for (const expression of [
    "0 9 * * *",
    "*/6 * * * *",
    "0 9 * * 1-5",
    "0 9 1,15 * *",
    "0 9 * jan-mar mon",
    "5/15 * * * *",
    "@daily",
    "0 0 * * 7",
  ]) {
    const schedule = parse(expression);
    assert.deepEqual(schedule, { kind: "cron", expression });
    assert.equal(formatSchedule(schedule), expression);
    assert.ok(nextRunMs(schedule, nowMs, "UTC")! > nowMs, expression);
  }
  refused("99 * * * *", /not a cron expression: .*minute/);
  refused("0 9 * * 9", /not a cron expression/);
  refused("* * * * * *", /five fields/);
  refused("@reboot", /is unknown\. The nicknames are @hourly/);
  refused("0 9 * *", /is not a schedule/);
});

test("an ISO time without offset is read in the given zone, and an impossible one is refused", () => {
  assert.equal(iso("2026-12-24T18:00"), "2026-12-24T17:00:00.000Z");
  assert.equal(iso("2026-12-24 18:00:30"), "2026-12-24T17:00:30.000Z");
  assert.equal(iso("2026-12-24T18:00", "America/Toronto"), "2026-12-24T23:00:00.000Z");
  assert.equal(iso("2026-12-24T18:00Z"), "2026-12-24T18:00:00.000Z");
  assert.equal(iso("2026-12-24T18:00+05:30"), "2026-12-24T12:30:00.000Z");
  assert.equal(iso("2026-12-24T18:00-0500"), "2026-12-24T23:00:00.000Z");
  assert.equal(iso("2026-12-24"), "2026-12-23T23:00:00.000Z");
  refused("2026-13-01T10:00", /calendar/);
  refused("2027-02-29T10:00", /calendar/);
  refused("2026-12-24T25:00", /calendar/);
  refused("2026-12-24T10:00+99:00", /offset/);
});

test("`30m` alone is refused as ambiguous, and `in 30m` is a one-shot", () => {
  refused("30m", /once or repeatedly: use `every 30m` or `in 30m`/);
  refused("2 hours", /`every 2h` or `in 2h`/);
  assert.equal(iso("in 30m"), new Date(nowMs + 30 * 60_000).toISOString());
  assert.equal(iso("in 2 days"), new Date(nowMs + 2 * 86_400_000).toISOString());
});

test("a duration of zero, a date that never occurs and an unknown zone are refused", () => {
  refused("0m", /shortest time is one minute/);
  refused("every 0m", /shortest time is one minute/);
  refused("in 0m", /shortest time is one minute/);
  refused("0 0 31 2 *", /never occurs/);
  refused("0 9 31 4 *", /never occurs/);
  refused("0 9 * * *", /Unknown time zone "Europe\/Berln"; did you mean "Europe\/Berlin"\?/, "Europe/Berln");
  for (const zone of ["", "+02:00", "Mars/Base", "../etc", "x".repeat(200)])
    refused("every 1h", /Unknown time zone/, zone);
});

test("a one-shot up to 120 s in the past is accepted, and an older one is refused", () => {
  assert.equal(iso("2026-11-21T11:58:00Z"), "2026-11-21T11:58:00.000Z");
  refused("2026-11-21T11:57:59Z", /more than 120 s in the past and cannot be scheduled/);
  for (const date of ["2020-01-01", "1970-01-01", "1969-07-20T20:17", "1066-10-14"])
    refused(date, /in the past/);
});

test("times of the week in words become cron fields", () => {
  const table = {
    "every monday 9am": "0 9 * * 1",
    "weekdays at 9am": "0 9 * * 1-5",
    "every weekday at 09:30": "30 9 * * 1-5",
    "daily at 7am": "0 7 * * *",
    "every day at 7:15 pm": "15 19 * * *",
    "monday, wednesday at 9am": "0 9 * * 1,3",
    "Mon, Wed and Fri at 17:30": "30 17 * * 1,3,5",
    "sundays at noon": "0 12 * * 0",
    "weekends at midnight": "0 0 * * 0,6",
    "tues and thurs 12am": "0 0 * * 2,4",
    "saturday at 12pm": "0 12 * * 6",
    "friday at 23:59": "59 23 * * 5",
    "every monday at 9": "0 9 * * 1",
    "weekdays at 17": "0 17 * * 1-5",
  };
  for (const [text, expression] of Object.entries(table)) {
    assert.deepEqual(parse(text), { kind: "cron", expression }, text);
  }
  for (const text of [
    "monday",
    "every monday",
    "weekdays 9",
    "weekdays at 25:00",
    "weekdays at 13pm",
    "weekdays at 0am",
    "someday at 9am",
    "monday and at 9am",
    "sun,,mon at 9am",
  ]) {
    refused(text, /is not a schedule/);
  }
});

test("words for common times are schedules", () => {
  const table = {
    hourly: "@hourly",
    daily: "@daily",
    weekly: "@weekly",
    monthly: "@monthly",
    Yearly: "@yearly",
    "@midnight": "@midnight",
    midnight: "0 0 * * *",
    noon: "0 12 * * *",
    "at noon": "0 12 * * *",
    "every noon": "0 12 * * *",
  };
  for (const [text, expression] of Object.entries(table)) {
    const schedule = parse(text);
    assert.deepEqual(schedule, { kind: "cron", expression }, text);
    assert.ok(nextRunMs(schedule, nowMs, "UTC")! > nowMs, text);
  }
});

test("an error about a cron expression counts months and days as people write them", () => {
  const table = {
    "0 0 32 * *": "32 is not a day of the month, which is 1 to 31",
    "0 0 * 13 *": "13 is not a month, which is 1 to 12",
    "0 0 0 * *": "0 is not a day of the month, which is 1 to 31",
    "0 0 * 0 *": "0 is not a month, which is 1 to 12",
    "60 0 * * *": "60 is not a minute, which is 0 to 59",
    "0 24 * * *": "24 is not an hour, which is 0 to 23",
    "0 0 * * 8": "8 is not a day of the week, which is 0 to 7 (0 and 7 are Sunday)",
    "0 0 5-40 * *": "40 is not a day of the month, which is 1 to 31",
    "0 0 40W * *": "40 is not a day of the month, which is 1 to 31",
    "0 0 1,2,99/2 * *": "99 is not a day of the month, which is 1 to 31",
    "0 0 20-10 * *": "the range 20-10 goes backwards",
    "*/0 * * * *": "a step is at least 1",
    "*/70 * * * *": "the step 70 of the minute is more than 60",
  };
  for (const [expression, why] of Object.entries(table))
    assert.throws(() => parse(expression), {
      message: `${expression} is not a cron expression: ${why}.`,
    });
});

test("a time of zero minutes is refused with the form that was typed", () => {
  refused("in 0m", /use `in 1m` or more/);
  refused("every 0h", /use `every 1m` or more/);
});

test("any text of 200 characters is parsed quickly", () => {
  for (const text of [
    "mon, ".repeat(40),
    "mon and ".repeat(25),
    `every ${"1 ".repeat(90)}`,
    "*,".repeat(100),
    "0 ".repeat(100),
  ]) {
    assert.throws(() => parse(text.slice(0, 200)), { code: "invalid_schedule" });
  }
});

test("the time zone of this machine is valid", () => {
  assert.equal(zoneProblem(machineZone()), undefined);
  assert.equal(zoneProblem("UTC"), undefined);
});
