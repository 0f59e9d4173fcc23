import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../../../src/base/observe/log.ts";
import type { Store } from "../../../src/store/store.ts";
import { Deliveries, type DeliveryFacts } from "../../../src/webhook/deliveries/deliveries.ts";

const facts = (bytes: number): DeliveryFacts =>
  ({ request: { body: new Uint8Array(bytes) }, evaluated: {}, stages: [] }) as unknown as DeliveryFacts;

test("an answer waits for the record only when very much waits already", async () => {
  const writes: { readonly end: () => void }[] = [];
  const write = () => new Promise<void>((resolve) => writes.push({ end: resolve }));
  const record = new Deliveries({ write } as unknown as Store);
  for (let n = 0; n < 7; n++) await record.stopped(facts(1_048_576));
  let isOver = false;
  const waiting = record.stopped(facts(2_000_000)).then(() => (isOver = true));
  await Promise.resolve();
  assert.equal(isOver, false);
  for (const { end } of writes) end();
  await waiting;
  await record.stopped(facts(1_048_576));
});

test("a record that cannot be written fails nobody, and is told of", async () => {
  const lines: string[] = [];
  const write = () => Promise.reject(new Error("no space left"));
  const record = new Deliveries(
    { write } as unknown as Store,
    createLog("warn", (line) => void lines.push(line)),
  );
  await record.stopped(facts(9_000_000));
  assert.match(lines[0] ?? "", /could not be recorded.*no space left/);
});
