import assert from "node:assert/strict";
import { test } from "node:test";
import { createTargets, formatTarget, parseTarget, type Target } from "../../../src/deliver/target.ts";

const named = (name: string): Target => ({ name, send: async () => ({ status: "delivered" }) });

test("an address is a platform alone, or a platform and a rest that may contain colons", () => {
  const table = [
    ["matrix:!room:server:$thread", "matrix", "!room:server:$thread"],
    ["webhook:[::1]:8080", "webhook", "[::1]:8080"],
    ["log", "log", ""],
  ] as const;
  for (const [text, platform, address] of table) {
    assert.deepEqual(parseTarget(text), { platform, address });
    assert.equal(formatTarget({ platform, address }), text);
  }
  assert.deepEqual(parseTarget("sms:"), { platform: "sms", address: "" });
});

test("targets are found by platform, and their names are valid and unique", () => {
  const targets = createTargets([named("log"), named("github_comment")]);
  assert.deepEqual([...targets.keys()], ["log", "github_comment"]);
  for (const name of ["", "Log", "a:b", "1log", "a-b", "a".repeat(33)])
    assert.throws(() => createTargets([named(name)]), RangeError, name);
  assert.throws(() => createTargets([named("log"), named("log")]), /Two targets are named log/);
});
