import assert from "node:assert/strict";
import { test } from "node:test";
import type { Key } from "ink";
import {
  draftOf,
  editDraft,
  insert,
  layoutDraft,
  moveRow,
  type Draft,
} from "../../../src/chat/view/composer/draft.ts";
import { pressesOf, toPlainInput, type KeyName } from "../../../src/chat/view/keys.ts";

const NO_KEY = Object.fromEntries(
  "upArrow downArrow leftArrow rightArrow pageDown pageUp home end return escape ctrl shift tab backspace delete meta"
    .split(" ")
    .map((name) => [name, false]),
) as unknown as Key;

/** The text with `|` for the cursor, after keys; the first argument has one too. */
function edited(marked: string, ...keys: readonly KeyName[]): string {
  const cursor = marked.indexOf("|");
  const start: Draft = { ...draftOf(marked.replace("|", "")), cursor };
  const { text, cursor: at } = keys.reduce(editDraft, start);
  return `${text.slice(0, at)}|${text.slice(at)}`;
}

test("the cursor moves by what a person takes for one character", () => {
  assert.equal(edited("a👩‍👩‍👧|", "left"), "a|👩‍👩‍👧");
  assert.equal(edited("e\u0301|", "left"), "|e\u0301");
  assert.equal(edited("|日本", "right", "right"), "日本|");
  assert.equal(edited("x👩‍👩‍👧|y", "backspace"), "x|y");
  assert.equal(edited("|👍🏽y", "delete"), "|y");
});

test("word, line and whole-line keys", () => {
  assert.equal(edited("one two-three|", "word-left"), "one two-|three");
  assert.equal(edited("|one two", "word-right"), "one| two");
  assert.equal(edited("a\nbc|d\ne", "home"), "a\n|bcd\ne");
  assert.equal(edited("a\n|bcd\ne", "end"), "a\nbcd|\ne");
  assert.equal(edited("|\nx", "home"), "|\nx");
  assert.equal(edited("one two|", "delete-word"), "one |");
  assert.equal(edited("one two|", "delete-word", "home", "yank"), "two|one ");
  assert.equal(edited("ab|cd", "delete-to-end"), "ab|");
  assert.equal(edited("ab\nc|d", "clear-input"), "|");
  assert.equal(edited("ab|cd", "newline"), "ab\n|cd");
});

test("a draft wraps at the width, wide characters whole, and the cursor stands where the next character goes", () => {
  const layout = layoutDraft(draftOf("abcd日本x"), 5);
  assert.deepEqual(layout.rows, ["abcd", "日本x", ""]);
  assert.deepEqual([layout.row, layout.column], [2, 0]);
  assert.deepEqual(layoutDraft(draftOf("a\n\nb"), 5).rows, ["a", "", "b"]);
});

test("up and down keep the column, and end at the edges", () => {
  const draft = draftOf("abcdef\nxy\nabcdef");
  const up = moveRow(draft, 40, -1);
  assert.equal(up?.cursor, 9);
  assert.equal(moveRow({ ...draft, cursor: 3 }, 40, -1), undefined);
  assert.equal(moveRow({ ...draft, cursor: 3 }, 40, 1)?.cursor, 9);
  assert.equal(moveRow(draft, 40, 1), undefined);
});

test("a draft has a limit", () => {
  const full = insert(draftOf("x".repeat(499_999)), "yz");
  assert.equal(full.text.length, 500_000);
});

test("several keys that arrive as one chunk are separated", () => {
  assert.deepEqual(pressesOf("hello\r", NO_KEY), [{ text: "hello" }, { key: "enter" }]);
  assert.deepEqual(pressesOf("a\rb\r", NO_KEY), [
    { text: "a" },
    { key: "newline" },
    { text: "b" },
    { key: "enter" },
  ]);
  assert.deepEqual(pressesOf("ab\u0015c", NO_KEY), [{ text: "ab" }, { key: "clear-input" }, { text: "c" }]);
  assert.deepEqual(pressesOf("", { ...NO_KEY, return: true, meta: true }), [{ key: "newline" }]);
  assert.deepEqual(pressesOf("b", { ...NO_KEY, meta: true }), [{ key: "word-left" }]);
  assert.deepEqual(pressesOf("q", { ...NO_KEY, ctrl: true }), []);
});

test("what is pasted keeps its lines and loses every control character", () => {
  assert.equal(toPlainInput("a\r\nb\rc\td\u001b[31me\u0000\u009b"), "a\nb\nc\td[31me");
});
