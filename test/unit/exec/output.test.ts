import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { OutputExcerpt, OutputRing } from "../../../src/exec/output.ts";
import { forgetSecret, registerSecret } from "../../../src/base/observe.ts";

/** Characters of one to four bytes, and of two units. */
const text = fc.string({ unit: fc.constantFrom("a", "é", "€", "😀", " "), maxLength: 40 });
/** The bytes of a text in pieces, cut anywhere. */
const pieces = fc
  .tuple(text, fc.array(fc.nat(200), { maxLength: 6 }))
  .map(([whole, cuts]) => ({ whole, parts: split(new TextEncoder().encode(whole), cuts) }));

function split(bytes: Uint8Array, cuts: readonly number[]): readonly Uint8Array[] {
  const offsets = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...offsets].map((from, index) => bytes.subarray(from, offsets[index] ?? bytes.length));
}

test("the output of a background process shows no broken character, however much of it is dropped", () => {
  fc.assert(
    fc.property(pieces, fc.integer({ min: 4, max: 60 }), ({ whole, parts }, max) => {
      const ring = new OutputRing(max);
      for (const part of parts) ring.push(part);
      const shown = ring.take(true);
      const kept = shown.replace(/^\[\.\.\. \d+ bytes dropped here \.\.\.\]\n/, "");
      assert.ok(whole.endsWith(kept), shown);
      const dropped = Number(/^\[\.\.\. (\d+) /.exec(shown)?.[1] ?? 0);
      assert.equal(dropped + Buffer.byteLength(kept), Buffer.byteLength(whole));
    }),
  );
});

test("the kept beginning and end of an output are cut between characters", () => {
  fc.assert(
    fc.property(pieces, fc.integer({ min: 4, max: 60 }), ({ whole, parts }, max) => {
      const excerpt = new OutputExcerpt(max);
      for (const part of parts) excerpt.push(part);
      const found = /^(.*)\n\[\.\.\. (\d+) bytes omitted \.\.\.\]\n(.*)$/su.exec(excerpt.text());
      const shown = found ? `${found[1]}${found[3]}` : excerpt.text();
      assert.ok(!shown.includes("\ufffd"), shown);
      if (!found) return;
      const [, head = "", cut = "", tail = ""] = found;
      assert.ok(whole.startsWith(head));
      assert.ok(whole.endsWith(tail));
      assert.ok(Number(cut) + Buffer.byteLength(head + tail) <= Buffer.byteLength(whole));
    }),
  );
});

test("half of a known secret never remains where an output was cut", () => {
  const secret = "correct-horse-battery";
  registerSecret(secret);
  try {
    for (let before = 0; before <= 200; before += 1) {
      const excerpt = new OutputExcerpt(100);
      excerpt.push(Buffer.from(`${"x".repeat(before)}${secret}${"y".repeat(200 - before)}`));
      const shown = excerpt.text().replaceAll(secret, "");
      for (let from = 0; from <= secret.length - 6; from += 1) {
        assert.ok(!shown.includes(secret.slice(from, from + 6)), `${before}: ${shown}`);
      }
    }
  } finally {
    forgetSecret(secret);
  }
});
