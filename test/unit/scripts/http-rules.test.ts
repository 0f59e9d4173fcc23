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
  test(`${id} is not a camelCase operationId`, () => {
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

test("an answer that is JSON or a stream names its event in x-sse, where clients do not join the two", () => {
  const events = { schema: { $ref: "#/components/schemas/Event" } };
  const both = { "application/json": {}, "text/event-stream": events };
  const problem =
    "getA1 200: name the schema of an event in x-sse.data, not beside application/json; clients would take an answer for the union of both";
  assert.deepEqual(check(response(both), { Event: {} }), [problem]);
  const named = (data: string, content: object) => ({
    "/a": { get: { operationId: "getA1", "x-sse": { data }, responses: { "200": { content } } } },
  });
  assert.deepEqual(check(named("Event", both), { Event: {} }), [problem]);
  assert.deepEqual(check(named("Event", { "application/json": {} }), { Event: {} }), []);
  assert.deepEqual(check(named("Events", { "application/json": {} }), { Event: {} }), [
    "getA1: x-sse.data names Events, which is not in components.schemas",
  ]);
});

test("what generators of clients in other languages cannot print is refused", () => {
  const property = (schema: object) => ({ type: "object", properties: { a: schema } });
  const at = "components/schemas/Thing/properties/a";
  const faults: readonly (readonly [object, string])[] = [
    [{ type: "boolean", const: true }, "a constant true or false: write type: boolean"],
    [{ type: "null" }, "null alone is not a type: write a union with what it may be"],
    [
      { type: "boolean", default: true },
      "a default makes the property required for clients: write it in the description",
    ],
    [
      { type: "object", additionalProperties: { type: ["string", "number"] } },
      "additionalProperties of several types: write true, and the types in the description",
    ],
  ];
  for (const [schema, problem] of faults) {
    assert.deepEqual(check({}, { Thing: property(schema) }), [`${at}: ${problem}`]);
  }
  const nullable = { oneOf: [{ type: "string" }, { type: "null" }] };
  const map = { type: "object", additionalProperties: { type: "string" } };
  assert.deepEqual(check({}, { Thing: property(nullable), Other: property(map) }), []);
  assert.deepEqual(check({}, { Response: {} }), [
    "schema Response: generators use this name themselves; choose another",
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

test("a body may be absent where its members are optional", () => {
  const operation = (schema: object) => ({
    "/a": {
      post: {
        operationId: "doIt",
        requestBody: { content: { "application/json": { schema } } },
        responses: answer,
      },
    },
  });
  const properties = { a: { type: "string" } };
  const schemas = {
    Fine: { type: "object", properties },
    Strict: { type: "object", required: ["a"], properties },
  };
  assert.deepEqual(check(operation({ $ref: "#/components/schemas/Fine" }), schemas), []);
  const problem =
    "doIt: an absent body stands for {}, which the schema refuses: make the body required, or its members optional";
  for (const schema of [
    { $ref: "#/components/schemas/Strict" },
    { type: "array", items: {} },
    { type: "object", oneOf: [schemas.Fine] },
    {},
  ])
    assert.deepEqual(check(operation(schema), schemas), [problem], JSON.stringify(schema));
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
