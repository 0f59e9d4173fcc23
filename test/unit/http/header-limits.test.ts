/** The limits of the session headers stand in the spec; names in a body are checked by code. Both must agree. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { operations } from "../../../generated/http/server.gen.ts";
import { checkSessionName } from "../../../src/agent/session/session.ts";
import { maxHeaderLength, specSchemas } from "../../../src/http/edge/input.ts";

const NAMES = ["a", "20260730_235959_0070123456789", "telegram:42", "café room", "a.b", "~", "a/b"].concat(
  ["..", "a..b", "\\", "../../etc/passwd", "", "a\nb", "a\u0000", "\u007f", "a\u0085b"],
  ["\u00a0", "\u00ff", "\u0100", "日本", "x".repeat(256), "x".repeat(257)],
);

function fitsSpec(header: string, value: string): boolean {
  const { schema } = operations.createRun.headers ?? assert.fail("createRun has no headers");
  return specSchemas.check(schema, { [header]: value }) === undefined;
}

function fitsCode(kind: "id" | "key", value: string): boolean {
  try {
    checkSessionName(kind, value, "X-Name");
    return true;
  } catch {
    return false;
  }
}

for (const kind of ["id", "key"] as const) {
  test(`X-Agent-Session-${kind} allows the names that a body may hold`, () => {
    for (const name of NAMES) {
      assert.equal(fitsSpec(`x-agent-session-${kind}`, name), fitsCode(kind, name), JSON.stringify(name));
    }
  });
}

test("an Idempotency-Key is 1 to 255 visible ASCII characters", () => {
  for (const key of ["a", "~!", "x".repeat(255)]) assert.ok(fitsSpec("idempotency-key", key), key);
  for (const key of ["", "two words", "é", "x".repeat(256)]) {
    assert.equal(fitsSpec("idempotency-key", key), false, key);
  }
});

test("the capabilities take the maximum lengths from the spec", () => {
  assert.equal(maxHeaderLength("idempotency-key"), 255);
  assert.equal(maxHeaderLength("x-agent-session-id"), 256);
});
