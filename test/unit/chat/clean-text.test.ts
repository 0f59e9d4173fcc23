// oxlint-disable no-control-regex -- control characters are the matter here
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { cleanHead, cleanLine, cleanTail, cleanText } from "../../../src/client/conversation/clean-text.ts";

test("plain text, line breaks, tabs, other scripts and emoji stay as they are", () => {
  const text = "a\tb\nc ünïcödé 漢字 עברית 👩‍👩‍👧 e\u0301";
  assert.equal(cleanText(text), text);
});

const hostile: readonly (readonly [what: string, text: string])[] = [
  ["a colour", "\u001b[31mred\u001b[0m"],
  ["a title", "\u001b]0;owned\u0007red"],
  ["a title ended by ST", "\u001b]2;owned\u001b\\red"],
  ["a clipboard write", "\u001b]52;c;cm0gLXJmIC8=\u0007red"],
  ["a link", "\u001b]8;;http://evil.example\u0007red\u001b]8;;\u0007"],
  ["a cursor move", "\u001b[2J\u001b[1;1Hred"],
  ["a device control string", "\u001bP1$r0m\u001b\\red"],
  ["an application command", "\u001b_Gi=1;AAAA\u001b\\red"],
  ["eight-bit CSI", "\u009b31mred"],
  ["eight-bit OSC", "\u009d0;owned\u009cred"],
  ["a full reset", "\u001bcred"],
  ["a character set", "\u001b(0red"],
  ["a bell and a backspace", "r\u0007e\u0008d"],
  ["a delete", "red\u007f"],
  ["text that reads backwards", "\u202ered\u202c"],
  ["an isolate", "\u2066red\u2069"],
];
for (const [what, text] of hostile) {
  test(`${what} does not reach the terminal`, () => assert.equal(cleanText(text), "red"));
}

test("a carriage return cannot write over what stands there", () => {
  assert.equal(cleanText("rm -rf /\recho hello"), "rm -rf /\necho hello");
  assert.equal(cleanText("a\r\nb\u2028c"), "a\nb\nc");
});

test("a sequence that comes in two pieces is mere text", () => {
  assert.equal(cleanText("\u001b]0;ow") + cleanText("ned\u0007"), "]0;owned");
});

test("no text whatever leaves a control character", () => {
  const pieces = fc.constantFrom(
    "\u001b",
    "[",
    "]",
    "P",
    "_",
    "0;",
    "m",
    "\u0007",
    "\\",
    "\u009b",
    "\r",
    "\u0000",
    "x",
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string({ unit: "binary" })), { maxLength: 30 }), (parts) => {
      assert.doesNotMatch(
        cleanText(parts.join("")),
        /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/,
      );
    }),
  );
});

test("what was cleaned stays as it is when it is cleaned again", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) =>
      assert.equal(cleanText(cleanText(text)), cleanText(text)),
    ),
  );
});

test("a line is one line, and a cut never halves a character", () => {
  assert.equal(cleanLine(" a\n\u001b[1mb\t c "), "a b c");
  assert.equal(cleanLine("👩".repeat(10), 4), "👩👩👩…");
});

test("long text is cut, with a note about the cut", () => {
  assert.equal(cleanHead("abcdef", 4), "abcd\n… (2 more characters)");
  assert.equal(cleanTail("1\n2\n3\n4", { lines: 2, max: 100 }), "3\n4");
});

test("a megabyte of broken sequences is cleaned in linear time", () => {
  const text = "\u001b]0;".repeat(250_000);
  assert.equal(cleanText(text), "]0;".repeat(250_000));
});
