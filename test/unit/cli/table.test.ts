import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { formatDuration, formatRelative } from "../../../src/cli/kit/duration.ts";
import { toBlock, toTable } from "../../../src/cli/kit/table.ts";

describe("a table", () => {
  const rows = [
    ["run_1", "completed", "What is in this folder, and who wrote it?"],
    ["run_23", "failed", "Hi"],
  ];

  it("fits the width of the terminal: only the last column is shortened", () => {
    const lines = toTable(["ID", "STATUS", "PROMPT"], rows, 40).split("\n");
    assert.deepEqual(lines, [
      "ID      STATUS     PROMPT",
      "run_1   completed  What is in this fold…",
      "run_23  failed     Hi",
    ]);
    assert.ok(lines.every((line) => line.length <= 40));
  });

  it("aligns Chinese, Japanese and Korean text, which is twice as wide, and combining marks", () => {
    const wide = [
      ["日報", "完了"],
      ["café", "ok"],
      ["cafe\u0301", "ok"],
      ["ab", "이 폴더에 무엇이 있습니까"],
    ];
    assert.deepEqual(toTable(["ID", "PROMPT"], wide).split("\n"), [
      "ID    PROMPT",
      "日報  完了",
      "café  ok",
      "cafe\u0301  ok",
      "ab    이 폴더에 무엇이 있습니까",
    ]);
    assert.equal(toTable(["ID", "PROMPT"], wide, 18).split("\n").at(-1), "ab    이 폴더에…");
  });

  it("shortens other columns once the last one is short, and ids never, in whatever column they are", () => {
    const id = "dlv_01m8500ehg7c7e4brcb4fdyvrx";
    const wide = [["a", "a long name of a person", id, "why it is"]];
    const lines = toTable(["N", "NAME", "DELIVERY", "REASON"], wide, 57).split("\n");
    assert.equal(lines[1], `a  a long nam…  ${id}  why it is`);
    assert.ok(toTable(["N", "NAME", "DELIVERY", "REASON"], wide, 20).includes(id));
  });

  it("keeps ids whole in a narrow terminal, and everything without a width", () => {
    assert.match(toTable(["ID", "STATUS", "PROMPT"], rows, 10), /^run_23 {2}failed {4}Hi$/m);
    assert.match(toTable(["ID", "STATUS", "PROMPT"], rows), /who wrote it\?$/m);
  });

  it("leaves the missing values of a block out", () => {
    assert.equal(
      toBlock([
        ["id", "1"],
        ["error", undefined],
        ["status", "ok"],
      ]),
      "id      1\nstatus  ok",
    );
  });
});

describe("a duration", () => {
  for (const [seconds, text] of [
    [-1, "0 s"],
    [119, "119 s"],
    [120, "2 min"],
    [7_199, "119 min"],
    [7_200, "2 h"],
    [172_799, "47 h"],
    [172_800, "2 days"],
  ] as const) {
    it(`of ${seconds} seconds is ${text}`, () => assert.equal(formatDuration(seconds), text));
  }

  it("is relative to now", () => {
    assert.equal(formatRelative(1_000, 1_400), "now");
    assert.equal(formatRelative(1_000, 301_000), "5 min ago");
    assert.equal(formatRelative(10_801_000, 1_000), "in 3 h");
  });
});
