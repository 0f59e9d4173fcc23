import assert from "node:assert/strict";
import { test } from "node:test";
import { offTracer } from "../../../src/base/observe.ts";
import {
  meterTargets,
  type DeliveryMetrics,
  createTargets,
  type Delivery,
  type SendOutcome,
  type Target,
} from "../../../src/deliver/target.ts";

const delivery: Delivery = {
  id: "out_1",
  address: "a",
  payload: { text: "private" },
  ref: undefined,
  attempt: 1,
  partsSent: 0,
  createdAtMs: 1_000,
};

function meter(target: Target) {
  const counted: string[] = [];
  const metrics: DeliveryMetrics = {
    attempted: (platform, outcome) => void counted.push(`${platform} ${outcome}`),
    delivered: (platform, seconds) => void counted.push(`${platform} after ${seconds} s`),
  };
  const metered = meterTargets(createTargets([target]), { metrics, clock: { now: () => 3_500 } }).get(
    target.name,
  );
  return { metered: metered ?? assert.fail(), counted };
}

const options = (signal = new AbortController().signal) => ({
  signal,
  span: offTracer.start("send", {}),
  progress: async () => {},
});

test("each outcome is counted once and returned unchanged, a delivery with its age", async () => {
  const outcomes: readonly (readonly [SendOutcome, readonly string[]])[] = [
    [{ status: "delivered" }, ["chat delivered", "chat after 2.5 s"]],
    [{ status: "retry", error: "e" }, ["chat retry"]],
    [{ status: "retry", error: "e", isThrottled: true }, ["chat throttled"]],
    [{ status: "unknown", error: "e" }, ["chat unknown"]],
    [{ status: "permanent", error: "e" }, ["chat permanent"]],
  ];
  for (const [outcome, wanted] of outcomes) {
    const { metered, counted } = meter({ name: "chat", send: async () => outcome });
    assert.equal(await metered.send(delivery, options()), outcome);
    assert.deepEqual(counted, wanted);
  }
});

test("an error of a target counts as a retry and is rethrown", async () => {
  const send = async () => Promise.reject(new Error("boom"));
  const { metered, counted } = meter({ name: "chat", send });
  await assert.rejects(metered.send(delivery, options()), /boom/);
  assert.deepEqual(counted, ["chat retry"]);
});

test("a cut attempt counts as cut although its target ends later", async () => {
  const late = Promise.withResolvers<SendOutcome>();
  const cut = new AbortController();
  const { metered, counted } = meter({ name: "chat", send: () => late.promise });
  const sent = metered.send(delivery, options(cut.signal));
  cut.abort();
  assert.deepEqual(counted, ["chat cut"]);
  late.resolve({ status: "delivered" });
  await sent;
  assert.deepEqual(counted, ["chat cut"]);
});

test("the properties of a metered target are read from the target", async () => {
  class Chat implements Target {
    readonly name = "chat";
    readonly isOrdered = false;
    #isClosed = false;
    get home() {
      return this.#isClosed ? "gone" : "room";
    }
    isReady() {
      return !this.#isClosed;
    }
    async send(): Promise<SendOutcome> {
      return { status: "delivered" };
    }
    async close() {
      this.#isClosed = true;
    }
  }
  const { metered } = meter(new Chat());
  assert.deepEqual([metered.isOrdered, metered.home, metered.isReady?.()], [false, "room", true]);
  await metered.close?.();
  assert.deepEqual([metered.home, metered.isReady?.(), metered.concurrency], ["gone", false, undefined]);
});
