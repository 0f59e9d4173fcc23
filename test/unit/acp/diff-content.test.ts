import assert from "node:assert/strict";
import { test } from "node:test";
import { diffContent } from "../../../src/acp/tools/content.ts";
import { fileChange } from "../../../src/agent/tools/files/file-diff.ts";

const path = "/project/a.txt";
const lines = (count: number, width = 1) =>
  Array.from({ length: count }, (_, at) => `${at}${"x".repeat(width)}\n`).join("");

test("a short file is shown whole", () => {
  assert.deepEqual(diffContent(fileChange(path, "a\n", "b\n")), {
    type: "diff",
    path,
    oldText: "a\n",
    newText: "b\n",
  });
  assert.deepEqual(diffContent(fileChange(path, undefined, "b\n")), {
    type: "diff",
    path,
    oldText: null,
    newText: "b\n",
  });
  assert.deepEqual(diffContent(fileChange(path, "a\n", undefined)), {
    type: "diff",
    path,
    oldText: "a\n",
    newText: "",
    _meta: { deleted: true },
  });
});

for (const [what, before] of [
  ["more than 4 000 lines", lines(4_100)],
  ["more than 128 KiB", lines(1_000, 200)],
] as const) {
  test(`a file of ${what} is shown as hunks with three lines of context`, () => {
    const after = before.replace("\n500x", "\nchanged").replace("\n900x", "\nchanged too");
    const content = diffContent(fileChange(path, before, after));
    assert.ok(content.type === "diff");
    assert.equal(content.newText.split("\n").length - 1, 14);
    assert.ok(content.oldText?.includes("497x") && content.oldText.includes("503x"));
    assert.ok(!content.oldText?.includes("496x"));
    assert.deepEqual(content._meta, {
      partial: true,
      hunks: [
        { oldLine: 498, newLine: 498 },
        { oldLine: 898, newLine: 898 },
      ],
    });
  });
}

test("a large rewrite, a binary file and an oversized file are summarized in words", () => {
  const text = (change: Parameters<typeof diffContent>[0]) => {
    const content = diffContent(change);
    assert.ok(content.type === "content" && content.content.type === "text");
    return content.content.text;
  };
  assert.match(
    text(fileChange(path, lines(2_000, 100), lines(2_000, 120))),
    /^\/project\/a.txt: too large to show/,
  );
  assert.match(text({ path, diff: "", omitted: "binary", size: 12 }), /binary file \(12 bytes\)/);
  assert.match(
    text({ path, diff: "", omitted: "large", size: 3_000_000 }),
    /too large to show \(3000000 bytes\)/,
  );
});
