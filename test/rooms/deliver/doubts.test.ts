import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../src/base/clock.ts";
import { offTracer } from "../../../src/base/trace.ts";
import { createDoubts } from "../../../src/deliver/doubts.ts";
import { repeatMark } from "../../../src/deliver/repeat-mark.ts";
import type { Delivery, SendOutcome } from "../../../src/deliver/target.ts";

const unknown: SendOutcome = { status: "unknown", error: "It may have arrived." };
const retry: SendOutcome = { status: "retry", error: "Not now." };
const delivered: SendOutcome = { status: "delivered" };

function place() {
  const clock = new FakeClock();
  const once = createDoubts({ title: "Chat", clock, windowMs: 60_000 });
  const send = (outcome: SendOutcome | Error, id = "out_01", signal = new AbortController().signal) => {
    const delivery: Delivery = {
      id,
      address: "",
      payload: {},
      ref: undefined,
      attempt: 1,
      partsSent: 0,
      createdAtMs: 0,
    };
    const options = { signal, span: offTracer.start("send", {}), progress: async () => {} };
    return once(delivery, options, async () => {
      if (outcome instanceof Error) throw outcome;
      return outcome;
    });
  };
  return { clock, send };
}

test("what may have arrived is sent again as long as the platform tells repeats, counted from the first time", async () => {
  const { clock, send } = place();
  assert.equal((await send(unknown)).status, "unknown");
  clock.tick(40_000);
  assert.equal((await send(unknown)).status, "unknown");
  clock.tick(20_001);
  const late = await send(delivered);
  assert.equal(late.status === "unknown" && late.isFinal, true);
  assert.match((late as { error: string }).error, /may have arrived.*deliveries retry/);
});

test("a refusal in between does not settle whether it arrived; an arrival and a final refusal do", async () => {
  const { clock, send } = place();
  await send(unknown, "out_01");
  await send(retry, "out_01");
  await send(unknown, "out_02");
  await send(delivered, "out_02");
  await send(unknown, "out_03");
  await send({ status: "permanent", error: "Never." }, "out_03");
  clock.tick(60_001);
  assert.equal((await send(delivered, "out_01")).status, "unknown");
  assert.equal((await send(delivered, "out_02")).status, "delivered");
  assert.equal((await send(delivered, "out_03")).status, "delivered");
});

test("people who looked may send it again", async () => {
  const { clock, send } = place();
  await send(unknown);
  clock.tick(60_001);
  assert.equal((await send(delivered)).status, "unknown");
  assert.equal((await send(delivered)).status, "delivered");
});

test("an attempt that was cut may have arrived; one that threw by itself has not", async () => {
  const { clock, send } = place();
  const cut = AbortSignal.abort(new Error("The attempt is over."));
  await assert.rejects(send(new Error("cut"), "out_01", cut));
  await assert.rejects(send(new Error("a mistake"), "out_02"));
  clock.tick(60_001);
  assert.equal((await send(delivered, "out_01")).status, "unknown");
  assert.equal((await send(delivered, "out_02")).status, "delivered");
});

test("a thousand doubts are remembered, the newest", async () => {
  const { clock, send } = place();
  for (let index = 0; index <= 1_000; index += 1) await send(unknown, `out_${index}`);
  clock.tick(60_001);
  assert.equal((await send(delivered, "out_0")).status, "delivered");
  assert.equal((await send(delivered, "out_1")).status, "unknown");
  assert.equal((await send(delivered, "out_1000")).status, "unknown");
});

test("the mark of a part fits, is always the same, and is another for each part and message", () => {
  const id = "out_01jd0a1b2c3d4e5f6g7h8j9kmn";
  assert.equal(repeatMark({ id }, 3, 50), `${id}.3`);
  const marks = [0, 1, 2].flatMap((part) => [
    repeatMark({ id }, part, 25),
    repeatMark({ id: `${id}x` }, part, 25),
  ]);
  assert.ok(marks.every((mark) => mark.length === 25));
  assert.equal(new Set(marks).size, 6);
  assert.equal(repeatMark({ id }, 0, 25), marks[0]);
});
