import assert from "node:assert/strict";
import { test } from "node:test";
import { formatIssue, SchemaSet, type Issue } from "../../../src/base/schema.ts";

const schemas = {
  Text: tagged("text", { text: { type: "string", minLength: 1 } }),
  Image: tagged("image", { url: { type: "string", format: "uri" }, size: { type: "integer", maximum: 3 } }),
  Part: { oneOf: [ref("Text"), ref("Image")] },
  Content: { oneOf: [{ type: "string" }, { type: "array", items: ref("Part") }] },
  User: {
    type: "object",
    required: ["role", "content"],
    properties: { role: { const: "user" }, content: ref("Content") },
  },
  Tool: {
    type: "object",
    required: ["role", "call"],
    properties: { role: { const: "tool" }, call: { type: "string" } },
  },
  Message: { oneOf: [ref("User"), ref("Tool")] },
  Request: {
    type: "object",
    required: ["messages"],
    additionalProperties: false,
    properties: {
      messages: { type: "array", minItems: 1, items: ref("Message") },
      model: { type: ["string", "null"], maxLength: 4 },
      effort: { enum: ["low", "high"] },
      metadata: { type: "object", additionalProperties: { type: "string" } },
    },
  },
  Tree: {
    type: "object",
    required: ["children"],
    properties: { children: { type: "array", items: ref("Tree") } },
  },
};
const set = new SchemaSet(schemas);

function tagged(type: string, properties: object) {
  const all = { type: { const: type }, ...properties };
  return { type: "object", required: Object.keys(all), additionalProperties: false, properties: all };
}

function ref(name: string) {
  return { $ref: `#/components/schemas/${name}` };
}

function lines(name: string, value: unknown): readonly string[] {
  return (set.checkNamed(name, value) ?? []).map((issue) => formatIssue(issue));
}

test("a value that fits has no issues", () => {
  const messages = [{ role: "user", content: [{ type: "text", text: "hi" }] }];
  assert.equal(
    set.checkNamed("Request", { messages, model: null, effort: "low", metadata: { a: "b" } }),
    undefined,
  );
});

test("a path names list indexes with brackets and members with dots", () => {
  assert.deepEqual(
    lines("Request", { messages: [{ role: "user", content: [{ type: "text", text: "" }] }] }),
    ["messages[0].content[0].text must have at least 1 character"],
  );
});

test("a member whose name is a number is not a list index", () => {
  assert.deepEqual(lines("Request", { messages: [{ role: "tool", call: "c" }], metadata: { "0": 1 } }), [
    "metadata.0 must be a string",
  ]);
});

test("a member name with special characters is quoted, and slashes and tildes survive", () => {
  const metadata = { "a/b~c d": 1 };
  assert.deepEqual(lines("Request", { messages: [{ role: "tool", call: "c" }], metadata }), [
    'metadata["a/b~c d"] must be a string',
  ]);
});

test("a name that is not allowed is distinguished from a value that is not", () => {
  const schema = { type: "object", propertyNames: { pattern: "^[a-z]+$" } };
  assert.deepEqual(
    set.check(schema, { ok: 1, Bad: 1 })!.map((each) => formatIssue(each)),
    ["Bad is not an allowed name: it must match ^[a-z]+$"],
  );
});

test("for a tagged union only the selected branch is reported", () => {
  const part = { type: "image", url: "https://example.org/a", size: 4, alt: "x" };
  assert.deepEqual(lines("Request", { messages: [{ role: "user", content: [part] }] }), [
    "messages[0].content[0].alt is not known here; valid names: type, url, size",
    "messages[0].content[0].size must be at most 3",
  ]);
});

test("an unknown tag is reported with the known tags", () => {
  assert.deepEqual(lines("Message", { role: "robot" }), ['role must be one of "user", "tool"']);
});

test("a missing tag is reported as required", () => {
  assert.deepEqual(lines("Message", { content: "x" }), ["role is required"]);
});

test("a union of types is resolved by the type, not by its first branch", () => {
  assert.deepEqual(lines("Content", 3), ["the value must be a string or an array"]);
  assert.deepEqual(lines("Content", [3]), ["[0] must be an object"]);
});

test("every missing property and every unknown one is its own issue", () => {
  const issues = set.check(
    { type: "object", required: ["a", "b"], additionalProperties: false },
    { c: 1, d: 2 },
  );
  assert.deepEqual(issues?.map(({ path, keyword }) => `${path}:${keyword}`).toSorted(), [
    "a:required",
    "b:required",
    "c:additionalProperties",
    "d:additionalProperties",
  ]);
});

const LIMITS: readonly (readonly [object, unknown, string])[] = [
  [{ type: "integer" }, 1.5, "must be an integer"],
  [{ type: ["object", "null"] }, 1, "must be an object or null"],
  [{ enum: ["a", 1, null] }, "b", 'must be one of "a", 1, null'],
  [{ const: 2 }, 1, "must be 2"],
  [{ minimum: 2 }, 1, "must be at least 2"],
  [{ exclusiveMinimum: 1 }, 1, "must be greater than 1"],
  [{ exclusiveMaximum: 1 }, 1, "must be less than 1"],
  [{ multipleOf: 2 }, 3, "must be a multiple of 2"],
  [{ maxLength: 1 }, "ab", "must have at most 1 character"],
  [{ minItems: 2 }, [1], "must have at least 2 items"],
  [{ maxItems: 1 }, [1, 2], "must have at most 1 item"],
  [{ minProperties: 1 }, {}, "must have at least 1 property"],
  [{ maxProperties: 0 }, { a: 1 }, "must have at most 0 properties"],
  [{ uniqueItems: true }, [1, 1], "must not hold the same item twice"],
  [{ pattern: "^a" }, "b", "must match ^a"],
  [{ format: "date-time" }, "yesterday", "must be a valid date-time"],
  [{ not: { type: "string" } }, "a", "is not allowed"],
  [{ oneOf: [{ type: "number" }, { minimum: 0 }] }, 1, "matches more than one of the allowed forms"],
];
for (const [schema, value, message] of LIMITS) {
  test(`${JSON.stringify(schema)} refuses ${JSON.stringify(value)} with its limit`, () => {
    const { messages } = {
      messages: set.check(schema as Record<string, unknown>, value)?.map((each) => each.message),
    };
    assert.deepEqual(messages, [message]);
  });
}

test("for a union without tags the branch that matched furthest comes first", () => {
  const near = {
    type: "object",
    required: ["a"],
    properties: { a: { type: "object", properties: { b: { type: "string" } } } },
  };
  const far = { type: "object", required: ["z"], properties: { z: { type: "string" } } };
  assert.equal(formatIssue(set.check({ oneOf: [far, near] }, { a: { b: 1 } })![0]!), "a.b must be a string");
});

test("an issue never contains the value, only names, which are shortened", () => {
  const secret = "sk-very-secret";
  const text = JSON.stringify(
    set.checkNamed("Request", { messages: secret, effort: secret, ["k".repeat(500)]: secret }),
  );
  assert.ok(!text.includes(secret));
  assert.ok(text.length < 800, text);
});

test("a result has at most eight issues", () => {
  const messages = Array.from({ length: 50 }, () => ({ role: "user", content: 1 }));
  const unknown = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`x${index}`, 1]));
  assert.equal(set.checkNamed("Request", { messages, ...unknown })!.length, 8);
});

test("above 64 kB a refused value gets one issue without details", () => {
  const issues = set.checkNamed("Request", { messages: 1 }, 65_537) as readonly Issue[];
  assert.equal(issues.length, 1);
  assert.equal(issues[0]!.path, "");
  assert.equal(set.checkNamed("Request", { messages: 1 }, 65_536)![0]!.path, "messages");
});

test("a value as deep as a client likes is refused, not a crash", () => {
  let tree: unknown = { children: [{ children: 1 }] };
  for (let depth = 0; depth < 100_000; depth += 1) tree = { children: [tree] };
  const issues = set.checkNamed("Tree", tree);
  assert.equal(issues?.length, 1);
});

test("a schema may carry its own definitions and refer to itself", () => {
  const schema = {
    type: "object",
    properties: { next: { $ref: "#" }, size: { $ref: "#/$defs/Size" } },
    $defs: { Size: { type: "integer" } },
  };
  assert.equal(set.check(schema, { next: { next: { size: 1 } } }), undefined);
  assert.deepEqual(
    set.check(schema, { next: { size: "1" } })!.map((each) => formatIssue(each)),
    ["next.size must be an integer"],
  );
});

test("constraints beside a reference hold and are explained", () => {
  const issues = set.check({ $ref: "#/components/schemas/Tool", required: ["extra"] }, { role: "tool" });
  assert.deepEqual(issues!.map((each) => formatIssue(each)).toSorted(), [
    "call is required",
    "extra is required",
  ]);
});

test("asking for a schema that is not in the set throws", () => {
  assert.throws(() => set.checkNamed("Nobody", 1), /no schema is named Nobody/);
  assert.throws(() => set.checkNamed("toString", 1), /no schema is named toString/);
});
