/** A child of small-heap.test.ts: works as a service with long answers does, and prints how large its young generation became. */
import process from "node:process";
import { setImmediate } from "node:timers/promises";
import v8 from "node:v8";
import { boundHeap, keepHeapSmall } from "../../../src/cli/kit/runtime.ts";

const MB = 1_048_576;
/** Megabytes that are held at any time, and that go through in all. */
const HELD = 60;
const ALL = 360;

const policies: Readonly<Record<string, () => void>> = {
  default: () => {},
  editor: keepHeapSmall,
  service: boundHeap,
};
policies[process.argv[2] ?? ""]?.();

const held: unknown[] = [];
let newBytes = 0;
for (let at = 0; at < ALL; at += 1) {
  // Every other one is many small objects: they are what makes the space of new objects grow.
  held[at % HELD] = at % 2 === 0 ? `${at} `.padEnd(MB, "A long answer. ") : smallObjects(at);
  await setImmediate();
  const space = v8.getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
  newBytes = Math.max(newBytes, space?.space_size ?? 0);
}
console.log(JSON.stringify({ newSpaceMb: newBytes / MB }));

function smallObjects(at: number): unknown[] {
  const objects: { readonly at: number }[] = [];
  for (let n = 0; n < 20_000; n += 1) objects.push({ at: at + n });
  return objects;
}
