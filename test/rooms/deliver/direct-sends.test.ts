import assert from "node:assert/strict";
import { test } from "node:test";
import { offTracer } from "../../../src/base/trace.ts";
import { DirectSends } from "../../../src/deliver/direct-sends.ts";
import { createTargets, type SendOutcome } from "../../../src/deliver/target.ts";
import { openDispatch, owe, row, TestTarget } from "./dispatching.ts";

async function open(t: Parameters<typeof openDispatch>[0], targets: readonly TestTarget[]) {
  const { store, clock } = await openDispatch(t);
  const parts = { store, clock, tracer: offTracer, retryDelaysMs: [60_000] };
  const sends = new DirectSends({ ...parts, targets: createTargets(targets) });
  const claim = async (target: string) => {
    const id = await owe(store, { target, lane: null });
    const [claimed] = await store.write((tx) =>
      store.outbox.claim(tx, { ids: [id], limit: 1, leaseMs: 30_000 }),
    );
    return claimed!;
  };
  return { store, clock, sends, claim };
}

const hang = () => new Promise<SendOutcome>(() => {});

test("what our end cuts may have arrived: it is sent again only where the platform tells repeats", async (t) => {
  const plain = new TestTarget(hang, "plain");
  const knowing = Object.assign(new TestTarget(hang, "knowing"), { knowsRepeats: true });
  const { store, clock, sends, claim } = await open(t, [plain, knowing]);
  const [one, two] = [await claim("plain:a"), await claim("knowing:a")];
  const ends = [sends.send(one, 60_000), sends.send(two, 60_000)];
  await Promise.all([plain.count(1), knowing.count(1)]);
  const closed = sends.close(3_000);
  clock.tick(3_000);
  const [first, second] = await Promise.all(ends);
  await closed;
  assert.deepEqual([first?.status, second?.status], ["unknown", "stopped"]);
  assert.equal((await sends.send(one, 60_000)).status, "stopped", "after the end nothing begins");
  await store.write(async (tx) => {
    await sends.record(tx, one, first!);
    await sends.record(tx, two, second!);
  });
  assert.deepEqual(
    [(await row(store, one.id)).status, (await row(store, two.id)).status],
    ["unknown", "due"],
  );
});

test("an attempt that takes too long may have arrived; parts that did are kept", async (t) => {
  const target = new TestTarget(async (_, { progress }) => {
    await progress(2);
    return hang();
  }, "plain");
  const { store, clock, sends, claim } = await open(t, [target]);
  const message = await claim("plain:a");
  const end = sends.send(message, 8_000);
  while ((await row(store, message.id)).parts_sent < 2) await new Promise((go) => setImmediate(go));
  clock.tick(8_000);
  assert.equal((await end).status, "unknown");
});
