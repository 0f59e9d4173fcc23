import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { abortable, waitAtMost } from "../../../src/base/time.ts";

const never = new Promise<never>(() => {});

test("work that ends in time gives its value, and leaves no timer", async () => {
  const clock = new FakeClock();
  assert.equal(await waitAtMost(clock, 1_000, Promise.resolve("done")), "done");
  await assert.rejects(waitAtMost(clock, 1_000, Promise.reject(new Error("no"))), /no/);
  assert.equal(clock.pending, 0);
});

test("work that hangs is left behind after its time", async () => {
  const clock = new FakeClock();
  const waiting = waitAtMost(clock, 1_000, never);
  clock.tick(1_000);
  assert.equal(await waiting, undefined);
});

test("an aborted signal ends the wait with its reason", async () => {
  const stop = new AbortController();
  const waiting = abortable(never, stop.signal);
  stop.abort(new Error("stopped"));
  await assert.rejects(waiting, /stopped/);
  await assert.rejects(abortable(never, stop.signal), /stopped/);
});
