import assert from "node:assert/strict";
import { test } from "node:test";
import { planCompression, planWithin, quoteForSummary } from "../../../src/agent/context/compression.ts";
import type { NumberedMessage, Message } from "../../../src/agent/engine.ts";

/** u: prompt, a: answer, c2: two calls, t: a tool's answer. */
function conversation(shape: string): NumberedMessage[] {
  const messages = shape.split(" ").map((letter): Message => {
    if (letter === "u") return { role: "user", text: "u" };
    if (letter === "t") return { role: "tool", callId: "1", tool: "x", status: "ok", text: "t" };
    if (letter === "a") return { role: "assistant", parts: [{ type: "text", text: "a" }] };
    const calls = Array.from({ length: Number(letter.slice(1)) }, (_, n) => ({
      type: "tool_call" as const,
      callId: `${n}`,
      tool: "x",
      input: {},
    }));
    return { role: "assistant", parts: calls };
  });
  return messages.map((message, seq) => ({ seq, message }));
}

const letters = ({ message }: NumberedMessage) => message.role[0];

test("no tool's answer is separated from its call, whatever the conversation and the number of kept messages", () => {
  const shapes = [
    "u a u a u a",
    "u c1 t c1 t c1 t a",
    "u c3 t t t c2 t t a u a",
    "u c9 t t t t t t t t t",
    "u a u c2 t t",
    "a t a t a",
    "u u u u",
  ];
  for (const shape of shapes) {
    for (let keep = 0; keep <= 12; keep++) {
      const context = conversation(shape);
      const plan = planCompression(context, keep);
      if (!plan) continue;
      assert.deepEqual([...plan.older, ...plan.kept], context);
      assert.ok(plan.kept.length >= Math.max(1, keep), `${shape}, keep ${keep}`);
      assert.notEqual(plan.kept[0]?.message.role, "tool", `${shape}, keep ${keep}`);
      assert.ok(plan.older.length >= 2);
    }
  }
});

test("the cut is before a prompt when one is near", () => {
  const plan = planCompression(conversation("u a u a u c1 t a u a"), 3);
  assert.deepEqual(plan?.kept.map(letters), ["u", "a", "t", "a", "u", "a"]);
});

test("a short conversation has no plan", () => {
  for (const shape of ["u", "u a", "u c1 t"]) {
    assert.equal(planCompression(conversation(shape), 4), undefined);
    assert.equal(planCompression(conversation(shape), 100), undefined);
  }
  assert.equal(planCompression([], 0), undefined);
});

test("fewer messages are kept where they would fill the context again", () => {
  const context = conversation("u a c1 t c1 t c1 t").map(({ seq, message }) => ({
    seq,
    message: message.role === "tool" ? { ...message, text: "x".repeat(40_000) } : message,
  }));
  const kept = (maxTokens: number) => planWithin(context, { keep: 6, maxTokens })?.kept.map(letters);
  assert.deepEqual(kept(50_000), ["a", "t", "a", "t", "a", "t"]);
  assert.deepEqual(kept(25_000), ["a", "t", "a", "t"]);
  assert.deepEqual(kept(15_000), ["a", "t"]);
  assert.deepEqual(kept(100), ["a", "t"], "the newest step stays whole");
});

test("the text for the summary keeps its limit, and says what was left out", () => {
  const long = conversation(Array.from({ length: 40 }, () => "u a").join(" ")).map((numbered) => ({
    ...numbered,
    message: { role: "user", text: `${numbered.seq} ${"x".repeat(9_000)}` } as Message,
  }));
  for (const limit of [1_000, 50_000]) {
    const text = quoteForSummary(long, limit);
    assert.ok(text.length <= limit, `${text.length} > ${limit}`);
    assert.match(text, /characters left out/);
    assert.match(text, /^USER: 0 /);
  }
  const call = conversation("u c1 t a");
  assert.match(quoteForSummary(call, 10_000), /\(called x with \{\}\)\n\nTOOL x \(ok\): t/);
});

test("an image is represented by its name in the text for the summary", () => {
  const attachments = [{ type: "image" as const, mediaType: "image/png", name: "cat.png", data: "QUJD" }];
  const text = quoteForSummary([{ seq: 1, message: { role: "user", text: "see", attachments } }], 1_000);
  assert.equal(text, "USER: see\n(image cat.png)");
});
