import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isExactNumber, parseExactJson } from "../../../src/base/data.ts";
import { redactValue } from "../../../src/base/observe.ts";
import { isSameJson } from "../../../src/webhook/receive/filter.ts";

test("integers of any length, and numbers beyond the doubles, are written as they were read", () => {
  const number = fc.oneof(
    fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String),
    fc.constantFrom("1e400", "-1E+999", "9007199254740991", "9007199254740993", "12345678901234567890.5"),
  );
  const place = fc.constantFrom<(text: string) => string>(
    (text) => text,
    (text) => `[${text}]`,
    (text) => `{"a":{"b":[1,${text}]},"c":null}`,
  );
  fc.assert(
    fc.property(number, place, (text, around) => {
      assert.equal(JSON.stringify(parseExactJson(around(text))), around(text));
      assert.equal(JSON.stringify(redactValue(parseExactJson(around(text)))), around(text));
    }),
  );
});

test("everything else is parsed as it always was", () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const value = parseExactJson(text);
      if (!/\d{16}|e\+\d{3}/.test(text)) assert.deepEqual(value, JSON.parse(text));
      assert.equal(isSameJson(value, JSON.parse(text)), true);
    }),
  );
  const own = parseExactJson('{"__proto__": {"a": 9007199254740993}, "b": 9007199254740992}') as object;
  assert.deepEqual(Object.keys(own), ["__proto__", "b"]);
  assert.equal(Object.getPrototypeOf(own), Object.prototype);
  assert.equal(isExactNumber(own), false);
  assert.throws(() => parseExactJson("[1234567890123456789"), SyntaxError);
});

test("numbers in their own digits differ by them; a number of the language is near enough", () => {
  const [one, next, large] = parseExactJson("[9007199254740993, 9007199254740995, 1e400]") as unknown[];
  assert.equal(isExactNumber(one), true);
  assert.equal(isSameJson(one, next), false);
  assert.equal(isSameJson(one, parseExactJson("9007199254740993")), true);
  assert.equal(isSameJson(one, 2 ** 53), true);
  assert.equal(isSameJson(2 ** 53, one), true);
  assert.equal(isSameJson("9007199254740993", one), false);
  assert.equal(isSameJson(large, null), false);
});

test("a text without such numbers is parsed as it is, with no look at each of its values", (t) => {
  const parse = t.mock.method(JSON, "parse");
  const rows = Array.from({ length: 2_000 }, (_, at) => ({ at, sha: "a1".repeat(20) }));
  assert.deepEqual(parseExactJson(JSON.stringify({ rows })), { rows });
  assert.deepEqual(
    parse.mock.calls.map((call) => call.arguments.length),
    [1],
  );
});

test("decimals, exponents and signs of zero are written as they were read", () => {
  const digits = fc.stringMatching(/^(0|[1-9]\d{0,5})$/);
  const number = fc.oneof(
    fc.constantFrom("19.90", "1.0", "1e3", "1E-2", "-0", "0.0000001", "0.10", "1.5e+10", "100.00", "-7.50"),
    fc.tuple(digits, fc.stringMatching(/^\d{1,20}$/)).map(([whole, part]) => `${whole}.${part}`),
  );
  fc.assert(
    fc.property(number, fc.constantFrom(",", ", ", "\n,"), (text, comma) => {
      const [first, last] = parseExactJson(`[${text}${comma}{"a": ${text} }]`) as [unknown, { a: unknown }];
      assert.equal(JSON.stringify([first, last.a]), `[${text},${text}]`);
      assert.equal(isSameJson(first, Number(text)), true);
      assert.equal(isSameJson(first, last.a), true);
    }),
  );
  assert.equal(isSameJson(parseExactJson("1.0"), parseExactJson("1.00")), true);
  assert.equal(isSameJson(parseExactJson("1.0"), parseExactJson("1.01")), false);
});

test("dates, versions and ids in texts do not slow the parser down", (t) => {
  const parse = t.mock.method(JSON, "parse");
  const row = {
    at: "2026-01-05T10:00:00.000Z",
    id: "3a0e4a2f-8a0b-4d1c-9f0e-0a4d5c3a0e4a",
    version: "v1.20",
    n: 19.5,
  };
  assert.deepEqual(parseExactJson(JSON.stringify([row])), [row]);
  assert.deepEqual(
    parse.mock.calls.map((call) => call.arguments.length),
    [1],
  );
});
