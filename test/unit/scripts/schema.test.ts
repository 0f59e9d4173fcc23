import assert from "node:assert/strict";
import { test } from "node:test";
import { makeExplicit, stripAnnotations } from "../../../scripts/lib/schema.ts";

test("every number says its format and every constant its type", () => {
  const schema = {
    properties: {
      price: { type: ["number", "null"] },
      port: { type: "integer", format: "int32" },
      count: { type: "integer" },
      kind: { const: "run" },
      done: { const: true },
      one: { const: 1 },
      type: { type: "string", example: { type: "number" } },
    },
  };
  assert.deepEqual(makeExplicit(schema), {
    properties: {
      price: { type: ["number", "null"], format: "double" },
      port: { type: "integer", format: "int32" },
      count: { type: "integer", format: "int64" },
      kind: { type: "string", const: "run" },
      done: { type: "boolean", const: true },
      one: { type: "integer", const: 1, format: "int64" },
      type: { type: "string", example: { type: "number" } },
    },
  });
});

test("validators get the same schemas with and without formats and types that are only explicit", () => {
  const schema = { properties: { at: { type: "number" }, kind: { const: "run" }, id: { type: "integer" } } };
  assert.deepEqual(stripAnnotations(makeExplicit(schema)), schema);
});

test("validators get the server's schema where there is one", () => {
  const schema = {
    type: "object",
    properties: {
      choice: { type: "string", enum: ["once"], "x-server-schema": { type: "string" } },
      user: { type: "string", "x-server-schema": {} },
    },
  };
  assert.deepEqual(stripAnnotations(schema), {
    type: "object",
    properties: { choice: { type: "string" }, user: {} },
  });
});
