import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { createLog, silentLog, type LogLevel, registerSecret } from "../../../src/base/observe.ts";

const SECRET = 'log "secret" \\ 0123456789';
registerSecret(SECRET);

function capture(level: LogLevel = "debug") {
  const lines: string[] = [];
  const log = createLog(level, (line) => void lines.push(line));
  return { log, lines, last: () => JSON.parse(lines.at(-1)!) };
}

test("each fact is one line of JSON with time, level and message", () => {
  const { log, lines, last } = capture();
  log.info("two\nlines", { run: "run_1", text: "a\u2028b\r\n" });
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^[^\n]+\n$/);
  const { time, ...rest } = last();
  assert.deepEqual(rest, { level: "info", message: "two\nlines", run: "run_1", text: "a\u2028b\r\n" });
  assert.equal(new Date(time).toISOString(), time);
});

test("messages below the level are not written", () => {
  const levels: LogLevel[] = ["debug", "info", "warn", "error"];
  for (const level of levels) {
    const { log, lines } = capture(level);
    for (const at of levels) log[at]("x");
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).level),
      levels.slice(levels.indexOf(level)),
    );
  }
});

test("with adds fields to every line, and the call's own fields win", () => {
  const { log, last } = capture();
  const inner = log.with({ a: 1, b: 1 }).with({ b: 2 });
  inner.warn("x", { c: 3 });
  assert.partialDeepStrictEqual(last(), { a: 1, b: 2, c: 3 });
  inner.warn("x", { a: 9 });
  assert.equal(last().a, 9);
  log.warn("x");
  assert.equal(last().a, undefined);
});

test("an error is written with name, message, stack and causes", () => {
  const { log, last } = capture();
  const error = new TypeError("outer", { cause: new Error("inner", { cause: "root" }) });
  log.error("failed", { error });
  const written = last().error;
  assert.equal(written.name, "TypeError");
  assert.equal(written.message, "outer");
  assert.match(written.stack, /log\.test\.ts/);
  assert.equal(written.cause.message, "inner");
  assert.equal(written.cause.cause, "root");
});

test("a bigint is written as its digits", () => {
  const { log, last } = capture();
  log.info("x", { big: 2n ** 64n, list: [1n] });
  assert.partialDeepStrictEqual(last(), { big: "18446744073709551616", list: ["1"] });
});

test("fields that no JSON can hold are left out, and the log does not throw", () => {
  const { log, lines, last } = capture();
  const circular: Record<string, unknown> = {};
  circular["self"] = circular;
  const loop = new Error("loop");
  loop.cause = loop;
  const hostile = {
    toJSON() {
      throw new Error(SECRET);
    },
  };
  for (const field of [circular, loop, hostile]) {
    log.error("still told", { field });
    assert.equal(last().message, "still told");
    assert.match(last().problem, /left out/);
  }
  assert.ok(lines.every((line) => !line.includes("secret")));
});

test("secrets are redacted in messages, fields, lists, errors and bound fields", () => {
  const { log, lines } = capture();
  const error = new Error(`failed with ${SECRET}`, { cause: new Error(SECRET) });
  log.with({ bound: SECRET }).info(`said ${SECRET}`, {
    error,
    text: `a ${SECRET} b`,
    json: JSON.stringify({ nested: SECRET }),
    list: [{ deep: SECRET }, "Authorization: Bearer abcdef0123456789abcdef"],
  });
  assert.doesNotMatch(lines[0]!, /0123456789/);
  assert.doesNotThrow(() => JSON.parse(lines[0]!));
});

test("a line stays JSON whatever the redactor takes out of it", () => {
  const { log, lines } = capture();
  const openKey = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc";
  for (const text of [openKey, `${openKey}\\`, `${openKey}\\"`, "-----BEGIN PRIVATE KEY-----\\", SECRET]) {
    log.info(text, { text, after: "kept" });
    assert.equal(JSON.parse(lines.at(-1)!).after, "kept");
    assert.doesNotMatch(lines.at(-1)!, /MIIEabc/);
  }
});

test("the silent log says nothing", () => {
  const printed = recordOutput(() => {
    silentLog.error("nobody hears");
    silentLog.with({ a: 1 }).error("nor this");
    createLog("error").error("this is heard");
  });
  assert.deepEqual(
    printed.map((line) => JSON.parse(line).message),
    ["this is heard"],
  );
});

/** What `work` writes to standard output and standard error. */
function recordOutput(work: () => void): readonly string[] {
  const printed: string[] = [];
  const streams = [process.stdout, process.stderr];
  const writes = streams.map((stream) => stream.write);
  for (const stream of streams)
    stream.write = (chunk: string | Uint8Array) => printed.push(String(chunk)) > 0;
  try {
    work();
  } finally {
    for (const [index, stream] of streams.entries()) stream.write = writes[index]!;
  }
  return printed;
}

test("a line contains no terminal control characters, but their escapes", () => {
  const { log, lines } = capture();
  const text = "\u001b[2J \u009b31m \u007f é";
  log.info(text, { [text]: text });
  assert.doesNotMatch(lines[0]!.trimEnd(), /\p{Cc}/u);
  assert.equal(JSON.parse(lines[0]!).message, text);
  assert.equal(JSON.parse(lines[0]!)[text], text);
});
