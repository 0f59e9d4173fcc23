import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../../../src/base/observe.ts";
import { formatEntry, formatRawLine, parseLogLine } from "../../../src/cli/service/log-text.ts";

function textOf(write: (log: ReturnType<typeof createLog>) => void, hasColour = false): string {
  const lines: string[] = [];
  write(createLog("debug", (line) => void lines.push(line)));
  const entry = parseLogLine(lines.join(""));
  assert.ok(entry);
  return formatEntry({ ...entry, time: "2026-11-23T20:15:09" }, { hasColour, hasDate: true });
}

test("a line for people has the time, the level, the sentence and the fields", () => {
  const text = textOf((log) =>
    log.warn("a run failed", { run: "run_1", reason: "no key", count: 3, list: [1] }),
  );
  assert.equal(text, '2026-11-23 20:15:09 WARN  a run failed  run=run_1 reason="no key" count=3 list=[1]');
});

test("an error shows its causes on the line, and its stack below only for the level error", () => {
  const error = new TypeError("outer", { cause: new Error("inner") });
  const [first = "", ...frames] = textOf((log) => log.error("it broke", { error })).split("\n");
  assert.match(first, / ERROR it broke {2}error="TypeError: outer; cause: Error: inner"$/);
  assert.ok(frames.length > 0 && frames.length <= 8 && frames.every((frame) => /^ {4}at /.test(frame)));
  assert.equal(textOf((log) => log.warn("it broke", { error })).split("\n").length, 1);
});

test("text from outside cannot steer the terminal or forge a line", () => {
  const hostile = "\u001b[2J\u001b]0;title\u0007\n2026-11-23 20:15:09 ERROR forged\r\u009b31m";
  for (const text of [
    textOf((log) => log.info(hostile, { [hostile]: hostile, nested: { hostile } })),
    formatRawLine(hostile),
  ]) {
    // oxlint-disable-next-line no-control-regex -- it looks for them
    assert.doesNotMatch(text, /[\u0000-\u001f\u007f-\u009f]/);
  }
});

test("colours surround only the time, the level and the names", () => {
  const plain = textOf((log) => log.error("it broke", { run: "run_1" }));
  const coloured = textOf((log) => log.error("it broke", { run: "run_1" }), true);
  assert.ok(coloured.includes("\u001b[31mERROR\u001b[0m it broke"));
  // oxlint-disable-next-line no-control-regex -- it removes the colours
  assert.equal(coloured.replaceAll(/\u001b\[\d*m/g, ""), plain);
});

test("lines that the log did not write are not entries", () => {
  for (const line of ["", "{", "null", "[]", '{"time":1}', '{"time":"x","level":"loud","message":"m"}']) {
    assert.equal(parseLogLine(line), undefined, line);
  }
});
