import assert from "node:assert/strict";
import { test } from "node:test";
import { wordsOf } from "../../../src/console/pages/schedule/words.ts";

const WORDS = {
  "every 1m": "Every minute",
  "every 90m": "Every 90 minutes",
  "every 2h": "Every 2 hours",
  "every 1d": "Every day",
  "2026-12-24T17:00:00Z": "Once",
  "* * * * *": "Every minute",
  "*/15 * * * *": "Every 15 minutes",
  "*/15 9-17 * * *": "Every 15 minutes from 09:00 to 17:59",
  "0 * * * *": "Every hour",
  "5 * * * *": "Every hour at 5 minutes past",
  "0 */6 * * *": "Every 6 hours",
  "30 */6 * * *": "Every 6 hours at minute 30",
  "0 9 * * *": "Every day at 09:00",
  "0 9,17 * * *": "Every day at 09:00 and 17:00",
  "0,30 9 * * *": "Every day at 09:00 and 09:30",
  "0 9 * * 1-5": "On weekdays at 09:00",
  "0 9 * * MON-FRI": "On weekdays at 09:00",
  "0 9 * * 6,0": "On weekends at 09:00",
  "0 9 * * 6,7": "On weekends at 09:00",
  "0 9 * * 0-6": "Every day at 09:00",
  "30 17 * * 1,3": "On Mondays and Wednesdays at 17:30",
  "0 7 * * sun": "On Sundays at 07:00",
  "0 8 1 * *": "On the 1st at 08:00",
  "0 8 1,2,3,11,22 * *": "On the 1st, 2nd, 3rd, 11th and 22nd at 08:00",
  "0 8 1 1,7 *": "On the 1st in January and July at 08:00",
  "0 8 * DEC *": "Every day in December at 08:00",
  "0 8 13 * 5": "On the 13th and on Fridays at 08:00",
  "*/10 * * * 1-5": "On weekdays every 10 minutes",
  "@hourly": "Every hour",
  "@daily": "Every day at 00:00",
  "@weekly": "On Sundays at 00:00",
  "@yearly": "On the 1st in January at 00:00",
} as const;

for (const [schedule, words] of Object.entries(WORDS)) {
  test(`${schedule} is ${JSON.stringify(words)}`, () => assert.equal(wordsOf(schedule), words));
}

for (const schedule of [
  "0 8 L * *",
  "0 8 * * 5#2",
  "0 8 15W * *",
  "*/7 * * * *",
  "0 */5 * * *",
  "",
  "0 8 * *",
]) {
  test(`${JSON.stringify(schedule)} has no short description, and gets none`, () =>
    assert.equal(wordsOf(schedule), undefined));
}
