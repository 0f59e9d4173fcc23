import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parsePayload } from "../../../src/webhook/receive/event.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const parse = (text: string, type = "application/json") =>
  parsePayload(bytes(text), new Headers({ "content-type": type }));

/** Levels of objects and lists, by what was parsed. */
function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

test("a JSON body parses like JSON.parse, and its text is kept", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), (text) => {
      assert.deepEqual(parse(text), { payload: JSON.parse(text), text });
    }),
  );
});

test("a body nested deeper than 200 levels is refused, whatever its texts contain", () => {
  const noise = fc.string({ unit: fc.constantFrom("[", "]", "{", "}", '"', "\\", "\\\\", "x") });
  fc.assert(
    fc.property(fc.integer({ min: 190, max: 210 }), noise, fc.boolean(), (depth, text, isList) => {
      const inner = JSON.stringify({ [text]: text });
      const json = isList
        ? "[".repeat(depth) + inner + "]".repeat(depth)
        : `{"a":`.repeat(depth) + inner + "}".repeat(depth);
      const parsed = parse(json);
      const deep = depthOf(JSON.parse(json));
      assert.equal("problem" in parsed ? parsed.problem : "none", deep > 200 ? "too_deep" : "none");
    }),
  );
});

test("truncated JSON and other text are malformed", () => {
  for (const text of ['"', '"\\', '{"a":"\\"', "]", "\\", '"a" "b"']) {
    assert.deepEqual(parse(text), { problem: "malformed", text }, text);
  }
});

test("a form becomes an object of its fields, with any names", () => {
  const form = "application/x-www-form-urlencoded; charset=utf-8";
  assert.deepEqual(parse("a=1&a=2&b=%C3%A9+x&c", form), {
    payload: { a: "2", b: "é x", c: "" },
    text: "a=1&a=2&b=%C3%A9+x&c",
  });
  const odd = parse("__proto__=x&constructor=y", form);
  assert.ok("payload" in odd);
  assert.deepEqual(Object.keys(odd.payload as object), ["__proto__", "constructor"]);
  assert.equal(({} as Record<string, unknown>)["x"], undefined);
  assert.deepEqual(parse('payload={"a":[1]}', form), { payload: { a: [1] }, text: 'payload={"a":[1]}' });
  const deep = `payload=${"[".repeat(300)}${"]".repeat(300)}`;
  assert.ok("payload" in parse(deep, form), "a field is a text when it is not a payload");
});
