import assert from "node:assert/strict";
import { test } from "node:test";
import { applyDefaults, narrowSchema, resolveReference } from "../../../src/base/schema.ts";

const schema = {
  type: "object",
  properties: {
    port: { type: "integer", default: 80 },
    http: { $ref: "#/$defs/Http" },
    routes: { type: "object", default: {}, additionalProperties: { $ref: "#/$defs/Route" } },
    list: { type: "array", items: { $ref: "#/$defs/Route" } },
    target: { oneOf: [{ $ref: "#/$defs/Mail" }, { $ref: "#/$defs/Log" }] },
    plain: { type: "object", properties: { deep: { default: 1 } } },
  },
  $defs: {
    Http: { type: "object", default: {}, properties: { hosts: { type: "array", default: ["a"] } } },
    Route: { type: "object", properties: { rate: { default: 30 } } },
    Mail: {
      type: "object",
      required: ["kind"],
      properties: { kind: { const: "mail" }, port: { default: 25 } },
    },
    Log: {
      type: "object",
      required: ["kind"],
      properties: { kind: { const: "log" }, level: { default: "info" } },
    },
  },
};

test("absent properties get their defaults, also behind references", () => {
  assert.deepEqual(applyDefaults(schema, {}), { port: 80, http: { hosts: ["a"] }, routes: {} });
});

test("existing values are kept, even null, false and 0", () => {
  assert.deepEqual(applyDefaults(schema, { port: 0, http: null, routes: false }), {
    port: 0,
    http: null,
    routes: false,
  });
});

test("the members of a map and of a list get theirs", () => {
  const filled = applyDefaults(schema, { routes: { a: {}, b: { rate: 1 } }, list: [{}] }) as Record<
    string,
    unknown
  >;
  assert.deepEqual(filled["routes"], { a: { rate: 30 }, b: { rate: 1 } });
  assert.deepEqual(filled["list"], [{ rate: 30 }]);
});

test("a union fills only the branch that its tag names", () => {
  const filled = applyDefaults(schema, { target: { kind: "log" } }) as Record<string, unknown>;
  assert.deepEqual(filled["target"], { kind: "log", level: "info" });
});

test("an object without a default is not created for its members", () => {
  assert.ok(!("plain" in (applyDefaults(schema, {}) as object)));
  assert.deepEqual((applyDefaults(schema, { plain: {} }) as Record<string, unknown>)["plain"], { deep: 1 });
});

test("neither the value nor the schema is changed, and defaults are not shared", () => {
  const value = Object.freeze({ plain: Object.freeze({}) });
  const [first, second] = [applyDefaults(schema, value), applyDefaults(schema, value)] as {
    http: { hosts: string[] };
  }[];
  first!.http.hosts.push("b");
  assert.deepEqual(second!.http.hosts, ["a"]);
  assert.deepEqual(schema.$defs.Http.properties.hosts.default, ["a"]);
});

test("a value that does not fit is left as it is", () => {
  assert.equal(applyDefaults(schema, 5), 5);
  assert.deepEqual(applyDefaults(schema, { list: 3, unknown: 1 }), {
    port: 80,
    http: { hosts: ["a"] },
    routes: {},
    list: 3,
    unknown: 1,
  });
});

test("a member called __proto__ stays data", () => {
  const filled = applyDefaults(schema, JSON.parse('{"__proto__": {"port": 1}}')) as Record<string, unknown>;
  assert.deepEqual(Object.keys(filled).includes("__proto__"), true);
  assert.equal(filled["port"], 80);
});

test("narrowing follows references and keeps the branch that the tag names", () => {
  const narrowed = narrowSchema(
    { oneOf: [{ $ref: "#/$defs/Mail" }, { $ref: "#/$defs/Log" }] },
    { kind: "log" },
    schema,
  );
  assert.deepEqual(narrowed, {
    allOf: [{ ...schema.$defs.Log, properties: { ...schema.$defs.Log.properties } }],
  });
});

test("a keyword beside a reference applies in addition to it", () => {
  const root = { $defs: { Base: { type: "object", required: ["a"], properties: { a: {} } } } };
  const narrowed = narrowSchema({ $ref: "#/$defs/Base", required: ["b"], description: "x" }, { b: 1 }, root);
  assert.deepEqual(
    [narrowed["required"], narrowed["allOf"]],
    [["a"], [{ required: ["b"], description: "x" }]],
  );
});

test("a reference that leads nowhere throws with its name", () => {
  assert.throws(() => resolveReference(schema, "#/$defs/Gone"), /#\/\$defs\/Gone leads nowhere/);
  assert.throws(() => resolveReference(schema, "#/$defs/constructor"), /leads nowhere/);
});
