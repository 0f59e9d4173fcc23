import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { forgetSecret, registerSecret } from "../../../src/base/observe.ts";
import { lengthIn, renderParts, defuseMentions } from "../../../src/deliver/text/parts.ts";
import { cleanText } from "../../../src/deliver/target.ts";
import { EMPTY_ANSWER } from "../../../src/deliver/text/document.ts";
import { isBlank } from "../../../src/base/text.ts";
import { hostileMarkdown } from "./text-hostile.ts";

test("control characters, lone surrogates and traces of lost ones go; tabs and line feeds stay", () => {
  assert.equal(
    cleanText("a\u0000b\u0007\tc\r\nd\re\u0085\u009b\ud800f\udc00g\ufffdh\ufeff"),
    "ab\tc\nd\nefgh",
  );
  assert.equal(cleanText("👩‍👩‍👧 \u202eabc\u202c"), "👩‍👩‍👧 \u202eabc\u202c");
});

test("invisible text is empty, and an empty answer is delivered as a sentence that says so", () => {
  for (const text of ["", " \n\t ", "\u200b\u2060", "\u0000\ud800", "\r\n", "\u3164"]) {
    assert.equal(cleanText(text), "");
    assert.ok(isBlank(text.toWellFormed().replaceAll("\ufffd", "").replaceAll("\u0000", "")));
    for (const format of ["plain", "telegram", "commonmark", "email"] as const) {
      const parts = renderParts(text, { format, limit: 100, unit: "utf16" });
      assert.deepEqual(
        parts.map(({ plain }) => plain),
        [EMPTY_ANSWER],
      );
    }
  }
});

test("secrets are redacted in delivered text, also those that markup had hidden", () => {
  const secret = "correct-horse-battery";
  registerSecret(secret);
  try {
    for (const format of ["plain", "slack", "telegram", "matrix", "commonmark"] as const) {
      for (const text of [
        secret,
        `correct-**horse**-battery`,
        "correct\\-horse-battery",
        `x \`${secret}\``,
        `[x](https://a.example/${secret})`,
        `<https://a.example/${secret}>`,
        "corr&#101;ct-horse-battery",
      ]) {
        for (const part of renderParts(`The key: ${text} is it`, { format, limit: 30, unit: "utf16" })) {
          assert.ok(!JSON.stringify(part).includes("horse"), `${format} shows ${text}`);
        }
      }
    }
  } finally {
    forgetSecret(secret);
  }
});

test("cleaning twice is cleaning once", () => {
  fc.assert(
    fc.property(fc.oneof(hostileMarkdown, fc.string({ unit: "binary" })), (text) => {
      const clean = cleanText(text);
      assert.equal(cleanText(clean), clean);
      assert.ok(clean.isWellFormed());
      // oxlint-disable-next-line no-control-regex -- they are what must be gone
      assert.doesNotMatch(clean, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufffd]/);
    }),
    { numRuns: 150 },
  );
});

test("mass mentions notify no one, and still read the same; other words stay", () => {
  const mentions = ["@all", "@channel", "@here", "<!channel>"];
  const said = "Hi @ALL, @channel! <!channel> _@here_ 大家@all你好 @allan bob@all.example.org";
  const text = defuseMentions(said, mentions);
  assert.doesNotMatch(text, /@(?:ALL|channel|here|all你)|<!channel/);
  assert.match(text, /@allan bob@all\.example\.org$/);
  assert.equal(text.replaceAll("\u2060", ""), said);
  assert.equal(defuseMentions("x<atall", ["<at"]), "x<\u2060atall");
  assert.equal(defuseMentions("@all", []), "@all");
});

test("mentions that reading makes are defused as well, and the parts still fit", () => {
  for (const format of ["plain", "telegram", "commonmark"] as const) {
    const wanted = { format, limit: 40, unit: "utf16", mentions: ["@all"] } as const;
    const parts = renderParts("@\u0000all @**all** @all ".repeat(20), wanted);
    assert.ok(parts.length > 1);
    for (const { text, plain } of parts) {
      assert.match(plain.replaceAll("\u2060", ""), /@all/);
      assert.doesNotMatch(text + plain, /@all/);
      assert.ok(plain.length <= 40);
    }
  }
});

test("platforms count code units, code points or bytes", () => {
  for (const text of ["", "abc", "é", "漢字", "👩‍👩‍👧", "a\u0301"]) {
    assert.equal(lengthIn(text, "utf16"), text.length);
    assert.equal(lengthIn(text, "codepoints"), [...text].length);
    assert.equal(lengthIn(text, "bytes"), new TextEncoder().encode(text).length);
  }
});
