import assert from "node:assert/strict";
import { test } from "node:test";
import { Slots } from "../../../src/deliver/outbox/dispatch.ts";
import { createTargets } from "../../../src/deliver/target.ts";

const single = { name: "single", concurrency: 1, send: async () => ({ status: "delivered" }) as const };
const create = (total: number) => new Slots(createTargets([single]), { total, perAddress: 2 });
const messages = (...targets: string[]) =>
  targets.map((target, index) => ({ id: String(index), target, ordering_key: null }));
const chosen = (slots: Slots, ...targets: string[]) =>
  slots
    .choose(messages(...targets))
    .map(({ id }) => id)
    .join("");

test("messages are chosen in order within the limits per address, per platform and in total", () => {
  const slots = create(5);
  assert.equal(chosen(slots, "a:1", "a:1", "a:1", "a:2", "single:1", "single:2", "b:1", "b:2"), "0134" + "6");
  assert.equal(chosen(slots, "a:1", "a:1"), "01", "choosing alone takes nothing");
});

test("a slot counts until it is released", () => {
  const slots = create(3);
  const leave = [
    slots.take({ target: "a:1", ordering_key: null }),
    slots.take({ target: "a:1", ordering_key: null }),
    slots.take({ target: "single:x", ordering_key: null }),
  ];
  assert.equal(slots.isFull, true);
  assert.deepEqual(slots.busy, { targets: ["a:1"], platforms: ["single"] });
  leave[2]?.();
  assert.deepEqual(slots.busy, { targets: ["a:1"], platforms: [] });
  assert.equal(chosen(slots, "a:1", "single:y", "b:1"), "1");
  leave[0]?.();
  leave[1]?.();
  assert.deepEqual(slots.busy, { targets: [], platforms: [] });
  assert.equal(slots.isFull, false);
});

test("a message with an ordering key counts only for its platform", () => {
  const slots = create(5);
  const ordered = ["a", "a:1", "a", "a", "single:1", "single:2"].map((target) => ({
    target,
    ordering_key: "x",
  }));
  assert.deepEqual(slots.choose(ordered), ordered.slice(0, 5));
  for (let i = 0; i < 4; i++) slots.take({ target: "a", ordering_key: "x" });
  assert.deepEqual(slots.busy, { targets: [], platforms: [] });
});
