import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Lines } from "../../../src/base/text.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const all = (lines: Lines, ...chunks: Uint8Array[]) => [
  ...chunks.flatMap((chunk) => [...lines.push(chunk)]),
  ...lines.end(),
];

test("lines are complete however the bytes are split", () => {
  const lineText = fc.string({ unit: "binary" }).map((text) => text.replaceAll("\n", "\u2028"));
  fc.assert(
    fc.property(fc.array(lineText, { minLength: 1 }), fc.integer({ min: 1, max: 7 }), (texts, size) => {
      const input = bytes(`${texts.join("\n")}\n`);
      const chunks = Array.from({ length: Math.ceil(input.length / size) }, (_, at) =>
        input.slice(at * size, (at + 1) * size),
      );
      const found = all(new Lines(1e6), ...chunks).map((line) => ("text" in line ? line.text : line.problem));
      assert.deepEqual(
        found,
        texts.map((text) => new TextDecoder().decode(bytes(text))),
      );
    }),
  );
});

test("a line above the limit is named, and the next one is read", () => {
  const found = all(new Lines(4), bytes("123"), bytes("45"), bytes("678\nab\n1234\n12345\n"));
  assert.deepEqual(found, [
    { problem: "long", head: "12345" },
    { text: "ab", sizeBytes: 2 },
    { text: "1234", sizeBytes: 4 },
    { problem: "long", head: "12345" },
  ]);
});

test("bytes that are not UTF-8 are named, and the next line is read", () => {
  assert.deepEqual(all(new Lines(99), Uint8Array.of(0x61, 0xff, 10, 0x62, 10)), [
    { problem: "utf8" },
    { text: "b", sizeBytes: 1 },
  ]);
});

test("the text after the last line break is a line too", () => {
  assert.deepEqual(all(new Lines(99), bytes("a\nb")), [
    { text: "a", sizeBytes: 1 },
    { text: "b", sizeBytes: 1 },
  ]);
});
