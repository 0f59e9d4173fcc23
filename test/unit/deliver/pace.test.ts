import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { Pace } from "../../../src/deliver/platform/robot-webhook.ts";

describe("pace", () => {
  test("allows the limit in any window and returns how long the next call must wait", () => {
    const clock = new FakeClock();
    const pace = new Pace({ clock, limit: 2, windowMs: 60_000 });
    assert.equal(pace.take(), 0);
    clock.tick(10_000);
    assert.equal(pace.take(), 0);
    assert.equal(pace.take(), 50_000);
    assert.equal(pace.waitMs, 50_000);
    clock.tick(49_999);
    assert.equal(pace.take(), 1);
    clock.tick(1);
    assert.equal(pace.take(), 0);
    assert.equal(pace.take(), 10_000);
  });

  test("a call that must wait is not counted", () => {
    const clock = new FakeClock();
    const pace = new Pace({ clock, limit: 1, windowMs: 1_000 });
    pace.take();
    for (let n = 0; n < 100; n += 1) assert.equal(pace.take(), 1_000);
    clock.tick(1_000);
    assert.equal(pace.take(), 0);
  });

  test("blocks for the longest time that the platform asked for", () => {
    const clock = new FakeClock();
    const pace = new Pace({ clock, limit: 5, windowMs: 1_000 });
    pace.hold(600_000);
    pace.hold(60_000);
    assert.equal(pace.take(), 600_000);
    clock.tick(600_000);
    assert.equal(pace.take(), 0);
  });

  test("a clock that is set back does not lengthen a wait", () => {
    const clock = new FakeClock();
    const pace = new Pace({ clock, limit: 1, windowMs: 60_000 });
    pace.take();
    clock.tick(10_000);
    assert.equal(pace.waitMs, 50_000);
    clock.tick(-86_400_000);
    assert.equal(pace.waitMs, 50_000);
    pace.hold(600_000);
    clock.tick(-86_400_000);
    assert.equal(pace.waitMs, 600_000);
    clock.tick(600_000);
    assert.equal(pace.take(), 0);
  });
});
