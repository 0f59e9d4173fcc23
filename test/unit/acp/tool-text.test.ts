import assert from "node:assert/strict";
import { test } from "node:test";
import { bounded, fenced, MAX_TEXT_BYTES, tailOf } from "../../../src/acp/tools/content.ts";

test("a tail is cut between characters and counts the omitted bytes", () => {
  assert.deepEqual(tailOf("abc", 3), { text: "abc", omittedBytes: 0 });
  assert.deepEqual(tailOf("äöü", 4), { text: "öü", omittedBytes: 2 });
  assert.deepEqual(tailOf("äöü", 3), { text: "ü", omittedBytes: 4 });
  assert.deepEqual(tailOf("a😀", 3), { text: "", omittedBytes: 5 });
});

test("a bounded text names all omitted bytes in its first line", () => {
  assert.equal(bounded("short"), "short");
  assert.equal(bounded("short", 7), "[7 bytes omitted]\nshort");
  const long = bounded("x".repeat(MAX_TEXT_BYTES + 5), 7);
  assert.ok(long.startsWith("[12 bytes omitted]\nx"));
  assert.equal(Buffer.byteLength(long), MAX_TEXT_BYTES + "[12 bytes omitted]\n".length);
});

for (const text of [
  "plain",
  "# heading",
  "```\ncode\n```",
  "``````",
  "~~~\n````\n~~~",
  "ends with a line\n",
  "",
]) {
  test(`nothing in ${JSON.stringify(text)} closes its fence`, () => {
    const lines = fenced(text).split("\n");
    const [fence] = lines;
    assert.match(fence ?? "", /^(`{3,}|~{3,})$/);
    assert.equal(lines.at(-1), fence);
    assert.ok(!text.includes(fence ?? ""));
  });
}

test("a long run of backticks does not make a long fence", () => {
  assert.ok(fenced("`".repeat(60_000)).length < 60_020);
});
