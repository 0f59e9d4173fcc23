import assert from "node:assert/strict";
import { test } from "node:test";
import { LiveSessions } from "../../../src/agent/session/session.ts";
import { FakeClock } from "../../harness/fake-clock.ts";

const SIX_HOURS_MS = 6 * 3_600_000;
const seed = { source: "test" };

function setup(max = 2) {
  const clock = new FakeClock();
  return { clock, live: new LiveSessions({ clock, max }) };
}

test("a session is opened once; who opens it again gets the same, and keeps it awake", () => {
  const { clock, live } = setup();
  const first = live.open({ id: "a", owner: "o", seed });
  clock.tick(10);
  assert.equal(live.open({ id: "a", owner: "o", seed: { source: "other" } }), first);
  assert.equal(first.lastActiveAtMs, clock.now());
  assert.equal(live.size, 1);
});

test("another's session can be neither found, closed, nor taken over by opening it", () => {
  const { live } = setup();
  const mine = live.open({ id: "a", owner: "o", seed });
  assert.throws(() => live.open({ id: "a", owner: "stranger", seed }), { code: "session_not_found" });
  assert.equal(live.find("a", "stranger"), undefined);
  assert.equal(live.close("a", "stranger"), false);
  assert.deepEqual(live.list("stranger"), []);
  assert.equal(live.find("a", "o"), mine);
});

test("at the limit no session opens, but open ones are found, and closing one lets another open", () => {
  const { live } = setup();
  for (const id of ["a", "b"]) live.open({ id, owner: "o", seed });
  assert.throws(() => live.open({ id: "c", owner: "o", seed }), { code: "too_many_live_sessions" });
  live.open({ id: "a", owner: "o", seed });
  assert.equal(live.close("b", "o"), true);
  assert.equal(live.close("b", "o"), false);
  live.open({ id: "c", owner: "o", seed });
  assert.deepEqual(
    live.list("o").map(({ id }) => id),
    ["a", "c"],
  );
});

test("at the limit only sessions without viewers that were idle for six hours are closed", () => {
  const { clock, live } = setup(3);
  const watched = live.open({ id: "watched", owner: "o", seed });
  watched.viewers = 1;
  live.open({ id: "idle", owner: "o", seed });
  live.open({ id: "busy", owner: "o", seed });
  clock.tick(SIX_HOURS_MS);
  assert.throws(() => live.open({ id: "new", owner: "o", seed }), { code: "too_many_live_sessions" });
  clock.tick(1);
  live.touch("busy");
  live.touch("unknown");
  live.open({ id: "new", owner: "o", seed });
  assert.deepEqual(
    live.list("o").map(({ id }) => id),
    ["watched", "busy", "new"],
  );
});
