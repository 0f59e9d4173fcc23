import assert from "node:assert/strict";
import { test } from "node:test";
import { errorTable, ServiceError, toServiceError, type ErrorCode } from "../../../src/base/errors.ts";
import { errorEnvelope } from "../../../src/http/edge/answer.ts";

const rows = Object.entries(errorTable);
const typeOf: Readonly<Record<number, readonly string[]>> = {
  401: ["authentication_error"],
  403: ["permission_error"],
  404: ["not_found_error"],
  409: ["conflict_error"],
  410: ["not_found_error"],
  412: ["conflict_error"],
  428: ["conflict_error", "invalid_request_error"],
  429: ["rate_limit_error"],
  500: ["server_error"],
  502: ["server_error"],
  503: ["overloaded_error"],
  504: ["server_error"],
};

test("every code has an HTTP error status and the matching type", () => {
  for (const [code, row] of rows) {
    assert.ok(Number.isInteger(row.http) && row.http >= 400 && row.http <= 504, code);
    assert.ok((typeOf[row.http] ?? ["invalid_request_error"]).includes(row.type), `${code}: ${row.type}`);
  }
});

test("every code has an integer for JSON-RPC", () => {
  for (const [code, row] of rows) assert.ok(Number.isInteger(row.rpc), code);
});

test("codes read as lower case words", () => {
  for (const [code] of rows) assert.match(code, /^[a-z]+(_[a-z]+)*$/);
});

test("errors of the request itself are never retryable", () => {
  for (const [code, row] of rows) {
    if (row.retryable) assert.ok([408, 429, 502, 503, 504].includes(row.http), code);
  }
});

test("the envelope has message, type, param and code, and nothing else unless there are details", () => {
  const bare = errorEnvelope(new ServiceError("queue_full", "Wait."));
  assert.deepEqual(bare, {
    error: { message: "Wait.", type: "rate_limit_error", param: null, code: "queue_full" },
  });
  const full = errorEnvelope(
    new ServiceError("invalid_request", "No.", { param: "a[0]", details: { limit: 3 } }),
  );
  assert.deepEqual(full, {
    error: {
      message: "No.",
      type: "invalid_request_error",
      param: "a[0]",
      code: "invalid_request",
      details: { limit: 3 },
    },
  });
});

test("a cause never reaches the envelope", () => {
  const cause = new Error("postgres://u:hunter22@db");
  for (const error of [new ServiceError("internal_error", "Sorry.", { cause }), toServiceError(cause)]) {
    assert.doesNotMatch(JSON.stringify(errorEnvelope(error)), /hunter22/);
    assert.equal(error.cause, cause);
  }
});

test("anything thrown becomes an internal error, and a ServiceError stays itself", () => {
  const known = new ServiceError("not_found", "Nothing.");
  assert.equal(toServiceError(known), known);
  for (const thrown of [undefined, null, "text", 7, {}, new TypeError("no")]) {
    const error = toServiceError(thrown);
    assert.equal(error.code, "internal_error");
    assert.equal(error.row.http, 500);
    assert.doesNotMatch(error.message, /text|no$/);
  }
});

test("an error without a cause has no cause property, and says what it is", () => {
  const error = new ServiceError("not_found" satisfies ErrorCode, "Nothing.");
  assert.equal(Object.hasOwn(error, "cause"), false);
  assert.equal(String(error), "ServiceError: Nothing.");
  assert.ok(error instanceof Error);
});
