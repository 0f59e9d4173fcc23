import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines } from "../../../src/chat/view/text/diff.ts";
import {
  hanging,
  lineWidth,
  span,
  textOf,
  wrap,
  wrapText,
  clustersOf,
  cutToWidth,
  expandTabs,
  widthOf,
} from "../../../src/chat/view/text/line.ts";
import { markdownLines, markdownStateAfter } from "../../../src/chat/view/text/markdown.ts";
import { countText, durationText, moneyText } from "../../../src/chat/view/text/quantity.ts";
import { ANSWER } from "./states.ts";

test("a wide character takes two cells, a combining one none, a joined emoji two", () => {
  const widths = ["a", "日本", "é", "👩‍👩‍👧", "한글", "🇩🇪", "\u200b", "ｱ"].map((text) => widthOf(text));
  assert.deepEqual(widths, [1, 4, 1, 2, 4, 2, 0, 1]);
  assert.deepEqual(clustersOf("e\u0301日👩‍👩‍👧"), ["e\u0301", "日", "👩‍👩‍👧"]);
});

test("cutting never splits a wide character and says that it cut", () => {
  assert.equal(cutToWidth("abcdef", 4), "abc…");
  assert.equal(cutToWidth("日本語", 4), "日…");
  assert.equal(cutToWidth("abc", 3), "abc");
  assert.equal(cutToWidth("abc", 0), "");
  assert.equal(expandTabs("a\tb"), "a   b");
});

test("words are wrapped at the width, long ones anywhere, and no line is wider than it", () => {
  assert.equal(textOf(wrapText("the quick brown fox", "plain", 10)), "the quick\nbrown fox");
  assert.equal(textOf(wrapText("abcdefghijkl mn", "plain", 5)), "abcde\nfghij\nkl mn");
  assert.equal(textOf(wrapText("日本語テキスト", "plain", 5)), "日本\n語テ\nキス\nト");
  for (const width of [1, 2, 3, 7, 20]) {
    for (const line of wrapText("ein Fuß 日本語 👩‍👩‍👧 and averylongwordofnospaces", "plain", width)) {
      assert.ok(lineWidth(line) <= Math.max(2, width), `${width}: ${textOf([line])}`);
    }
  }
});

test("a wrapped paragraph hangs under its first line", () => {
  const lines = wrap([span("one two three", "strong")], 8, hanging([span("- ")]));
  assert.equal(textOf(lines), "- one\n  two\n  three");
});

test("Markdown: headings, lists, quotes, rules and fences are laid out; the rest stands as written", () => {
  assert.equal(
    textOf(markdownLines(`${ANSWER}\n\n---\n- [x] done\n- [ ] open\na * b * c, snake_case_name`, 60).lines),
    `What I found

The function sum in src/sum.ts subtracted. I changed one
sign, see the rule (https://example.org/sums):

ts
  export const sum = (a: number, b: number) => a + b;

• first, a point that is long enough to be wrapped at eighty
  columns, as one sees here
  • a point below it
1. numbered

│ quoted words

Wide: 日本語のテキスト, joined: 👩‍👩‍👧, combined: é.

${"─".repeat(40)}
• ☑ done
• ☐ open
a * b * c, snake_case_name`,
  );
});

test("Markdown: roles mark what is bold, italic and code", () => {
  const [line = []] = markdownLines("a **b** *c* `d` __e__ **not", 60).lines;
  const marked = line.filter(({ role }) => role !== "plain").map(({ text, role }) => [text, role]);
  assert.deepEqual(marked, [
    ["b", "strong"],
    ["c", "emphasis"],
    ["d", "code"],
    ["e", "strong"],
  ]);
});

test("Markdown: a text in pieces of whole lines is laid out like the whole text", () => {
  const text = "```\n# no heading\n~~~\n```\n# heading\n````md\n```\nstill code\n````\nend **x**";
  const whole = markdownLines(text, 30).lines;
  const lines = text.split("\n");
  for (let cut = 1; cut < lines.length; cut++) {
    const head = markdownLines(lines.slice(0, cut).join("\n"), 30);
    const rest = markdownLines(lines.slice(cut).join("\n"), 30, head.state);
    assert.deepEqual([...head.lines, ...rest.lines], whole);
    assert.deepEqual(markdownStateAfter(lines.slice(0, cut).join("\n")), head.state);
  }
});

test("a line of one hundred thousand marks is laid out without a long search", () => {
  const text = "`*_[".repeat(25_000);
  assert.equal(textOf(markdownLines(text, 1_000_000).lines), text);
});

test("a diff keeps its signs, and a removed line that looks like a header is still a removed line", () => {
  const lines = diffLines("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n---- x\n+++ y\n z\n", 40);
  assert.deepEqual(
    lines.map((line) => line[0]?.role),
    ["dim", "dim", "accent", "removed", "added", "plain"],
  );
  assert.equal(textOf(lines), "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n---- x\n+++ y\n z");
});

test("a long diff is cut, and says by how much", () => {
  const lines = diffLines(`@@ -1 +1 @@\n${"+line\n".repeat(100)}`, 40);
  assert.equal(textOf(lines.slice(-1)), "… 41 more lines");
});

test("quantities are short", () => {
  assert.deepEqual([0.44, 12, 187, 3729].map(durationText), ["0.4 s", "12 s", "3:07", "1:02:09"]);
  assert.deepEqual([950, 12_400, 200_000, 1_200_000].map(countText), ["950", "12.4k", "200k", "1.2M"]);
  assert.deepEqual([0, 0.0042, 1.3].map(moneyText), ["$0.00", "$0.0042", "$1.30"]);
});
