import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { Singleton } from "../../../src/deliver/platform/singleton.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";

const LEASE_MS = 30_000;

function singleton(store: Store, clock: FakeClock, name = "wecom:bot") {
  const lost = { count: 0 };
  const one = new Singleton({ store, clock, name, onLost: () => (lost.count += 1) });
  return { one, lost };
}

/** For what happens in the background and tells nobody. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = performance.now() + 60_000;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error("it did not come to pass");
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

async function twoProcesses(t: Parameters<typeof openTestStore>[0]) {
  const clock = new WatchedClock();
  const now = () => clock.now();
  const { store, openAnother } = await openTestStore(t, { now });
  const another = await openAnother({ now });
  return { clock, store, another, first: singleton(store, clock), second: singleton(another, clock) };
}

describe("singleton", () => {
  test("one of many concurrent processes gets the lease", async (t) => {
    const { first, second } = await twoProcesses(t);
    const taken = await Promise.all([first.one.take(), second.one.take(), first.one.take()]);
    assert.equal(taken[0], taken[2]);
    assert.notEqual(taken[0], taken[1]);
    const loser = taken[0] ? second : first;
    assert.equal(loser.one.isElsewhere, true);
    await Promise.all([first.one.giveBack(), second.one.giveBack()]);
  });

  test("leases of different names are independent", async (t) => {
    const { clock, store, another } = await twoProcesses(t);
    const [one, two] = [singleton(store, clock, "a"), singleton(another, clock, "b")];
    assert.deepEqual(await Promise.all([one.one.take(), two.one.take()]), [true, true]);
    await Promise.all([one.one.giveBack(), two.one.giveBack()]);
  });

  test("a released lease is free at once", async (t) => {
    const { first, second } = await twoProcesses(t);
    assert.equal(await first.one.take(), true);
    await first.one.giveBack();
    assert.equal(await second.one.take(), true);
    await second.one.giveBack();
  });

  test("a lease is renewed while it is held", async (t) => {
    const { clock, store, first, second } = await twoProcesses(t);
    await first.one.take();
    for (let n = 0; n < 9; n += 1) {
      const renewed = clock.next(LEASE_MS / 3);
      clock.tick(LEASE_MS / 3);
      await renewed;
      const row = await store.find("ledger", { scope: "singleton", key: "wecom:bot" });
      assert.equal(row?.expires_at, clock.now() + LEASE_MS);
    }
    assert.equal(await second.one.take(), false);
    assert.equal(first.lost.count, 0);
    await first.one.giveBack();
  });

  test("the lease of a dead process expires, and a waiting process notices", async (t) => {
    const { clock, store, second } = await twoProcesses(t);
    // Time stands still for the dead.
    const dead = singleton(store, new FakeClock(clock.now()));
    await dead.one.take();
    assert.equal(await second.one.take(), false);
    clock.tick(LEASE_MS - 1);
    assert.equal(second.one.isElsewhere, true);
    clock.tick(1);
    assert.equal(second.one.isElsewhere, true, "it looks first");
    await until(() => !second.one.isElsewhere);
    assert.equal(await second.one.take(), true);
    await second.one.giveBack();
  });

  test("a process that loses its lease to another stops", async (t) => {
    const clock = new FakeClock();
    const now = () => clock.now();
    const { store, openAnother } = await openTestStore(t, { now });
    const slow = new FakeClock(clock.now());
    const first = singleton(store, slow);
    const second = singleton(await openAnother({ now }), clock);
    await first.one.take();
    clock.tick(LEASE_MS);
    assert.equal(await second.one.take(), true);
    slow.tick(LEASE_MS);
    await until(() => first.lost.count === 1);
    await first.one.giveBack();
    assert.equal(await first.one.take(), false);
    await second.one.giveBack();
  });

  test("without the store a lease is kept until it may have expired, and then lost", async (t) => {
    const clock = new FakeClock();
    const { openAnother } = await openTestStore(t, { now: () => clock.now() });
    const store = await openAnother({ now: () => clock.now() });
    const { one, lost } = singleton(store, clock);
    await one.take();
    await store.close();
    for (let n = 0; n < 3 && lost.count === 0; n += 1) {
      clock.tick(LEASE_MS / 3);
      await until(() => lost.count === 1 || clock.pending > 0);
    }
    assert.equal(lost.count, 1);
    await assert.rejects(one.take());
    await one.giveBack();
  });
});
