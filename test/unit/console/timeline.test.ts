import assert from "node:assert/strict";
import { test } from "node:test";
import type { CalendarEntry, Occurrence } from "../../../generated/http/client/types.gen.ts";
import {
  dateIn,
  daysOf,
  nextDay,
  rowsOf,
  startOfDate,
  startOfDay,
} from "../../../src/console/pages/schedule/timeline-layout.ts";

const HOUR = 3_600;
const FROM = Date.parse("2026-11-20T00:00Z") / 1_000;
const WINDOW = { from: FROM, to: FROM + 100 * HOUR };

const base: Occurrence = {
  object: "agent.occurrence",
  id: "occ_1",
  owner: "default",
  job_id: "job_1",
  job_name: "tea",
  scheduled_at: FROM + 10 * HOUR,
  cause: "schedule",
  timing: "on_time",
  status: "ok",
  reason: null,
  covers_until: null,
  covers_count: 1,
  claimed_at: FROM + 10 * HOUR,
  started_at: FROM + 10 * HOUR,
  ended_at: FROM + 10 * HOUR + 5,
  run_id: null,
  session_id: null,
  has_output: false,
  output_file: null,
  delivery_status: "none",
  delivery_error: null,
  messages: null,
};

function planned(hours: number): CalendarEntry {
  return {
    kind: "planned",
    job_id: "job_1",
    job_name: "tea",
    scheduled_at: FROM + hours * HOUR,
    status: null,
    occurrence_id: null,
    covers_count: 1,
  };
}

function rows(
  occurrences: readonly Partial<Occurrence>[],
  entries: readonly CalendarEntry[] = [],
  slots = 100,
) {
  const all = occurrences.map((each, index) => ({ ...base, id: `occ_${index}`, ...each }));
  return rowsOf({ occurrences: all, planned: entries }, WINDOW, slots);
}

test("a time stands where it belongs in the window, marked by how it went", () => {
  const [row] = rows([{ status: "failed" }], [planned(75)]);
  assert.deepEqual(
    row?.marks.map(({ mark, left, width }) => ({ mark, left, width })),
    [
      { mark: "failed", left: 10, width: 0 },
      { mark: "planned", left: 75, width: 0 },
    ],
  );
});

test("a run after its time is late, and says by how much", () => {
  const [row] = rows([{ timing: "late", started_at: base.scheduled_at + 720 }]);
  assert.equal(row?.marks[0]?.mark, "late");
  assert.equal(row?.marks[0]?.note, "12 min late");
});

test("missed times are a span as long as they lasted, and count each of them", () => {
  const [row] = rows([{ status: "missed", covers_until: FROM + 30 * HOUR, covers_count: 21 }]);
  assert.deepEqual([row?.marks[0]?.left, row?.marks[0]?.width], [10, 20]);
  assert.equal(row?.counts.get("missed"), 21);
});

test("a span that begins before the window or ends after it is cut at its edges", () => {
  const [row] = rows([
    { status: "missed", scheduled_at: FROM - HOUR, covers_until: FROM + 400 * HOUR, covers_count: 9 },
  ]);
  assert.deepEqual([row?.marks[0]?.left, row?.marks[0]?.width], [0, 100]);
});

test("times that share a place become one mark, which shows the worst of them", () => {
  const minute = (at: number) => ({ scheduled_at: base.scheduled_at + at * 60 });
  const [row] = rows([minute(0), { ...minute(1), status: "failed" }, minute(2)]);
  assert.deepEqual(
    row?.marks.map(({ mark, count }) => [mark, count]),
    [["failed", 3]],
  );
  assert.equal(row?.counts.get("done"), 2);
});

test("a job of each minute is at most as many marks as fit", () => {
  const each = Array.from({ length: 2_000 }, (_, at) => ({ scheduled_at: FROM + at * 60 }));
  const [row] = rows(each, [], 40);
  assert.ok((row?.marks.length ?? 0) <= 40);
  assert.equal(
    row?.marks.reduce((sum, { count }) => sum + count, 0),
    2_000,
  );
});

test("rows are sorted by the names of their jobs", () => {
  const found = rows([
    { job_id: "b", job_name: "water" },
    { job_id: "a", job_name: "air" },
  ]);
  assert.deepEqual(
    found.map(({ jobName }) => jobName),
    ["air", "water"],
  );
});

test("days begin at midnight of the zone, with 23 and 25 hours where the clock changes", () => {
  for (const [from, days, lengths] of [
    ["2026-03-28", 3, [24, 23, 24]],
    ["2026-10-24", 3, [24, 25, 24]],
  ] as const) {
    const start = startOfDate(from, "Europe/Paris") ?? 0;
    const window = { from: start, to: nextDay(start, "Europe/Paris", days) };
    const starts = daysOf(window, "Europe/Paris").map(({ at }) => at);
    const ends = [...starts.slice(1), window.to];
    assert.deepEqual(
      starts.map((at, index) => ((ends[index] ?? 0) - at) / HOUR),
      lengths,
    );
  }
});

test("a zone whose clock skips midnight still has each day once", () => {
  // Santiago goes from 23:59 to 01:00 in September.
  const zone = "America/Santiago";
  const start = startOfDate("2026-09-04", zone) ?? 0;
  const window = { from: start, to: nextDay(start, zone, 4) };
  assert.deepEqual(
    daysOf(window, zone).map(({ at }) => dateIn(at, zone)),
    ["2026-09-04", "2026-09-05", "2026-09-06", "2026-09-07"],
  );
});

test("going a day back and forth returns to the same midnight, all through the year", () => {
  for (const zone of [
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Pacific/Auckland",
  ]) {
    let at = startOfDay(Date.parse("2026-01-01T12:00Z") / 1_000, zone);
    for (let day = 0; day < 365; day++) {
      const next = nextDay(at, zone);
      assert.equal(nextDay(next, zone, -1), at, `${zone} ${dateIn(at, zone)}`);
      assert.equal(startOfDate(dateIn(next, zone), zone), next);
      at = next;
    }
  }
});

test("other text than a date begins no window", () => {
  for (const text of ["", "yesterday", "2026-13-40", "2026-02-30x"])
    assert.equal(startOfDate(text, "UTC"), undefined);
});
