import assert from "node:assert/strict";
import { test } from "node:test";
import { instantOf, nextRunMs } from "../../../src/cron/schedule/instants.ts";
import { formatSchedule, type Schedule } from "../../../src/cron/job/job.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const TORONTO = "America/Toronto";
/** In the night to the 1st of November 2026 the hour from 1 to 2 o'clock comes twice in Toronto. */
const FALL_BACK = Date.parse("2026-11-01T05:00:00Z");

const cron = (expression: string): Schedule => ({ kind: "cron", expression });

/** Instants after `fromMs` and up to `toMs`. */
function walk(
  schedule: Schedule,
  zone: string,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): readonly number[] {
  const found: number[] = [];
  for (
    let at = nextRunMs(schedule, fromMs, zone);
    at !== undefined && at <= toMs;
    at = nextRunMs(schedule, at, zone)
  ) {
    assert.ok(at > (found.at(-1) ?? fromMs), "never the past");
    found.push(at);
  }
  return found;
}

test("cron expressions follow daylight-saving changes, and intervals keep their elapsed time across them", () => {
  const inTheHours = { fromMs: FALL_BACK - 1, toMs: FALL_BACK + 2 * HOUR_MS - 1 };
  const runs = (expression: string) => walk(cron(expression), TORONTO, inTheHours).length;
  assert.deepEqual(
    ["*/30 * * * *", "0 * * * *", "*/15 1 * * *", "30 1 * * *", "@hourly", "@daily"].map((each) => [
      each,
      runs(each),
    ]),
    [
      ["*/30 * * * *", 4],
      ["0 * * * *", 2],
      ["*/15 1 * * *", 8],
      ["30 1 * * *", 1],
      ["@hourly", 2],
      ["@daily", 0],
    ],
  );
  const secondQuarterPast = FALL_BACK + HOUR_MS + 15 * MINUTE_MS;
  assert.equal(
    nextRunMs(cron("15 1 * * *"), secondQuarterPast, TORONTO),
    Date.parse("2026-11-02T06:15:00Z"),
    "a base in the second of the hours leads to the next day",
  );
  const gap = Date.parse("2026-03-08T05:00:00Z");
  for (const expression of ["30 2 * * *", "0 2 * * *"]) {
    assert.deepEqual(
      walk(cron(expression), TORONTO, { fromMs: gap, toMs: gap + DAY_MS - 2 * HOUR_MS }).map((at) =>
        new Date(at).toISOString(),
      ),
      ["2026-03-08T07:00:00.000Z"],
      `${expression} runs once, at the end of the gap`,
    );
  }
  assert.equal(nextRunMs({ kind: "interval", minutes: 60 }, FALL_BACK, TORONTO), FALL_BACK + HOUR_MS);
  assert.equal(nextRunMs({ kind: "interval", minutes: 1440 }, gap, TORONTO), gap + DAY_MS);
});

/** Offsets of the zone from UTC, hour by hour, as the platform's calendar tells them. */
function offsets(zone: string, fromMs: number, hours: number): readonly number[] {
  const format = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "longOffset" });
  const offsetAt = (atMs: number) => {
    const name = format.formatToParts(atMs).find(({ type }) => type === "timeZoneName")?.value ?? "";
    const { sign, h = "0", m = "0" } = /GMT(?<sign>[+-])?(?<h>\d{2})?:?(?<m>\d{2})?/.exec(name)?.groups ?? {};
    return (sign === "-" ? -1 : 1) * (Number(h) * HOUR_MS + Number(m) * MINUTE_MS);
  };
  return Array.from({ length: hours }, (_, hour) => offsetAt(fromMs + hour * HOUR_MS));
}

const zones = [
  "UTC",
  "Europe/Berlin",
  TORONTO,
  "Australia/Lord_Howe",
  "America/Sao_Paulo",
  "Asia/Kathmandu",
  "Pacific/Chatham",
];
const DAYS = 400;

for (const zone of zones) {
  test(`the daylight-saving table runs for ${zone}, ${DAYS} days, with no missed or doubled instant`, () => {
    const fromMs = Date.UTC(2026, 0, 1);
    const offset = offsets(zone, fromMs, (DAYS + 2) * 24);
    const wallOf = (atMs: number) => atMs + offset[Math.floor((atMs - fromMs) / HOUR_MS)]!;
    const toMs = fromMs + DAYS * DAY_MS;
    const daily = walk(cron("15 9 * * *"), zone, { fromMs, toMs });
    assert.ok(
      daily.every((at) => wallOf(at) % DAY_MS === 9 * HOUR_MS + 15 * MINUTE_MS),
      "always at a quarter past nine",
    );
    const days = daily.map((at) => Math.floor(wallOf(at) / DAY_MS));
    assert.ok(
      days.every((day, index) => index === 0 || day === days[index - 1]! + 1),
      "once on each day",
    );
    assert.ok(daily.length >= DAYS - 1);
    // In each night something may be in the gap or come twice.
    for (const [hour, minute] of [
      [0, 30],
      [1, 30],
      [2, 0],
      [2, 30],
      [3, 0],
    ] as const) {
      const nightly = walk(cron(`${minute} ${hour} * * *`), zone, { fromMs, toMs });
      const dates = nightly.map((at) => Math.floor(wallOf(at) / DAY_MS));
      assert.equal(new Set(dates).size, dates.length, `${hour}:${minute} came twice on one day`);
      assert.ok(
        dates.every((date, index) => index === 0 || date === dates[index - 1]! + 1),
        `${hour}:${minute} was missed`,
      );
    }
    const changes = offset.flatMap((each, hour) => (hour > 0 && each !== offset[hour - 1] ? [hour] : []));
    for (const hour of [48, ...changes]) {
      const jobContext = { fromMs: fromMs + (hour - 30) * HOUR_MS, toMs: fromMs + (hour + 30) * HOUR_MS };
      const often = walk(cron("*/30 * * * *"), zone, jobContext);
      assert.equal(often.length, 120, "every half hour, whatever the clocks do");
      assert.ok(often.every((at, index) => index === 0 || at - often[index - 1]! === 30 * MINUTE_MS));
    }
  });
}

test("an interval counts from its creation or last run, not from the time of the query", () => {
  const nowMs = Date.UTC(2026, 10, 21, 12, 0);
  const every = { kind: "interval", minutes: 30 } as const;
  assert.equal(nextRunMs(every, nowMs, "UTC"), nowMs + 30 * MINUTE_MS);
  // What counts is the base that is kept with the job, not when somebody asks.
  const lastRunMs = nowMs - 20 * MINUTE_MS;
  assert.equal(nextRunMs(every, lastRunMs, "UTC"), nowMs + 10 * MINUTE_MS);
});

test("a one-shot has no next run once its time is reached", () => {
  const once = { kind: "once", atMs: Date.UTC(2026, 10, 21, 12, 0) } as const;
  assert.equal(nextRunMs(once, once.atMs - 1, "UTC"), once.atMs);
  assert.equal(nextRunMs(once, once.atMs, "UTC"), undefined);
  assert.equal(formatSchedule(once), "2026-11-21T12:00:00Z");
});

test("a local time that occurs twice is the first one, and a skipped local time is that much later", () => {
  const at = (wall: string) => new Date(instantOf(wall, TORONTO)).toISOString();
  assert.equal(at("2026-11-01T01:30:00"), "2026-11-01T05:30:00.000Z");
  assert.equal(at("2026-03-08T02:30:00"), "2026-03-08T07:30:00.000Z");
});

test("a day of the month and a day of the week mean either of them, also when the day of the month is a step", () => {
  const fromMs = Date.UTC(2026, 5, 1) - 1;
  const days = walk(cron("0 9 */10 * 1"), "UTC", { fromMs, toMs: Date.UTC(2026, 6, 1) }).map((at) =>
    new Date(at).getUTCDate(),
  );
  assert.deepEqual(days, [1, 8, 11, 15, 21, 22, 29]);
});
