import assert from "node:assert/strict";
import { test } from "node:test";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import { operations } from "../../../generated/http/server.gen.ts";
import { errorTable, ServiceError, type ErrorCode } from "../../../src/base/errors.ts";
import { checkHost } from "../../../src/base/net/request.ts";
import { authorize as authorizeKey, type Identity, type KeyRing } from "../../../src/http/edge/access.ts";

/** Keys of the configuration are found at once. */
const authorize = (...args: Parameters<typeof authorizeKey>) => authorizeKey(...args) as Identity;

const GOOD = "good-key-0123456789";
const ring = (scopes: readonly string[], required = true): KeyRing => ({
  required,
  find: (presented) => (presented === GOOD ? { name: "mine", scopes } : undefined),
});
const open = operations.getHealth as OperationMeta;
const chat = operations.createChatCompletion as OperationMeta;

const refused = (code: ErrorCode) => (error: unknown) => error instanceof ServiceError && error.code === code;

const headers: readonly (readonly [string | null, ErrorCode | undefined])[] = [
  [null, "missing_api_key"],
  ["", "missing_api_key"],
  ["Bearer", "missing_api_key"],
  ["Bearer ", "missing_api_key"],
  [GOOD, "missing_api_key"],
  [`Basic ${GOOD}`, "missing_api_key"],
  [`Bearer${GOOD}`, "missing_api_key"],
  [`Bearer\t${GOOD}`, "missing_api_key"],
  [`Bearer ${GOOD} ${GOOD}`, "missing_api_key"],
  [`Bearer ${GOOD}, Bearer x`, "missing_api_key"],
  [`Bearer bad`, "invalid_api_key"],
  [`Bearer ${GOOD}x`, "invalid_api_key"],
  [`Bearer ${GOOD.slice(0, -1)}`, "invalid_api_key"],
  [`Bearer ${GOOD.toUpperCase()}`, "invalid_api_key"],
  [`Bearer "${GOOD}"`, "invalid_api_key"],
  [`Bearer ${GOOD}`, undefined],
  [`bearer ${GOOD}`, undefined],
  [`BEARER   ${GOOD}  `, undefined],
];

for (const [header, code] of headers) {
  test(`the header ${JSON.stringify(header)} ${code === undefined ? "is accepted" : `is ${code}`}`, () => {
    if (code === undefined) assert.equal(authorize(ring(["admin"]), chat, header).name, "mine");
    else assert.throws(() => authorize(ring(["admin"]), chat, header), refused(code));
  });
}

test("a key may do what its scopes allow, and admin allows everything", () => {
  const bearer = `Bearer ${GOOD}`;
  for (const [id, operation] of Object.entries(operations) as [string, OperationMeta][]) {
    const { scope, security } = operation;
    if (security.length === 0) continue;
    assert.ok(authorize(ring(["admin"]), operation, bearer).authenticated, id);
    if (scope === undefined) continue;
    assert.ok(authorize(ring([scope]), operation, bearer).authenticated, id);
    for (const scopes of [[], [`${scope}x`], [scope.toUpperCase()], [""]]) {
      assert.throws(() => authorize(ring(scopes), operation, bearer), refused("insufficient_scope"), id);
    }
  }
});

test("authorization errors never repeat the presented key", () => {
  for (const [header, code] of headers) {
    if (code === undefined || !header || header.length < 10) continue;
    assert.throws(
      () => authorize(ring(["admin"]), chat, header),
      (error: Error) => !error.message.includes(header) && !error.message.includes(GOOD),
    );
  }
});

test("an operation without security accepts any request", () => {
  for (const [header] of headers) {
    const identity = authorize(ring([]), open, header);
    assert.equal(identity.authenticated, false);
  }
});

test("while keys are off, every caller has the same anonymous identity, even with a key", () => {
  for (const header of [null, `Bearer ${GOOD}`, "Bearer bad"]) {
    const identity = authorize(ring(["admin"], false), chat, header);
    assert.deepEqual([identity.name, identity.authenticated], ["anonymous", false]);
  }
});

test("a missing key and a wrong key both answer 401", () => {
  assert.equal(errorTable.missing_api_key.http, 401);
  assert.equal(errorTable.invalid_api_key.http, 401);
});

test("without keys, only known host names are answered", () => {
  const allowed = ["localhost", "127.0.0.1", "[::1]"];
  for (const host of ["localhost", "LOCALHOST:8642", "127.0.0.1:1", "[::1]", "[::1]:8642"]) {
    checkHost(allowed, host);
  }
  for (const host of [
    null,
    "",
    "evil.example",
    "evil.example:8642",
    "localhost.evil.example",
    "localhost:80:80",
    "127.0.0.1.nip.io",
    "localhost@evil",
  ]) {
    assert.throws(() => checkHost(allowed, host), refused("host_not_allowed"), String(host));
  }
  checkHost(undefined, "anything");
});
