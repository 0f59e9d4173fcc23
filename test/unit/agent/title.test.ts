import assert from "node:assert/strict";
import { test } from "node:test";
import {
  titleFromPrompt,
  freeTitle,
  MAX_TITLE_CHARACTERS,
  cleanTitle,
} from "../../../src/agent/session/titles.ts";
import { createTestAgent } from "../../harness/agent.ts";

test("a title is one trimmed line without invisible characters and direction marks", () => {
  assert.equal(cleanTitle("  My\r\n\ttitle\u0000here "), "My title here");
  assert.equal(cleanTitle("a\u001b[31mred"), "a [31mred");
  assert.equal(cleanTitle("pay\u202elap\u200b\ufeff"), "paylap");
  assert.equal(cleanTitle("👩‍👩‍👧 می‌خواهم"), "👩‍👩‍👧 می‌خواهم");
  for (const empty of ["", " ", "\n\u0000", "\u202e\u200b", "\u3000"]) {
    assert.throws(() => cleanTitle(empty), { code: "invalid_title" }, JSON.stringify(empty));
  }
  assert.throws(() => cleanTitle("x".repeat(MAX_TITLE_CHARACTERS + 1)), { code: "invalid_title" });
  assert.equal(cleanTitle("x".repeat(MAX_TITLE_CHARACTERS)).length, MAX_TITLE_CHARACTERS);
});

test("a title from a prompt is its start, cut at a word, and never in the middle of a character", () => {
  assert.equal(titleFromPrompt(" fix\n\n the   bug "), "fix the bug");
  assert.equal(titleFromPrompt("word ".repeat(20)), `${"word ".repeat(12).trim()}...`);
  assert.equal(titleFromPrompt(`${"x".repeat(55)} yyyyyyyyyy`), `${"x".repeat(55)}...`);
  assert.equal(titleFromPrompt("x".repeat(100)), `${"x".repeat(60)}...`);
  for (let pad = 0; pad < 4; pad++) {
    const title = titleFromPrompt("a".repeat(57 + pad) + "😀".repeat(10));
    assert.ok(title.isWellFormed(), title);
  }
  for (const empty of ["", " \n ", "\u0000\u0001", "\u200b\u202e"]) assert.equal(titleFromPrompt(empty), "");
});

test("whatever a prompt is, its title can be stored", () => {
  for (const prompt of ["\u0000a", "x".repeat(1_000_000), `${" ".repeat(5000)}late`, "\ud83d", "a\u2028b"]) {
    const title = titleFromPrompt(prompt);
    if (title !== "") assert.equal(cleanTitle(title), title);
  }
});

test("a taken title gets the next free number, also when it is as long as a title may be", async () => {
  await using agent = await createTestAgent();
  await agent.events((await agent.submit("hi", { id: "root" })).runId);
  const long = "y".repeat(MAX_TITLE_CHARACTERS);
  await agent.core.sessions.rename("root", "tester", long);
  const titles = [];
  for (let n = 0; n < 11; n++) titles.push((await agent.core.sessions.branch("root", "tester")).title ?? "");
  assert.equal(new Set(titles).size, 11);
  assert.ok(titles.every((title) => title.length <= MAX_TITLE_CHARACTERS));
  assert.match(titles[10] ?? "", / #12$/);
  const stranger = { id: "elsewhere", root_id: null };
  assert.equal(await agent.store.write((tx) => freeTitle(tx, stranger, long)), long);
});
