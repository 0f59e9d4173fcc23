import assert from "node:assert/strict";
import { test } from "node:test";
import { offTracer } from "../../../src/base/observe.ts";
import { sendParts, type Delivery, type SendOutcome } from "../../../src/deliver/target.ts";

async function send(partsSent: number, parts: readonly string[], outcome?: SendOutcome) {
  const sent: string[] = [];
  const noted: number[] = [];
  const delivery: Delivery = {
    id: "out_01",
    address: "",
    payload: {},
    ref: undefined,
    attempt: 2,
    partsSent,
    createdAtMs: 0,
  };
  const options = {
    signal: new AbortController().signal,
    span: offTracer.start("send", {}),
    progress: async (count: number) => void noted.push(count),
  };
  const end = await sendParts(parts, { delivery, options }, async (part) => {
    sent.push(part);
    return outcome ?? { status: "delivered" };
  });
  return { end, sent, noted };
}

test("parts go from the first that has not arrived, each noted before the next", async () => {
  assert.deepEqual(await send(1, ["a", "b", "c"]), {
    end: { status: "delivered" },
    sent: ["b", "c"],
    noted: [2],
  });
});

test("a part that does not get through is the outcome, and nothing goes behind it", async () => {
  const retry = { status: "retry", error: "Not now." } as const;
  assert.deepEqual(await send(0, ["a", "b"], retry), { end: retry, sent: ["a"], noted: [] });
});

test("a text in fewer parts than have arrived is cut otherwise by now: none of it is taken for delivered", async () => {
  for (const partsSent of [2, 3, 40]) {
    const { end, sent } = await send(partsSent, ["a", "b"]);
    assert.deepEqual(end, { status: "delivered" });
    assert.deepEqual(sent, ["a", "b"], `${partsSent} parts`);
  }
  assert.deepEqual((await send(1, ["a"])).sent, ["a"]);
});
