import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../../../src/base/observe.ts";
import type { Store } from "../../../src/store/store.ts";
import { Deliveries, type EvaluatedRequest } from "../../../src/webhook/deliveries/deliveries.ts";

const requestOf = (bytes: number): EvaluatedRequest =>
  ({ request: { body: new Uint8Array(bytes) }, evaluated: {}, stages: [] }) as unknown as EvaluatedRequest;

test("an answer waits for its record only when many records are unwritten", async () => {
  const writes: { readonly end: () => void }[] = [];
  const write = () => new Promise<void>((resolve) => writes.push({ end: resolve }));
  const record = new Deliveries({ write } as unknown as Store);
  for (let n = 0; n < 7; n++) await record.recordStopped(requestOf(1_048_576));
  let isOver = false;
  const waiting = record.recordStopped(requestOf(2_000_000)).then(() => (isOver = true));
  await Promise.resolve();
  assert.equal(isOver, false);
  for (const { end } of writes) end();
  await waiting;
  await record.recordStopped(requestOf(1_048_576));
});

test("a record that cannot be written is logged, and rejects nothing", async () => {
  const lines: string[] = [];
  const write = () => Promise.reject(new Error("no space left"));
  const record = new Deliveries(
    { write } as unknown as Store,
    createLog("warn", (line) => void lines.push(line)),
  );
  await record.recordStopped(requestOf(9_000_000));
  assert.match(lines[0] ?? "", /cannot record.*no space left/);
});
