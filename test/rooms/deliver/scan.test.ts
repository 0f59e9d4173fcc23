import assert from "node:assert/strict";
import { test } from "node:test";
import { Scan } from "../../../src/deliver/scan.ts";

const none = { targets: [], platforms: [] };
const busy = (...targets: string[]) => ({ targets, platforms: ["sms"] });

test("what busy targets are owed is passed over while they are busy", () => {
  const scan = new Scan();
  assert.equal(scan.begin(busy("a:1"), 100_000), 0);
  scan.end(90_000, 100_000, 100_000);
  assert.equal(scan.begin(busy("a:1"), 100_001), 90_000);
  assert.equal(scan.begin(busy("a:1", "a:2"), 100_002), 90_000, "one more is busy");
  assert.equal(scan.begin(busy("a:2"), 100_003), 0, "one is free");
  scan.end(90_000, 100_003, 100_003);
  assert.equal(scan.begin(none, 100_004), 0, "a platform is free");
});

test("what may still be committed is not passed over, nor anything for more than 5 s", () => {
  const scan = new Scan();
  scan.begin(none, 100_000);
  scan.end(undefined, 100_000, 100_000);
  assert.equal(scan.begin(none, 100_001), 95_000);
  scan.end(200_000, 100_001, 100_001);
  assert.equal(scan.begin(none, 105_000), 95_001);
  assert.equal(scan.begin(none, 105_001), 0);
});

test("looks from the beginning that take long are made less often, and asked for again", () => {
  const scan = new Scan();
  scan.begin(busy("a:1"), 100_000);
  assert.equal(scan.end(90_000, 100_050, 100_050), Number.POSITIVE_INFINITY);
  assert.equal(scan.begin(none, 100_100), 90_000);
  assert.equal(scan.end(90_000, 100_110, 100_110), 140);
  assert.equal(scan.begin(none, 100_250), 0);
});
