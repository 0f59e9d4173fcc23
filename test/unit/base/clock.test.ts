import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../../src/base/time.ts";
import { FakeClock } from "../../harness/fake-clock.ts";

test("the fake clock does not move by itself", () => {
  const clock = new FakeClock(1000);
  assert.equal(clock.now(), 1000);
  clock.tick(5);
  assert.equal(clock.now(), 1005);
});

test("the fake clock runs timers in the order they are due, each at its own instant", () => {
  const clock = new FakeClock(0);
  const ran: [string, number][] = [];
  const note = (name: string) => () => void ran.push([name, clock.now()]);
  clock.after(30, note("c"));
  clock.after(10, note("a"));
  clock.after(10, note("b"));
  clock.after(31, note("late"));
  clock.tick(30);
  assert.deepEqual(ran, [
    ["a", 10],
    ["b", 10],
    ["c", 30],
  ]);
  assert.equal(clock.pending, 1);
});

test("a timer that a timer sets runs in the same tick when it is due", () => {
  const clock = new FakeClock(0);
  const ran: number[] = [];
  const again = () => {
    ran.push(clock.now());
    if (ran.length < 5) clock.after(10, again);
  };
  clock.after(10, again);
  clock.tick(35);
  assert.deepEqual(ran, [10, 20, 30]);
  clock.tick(100);
  assert.deepEqual(ran, [10, 20, 30, 40, 50]);
});

test("a timer that another timer cancels does not run", () => {
  const clock = new FakeClock(0);
  let ran = false;
  const cancel = clock.after(2, () => (ran = true));
  clock.after(1, cancel);
  clock.tick(5);
  cancel();
  assert.equal(ran, false);
  assert.equal(clock.pending, 0);
});

for (const [name, make] of [
  ["fake", () => new FakeClock(0)],
  ["system", () => systemClock],
] as const) {
  test(`the ${name} clock's sleep rejects with the signal's reason when it aborts`, async () => {
    const reason = new Error("enough");
    const controller = new AbortController();
    const sleeping = make().sleep(1_000_000, { signal: controller.signal });
    controller.abort(reason);
    await assert.rejects(sleeping, (error) => error === reason);
  });

  test(`the ${name} clock's sleep rejects at once for a signal that has aborted`, async () => {
    const reason = new Error("too late");
    await assert.rejects(
      make().sleep(1_000_000, { signal: AbortSignal.abort(reason) }),
      (error) => error === reason,
    );
  });
}

test("an aborted sleep leaves no timer behind, and one that ended leaves no listener", async () => {
  const clock = new FakeClock(0);
  const controller = new AbortController();
  const cut = clock.sleep(10, { signal: controller.signal });
  controller.abort(new Error("cut"));
  await assert.rejects(cut);
  assert.equal(clock.pending, 0);
  const other = new AbortController();
  const slept = clock.sleep(10, { signal: other.signal });
  clock.tick(10);
  other.abort(new Error("nobody listens"));
  await slept;
});

test("the system clock's after can be cancelled, and runs once", async () => {
  let cancelled = 0;
  const cancel = systemClock.after(0, () => cancelled++);
  cancel();
  const ran = await new Promise<number>((resolve) => {
    let count = 0;
    systemClock.after(0, () => count++);
    setTimeout(() => resolve(count), 20);
  });
  assert.deepEqual([cancelled, ran], [0, 1]);
});
