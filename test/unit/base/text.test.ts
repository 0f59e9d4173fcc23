import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { LogLines } from "../../../src/agent/mcp/stdio-transport.ts";
import { OutputExcerpt, OutputRing } from "../../../src/exec/output.ts";
import { LineWindow } from "../../../src/agent/tools/files/read-file.ts";
import { headOf, tailOf, excerptOf, shorten, toOneLine, Lines } from "../../../src/base/text.ts";
import { readFrames as readEvents } from "../../../src/client/streams.ts";
import { readFrames as readLines } from "../../../src/client/gateway/transport.ts";

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

type Reader = (parts: readonly Uint8Array[]) => string | Promise<string>;

/** Every reader of chunks from a child or a socket. */
const readers: readonly (readonly [name: string, read: Reader])[] = [
  ["the output of a background process, polled after each piece", (parts) => polled(parts)],
  [
    "the output of a command",
    (parts) => {
      const excerpt = new OutputExcerpt(1_000);
      for (const part of parts) excerpt.push(part);
      return excerpt.text();
    },
  ],
  [
    "a line of standard input",
    (parts) => {
      const lines = new Lines(1_000);
      const read = [...parts, Buffer.from("\n")].flatMap((part) => [...lines.push(part)]);
      return read.map((line) => ("text" in line ? line.text : "")).join("");
    },
  ],
  [
    "a line of a gateway's pipe",
    (parts) => piped([...parts, Buffer.from(".\n")]).then((line) => line.slice(0, -1)),
  ],
  [
    "a line of a file",
    (parts) => {
      const window = new LineWindow({ first: 1, maxLines: 9, maxLineCharacters: 999, maxCharacters: 999 });
      for (const part of [Buffer.from("."), ...parts]) window.push(Buffer.from(part));
      window.end();
      return window.lines.map((line) => line.slice("1\t.".length)).join("");
    },
  ],
  [
    "the log of an MCP server",
    (parts) => {
      const lines: string[] = [];
      const log = new LogLines((line) => lines.push(line));
      for (const part of [Buffer.from("."), ...parts]) log.push(part);
      log.end();
      return lines.join("\n").slice(1);
    },
  ],
  [
    "an event of a stream",
    async (parts) => {
      const body = streamOf([Buffer.from("data: ."), ...parts, Buffer.from("\n\n")]);
      const frames: string[] = [];
      for await (const { data } of readEvents(new Response(body))) frames.push(data);
      return frames.join("\n").slice(1);
    },
  ],
];

function polled(parts: readonly Uint8Array[]): string {
  const ring = new OutputRing(1_000);
  let seen = "";
  for (const part of parts) {
    ring.push(part);
    seen += ring.take();
  }
  return seen + ring.take(true);
}

function streamOf(parts: readonly Uint8Array[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(new Uint8Array(part));
      controller.close();
    },
  });
}

async function piped(parts: readonly Uint8Array[]): Promise<string> {
  const frames: string[] = [];
  const source = async function* () {
    yield* parts;
  };
  await readLines(source(), { frame: (frame) => void frames.push(frame) });
  return frames.join("\n");
}

for (const [name, read] of readers) {
  test(`${name} is read completely wherever its bytes are cut`, async () => {
    await fc.assert(
      fc.asyncProperty(pieces, async ({ whole, parts }) => {
        assert.equal(await read(parts), whole);
      }),
    );
  });
}

test("a text is cut between characters, at its beginning and at its end", () => {
  fc.assert(
    fc.property(text, fc.integer({ min: -2, max: 60 }), (whole, max) => {
      const [head, tail] = [headOf(whole, max), tailOf(whole, max)];
      for (const part of [head, tail]) assert.ok(part.isWellFormed() && part.length <= Math.max(0, max));
      assert.ok(whole.startsWith(head) && whole.endsWith(tail));
      if (whole.length > max && max > 0) assert.ok(head.length >= max - 1 && tail.length >= max - 1);
    }),
  );
});

test("a shortened text counts characters, ends in an ellipsis and is never longer than allowed", () => {
  assert.equal(shorten("short", 5), "short");
  assert.equal(shorten("too long", 5), "too…");
  assert.equal(shorten("👋".repeat(5), 5), "👋".repeat(5));
  assert.equal(shorten("👋".repeat(6), 5), `${"👋".repeat(4)}…`);
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 60 }), (whole, max) => {
      const shown = shorten(whole, max);
      assert.ok(shown.isWellFormed() && Array.from(shown).length <= max);
      assert.equal(shown === whole, Array.from(whole).length <= max);
    }),
  );
});

test("an excerpt keeps the beginning and the end, and says how much it leaves out", () => {
  assert.equal(excerptOf("abc", 3), "abc");
  const excerpt = excerptOf(`begin${"x".repeat(500)}end`, 200);
  assert.match(excerpt, /^beginx+\n\[\.\.\. 308 characters omitted \.\.\.\]\nx+end$/);
  assert.equal(excerpt.length, 200);
});

test("a text on one line has no line breaks and no control characters", () => {
  assert.equal(toOneLine(" a\r\n\tb\u0000c\u0085 "), "a b c");
});
