import assert from "node:assert/strict";
import { test } from "node:test";
import type { BundledDocument } from "../../../scripts/lib/document.ts";
import type { ErrorRow } from "../../../src/base/errors.ts";
import { checkErrorCodes, checkHttpRules } from "../../../scripts/lib/http-rules.ts";
import { readOperations } from "../../../scripts/lib/operation.ts";

const answer = { "200": { description: "ok" } };

function check(paths: object, schemas: object = {}): readonly string[] {
  const document = { openapi: "3.1.1", info: { title: "t", version: "0" }, paths, components: { schemas } };
  const bundle = document as unknown as BundledDocument;
  return checkHttpRules(bundle, readOperations(bundle));
}

function response(content: object): object {
  return { "/a": { get: { operationId: "getA1", responses: { "200": { description: "ok", content } } } } };
}

test("a document that keeps the rules has no problems", () => {
  assert.deepEqual(check({ "/a": { get: { operationId: "getAll", responses: answer } } }), []);
});

test("an operation needs an id", () => {
  assert.deepEqual(check({ "/a": { get: { responses: answer } } }), ["GET /a: operationId is required"]);
});

for (const id of ["GetAll", "get_all", "get-all", "getURL", "get all", "1st"]) {
  test(`${id} is no camelCase operationId`, () => {
    assert.deepEqual(check({ "/a": { get: { operationId: id, responses: answer } } }), [
      `GET /a: operationId "${id}" must be camelCase, without runs of capitals`,
    ]);
  });
}

test("an operationId is used once, and the other user is named", () => {
  const operation = { operationId: "getAll", responses: answer };
  assert.deepEqual(check({ "/a": { get: operation, post: operation }, "/b": { get: operation } }), [
    'POST /a: operationId "getAll" is taken by GET /a; it must be unique',
    'GET /b: operationId "getAll" is taken by GET /a; it must be unique',
  ]);
});

test("application/json is listed first", () => {
  const events = { schema: { $ref: "#/components/schemas/Event" } };
  assert.deepEqual(check(response({ "text/event-stream": events, "application/json": {} }), { Event: {} }), [
    "getA1 200: list application/json first; clients are typed by the first media type",
  ]);
});

test("the schema of an event is a reference to a component", () => {
  const wanted = "getA1 200: the text/event-stream schema must be a $ref to the schema of one event";
  assert.deepEqual(check(response({ "text/event-stream": { schema: { type: "object" } } })), [wanted]);
  assert.deepEqual(check(response({ "text/event-stream": {} })), [wanted]);
});

test("unions are oneOf, wherever they stand", () => {
  const union = { anyOf: [{ type: "string" }, { type: "null" }] };
  const schemas = { Thing: { type: "object", properties: { name: union, anyOf: { type: "string" } } } };
  assert.deepEqual(check(response({ "application/json": { schema: union } }), schemas), [
    "paths//a/get/responses/200/content/application/json/schema: write anyOf as oneOf, with a const tag in each branch",
    "components/schemas/Thing/properties/name: write anyOf as oneOf, with a const tag in each branch",
  ]);
});

test("a schema's name can be a type's name", () => {
  assert.deepEqual(check({}, { run_event: {}, "Run.Event": {} }), [
    "schema run_event: names are PascalCase letters and digits",
    "schema Run.Event: names are PascalCase letters and digits",
  ]);
});

test("two schemas of one name in different files are reported differently from a bad name", () => {
  assert.match(check({}, { "Run-2": {} })[0]!, /two different schemas share a name: rename one/);
});

test("a request body is JSON, or asked for as bytes", () => {
  const requestBody = { content: { "text/plain": {} } };
  const operation = { operationId: "putIt", requestBody, responses: answer };
  assert.deepEqual(check({ "/a": { put: operation } }), [
    "putIt: the request body must be application/json, or the operation must say x-raw-body: true",
  ]);
  assert.deepEqual(check({ "/a": { put: { ...operation, "x-raw-body": true } } }), []);
});

test("an operation says what success is, and statuses are plain", () => {
  const responses = { "4XX": { description: "no" }, default: { description: "no" } };
  assert.deepEqual(check({ "/a": { get: { operationId: "getIt", responses } } }), [
    "getIt: at least one response below 400 is required",
    "getIt 4XX: a status is three digits or default; ranges are not supported",
  ]);
});

function row(type: ErrorRow["type"], more: Partial<ErrorRow> = {}): ErrorRow {
  return { http: 400, type, rpc: 0, retryable: false, ...more };
}

function compareCodes(codes: readonly string[]): readonly string[] {
  const schemas = {
    ErrorEnvelope: {},
    ErrorCode: { type: "string", enum: codes },
    ErrorType: { type: "string", enum: ["invalid_request_error"] },
  };
  const table = {
    bad: row("invalid_request_error"),
    alias: row("invalid_request_error", { wire: "bad" }),
    worse: row("invalid_request_error"),
    gateway_only: row("server_error", { only: "rpc" }),
  };
  return checkErrorCodes({ components: { schemas } } as unknown as BundledDocument, table);
}

test("the enum of error codes lists what the error table has for HTTP", () => {
  assert.deepEqual(compareCodes(["bad", "worse"]), []);
});

test("an error code that only the table has is a problem, and so is one that only the enum has", () => {
  assert.deepEqual(compareCodes(["bad", "gone"]), [
    "schema ErrorCode: worse is in src/base/errors.ts and not in the enum",
    "schema ErrorCode: gone is in the enum, and src/base/errors.ts has no such row",
  ]);
});
