import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  checkFilters,
  filterFiles,
  passesFilters,
  isSameJson,
  patternOf,
} from "../../../src/webhook/receive/filter.ts";

interface Asked {
  readonly event?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly lists?: Readonly<Record<string, readonly unknown[]>>;
}

/** Whether a payload passes, and what was warned of. */
function ask(filters: unknown, payload: unknown, { event = "push", headers = {}, lists = {} }: Asked = {}) {
  const warnings: string[] = [];
  const subject = { payload, event, headers: new Headers(headers) };
  const ports = {
    valuesIn: (path: string) => lists[path],
    warn: (problem: string) => void warnings.push(problem),
  };
  return { passes: passesFilters(filters, subject, ports), warnings };
}

const passes = (...args: Parameters<typeof ask>) => ask(...args).passes;
const a = (more: object) => ({ field: "a", ...more });

test("a single entry counts as a list, and any other value matches nothing", () => {
  assert.equal(passes(a({ equals: 1 }), { a: 1 }), true);
  for (const nothing of [undefined, null, []]) assert.equal(passes(nothing, {}), true);
  for (const invalid of ["text", 1, true]) {
    assert.deepEqual(ask(invalid, {}), { passes: false, warnings: ["filters must be a list"] });
    assert.deepEqual(checkFilters(invalid), ["filters must be a list"]);
  }
});

test("an invalid entry never matches, however it is nested", () => {
  const invalid = [
    a({ regex: "(" }),
    a({ exists: 1 }),
    { equals: 1 },
    [],
    7,
    null,
    a({}),
    a({ missing: false }),
  ];
  for (const entry of invalid) {
    for (const wrapped of [
      entry,
      { not: entry },
      { not: { not: entry } },
      { not: { all: [entry] } },
      { any: [entry] },
    ]) {
      const { passes: isPassed, warnings } = ask([wrapped], { a: 1 });
      assert.equal(isPassed, false, JSON.stringify(wrapped));
      assert.ok(warnings.length > 0);
      assert.ok(checkFilters([wrapped]).length > 0);
    }
    assert.equal(
      passes([{ any: [entry, a({ equals: 1 })] }], { a: 1 }),
      true,
      "what else matches still does",
    );
    assert.equal(passes([{ not: { all: [entry, a({ equals: 2 })] } }], { a: 1 }), true);
  }
});

test("several operators in one entry must all match, and are refused at load", () => {
  const both = a({ exists: true, equals: 1 });
  assert.equal(passes([both], { a: 1 }), true);
  assert.equal(passes([both], { a: 2 }), false);
  assert.match(checkFilters([both])[0] ?? "", /more than one operator/);
});

test("nesting and the number of entries are limited", () => {
  const nested = (depth: number): object =>
    depth === 0 ? a({ exists: true }) : { all: [nested(depth - 1)] };
  assert.deepEqual(checkFilters([nested(16)]), []);
  assert.equal(passes([nested(16)], { a: 1 }), true);
  assert.match(checkFilters([nested(17)])[0] ?? "", /nested too deep/);
  assert.equal(passes([nested(17)], { a: 1 }), false);
  assert.equal(passes([nested(5_000)], { a: 1 }), false);
  assert.deepEqual(filterFiles([nested(5_000)]), []);
  const many = Array.from({ length: 201 }, () => a({ exists: true }));
  assert.match(checkFilters(many)[0] ?? "", /200/);
  assert.match(checkFilters([{ any: many }])[0] ?? "", /200/);
});

test("the files of nested filters are found", () => {
  const by = (path: string) => a({ in_file: path });
  const filters = [
    by("one"),
    { not: by("two") },
    { any: [{ all: [by("three")] }] },
    a({ equals: by("none") }),
  ];
  assert.deepEqual(filterFiles(filters), ["one", "two", "three"]);
  assert.deepEqual(filterFiles(by("one")), ["one"]);
  assert.equal(passes(by("one"), { a: 1 }, { lists: { one: [1] } }), true);
});

test("fields of headers, the event and the payload do not mix", () => {
  const asked = { event: "push", headers: { "X-A": "1" } };
  const payload = { event: "mine", headers: { "x-a": "2" }, event_type: "own" };
  for (const [field, value] of [
    ["event", "push"],
    ["event_type", "push"],
    ["headers.x-a", "1"],
    ["payload.event", "mine"],
    ["payload.headers.x-a", "2"],
    ["event.x", undefined],
  ]) {
    assert.equal(passes([{ field, equals: value ?? null }], payload, asked), value !== undefined, field);
  }
});

const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<unknown>;
const copy = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;

test("a value equals its copy in any order of names, and differs from other values", () => {
  fc.assert(
    fc.property(json, json, (one, other) => {
      assert.equal(isSameJson(copy(one), copy(one)), true);
      assert.equal(isSameJson(copy(one), turned(copy(one))), true);
      assert.equal(isSameJson(copy(one), copy(other)), sortedText(one) === sortedText(other));
    }),
  );
});

test("every operator has a result for every value, and `not` negates it", () => {
  const operand = fc.oneof(
    json.map((value) => ({ equals: value })),
    json.map((value) => ({ not_equals: value })),
    json.map((value) => ({ contains: value })),
    fc.array(json).map((value) => ({ in: value })),
    fc.boolean().map((value) => ({ exists: value })),
    fc.constant({ missing: true }),
    fc.constantFrom("^a", "\\d+", "[x-z]*", "").map((value) => ({ regex: value })),
  );
  const path = fc.array(fc.constantFrom("a", "0", "payload", "__proto__", ""), { minLength: 1 });
  fc.assert(
    fc.property(operand, path, json, (clause, segments, payload) => {
      const field = segments.join(".") || "a";
      const entry = { field, ...clause };
      assert.deepEqual(checkFilters([entry]), []);
      const { passes: isPassed, warnings } = ask([entry], copy(payload));
      assert.deepEqual(warnings, []);
      assert.equal(passes([{ not: entry }], copy(payload)), !isPassed);
    }),
  );
});

test("patterns match what regular expressions of the runtime match", () => {
  const piece = fc.constantFrom("a", "b", "ab?", "[ab]", ".", "(a|b)*", "(?:ba)+", "^", "$", "\\d", "é");
  const text = fc.string({ unit: fc.constantFrom("a", "b", "c", "1", "é", "\n") });
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), text, (pieces, within) => {
      const source = pieces.join("");
      assert.equal(patternOf(source)?.(within), new RegExp(source, "u").test(within));
    }),
  );
});

/** The same value with the names of its objects the other way around. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([name, each]) => [name, turned(each)]),
  );
}

function sortedText(value: unknown): string {
  return JSON.stringify(copy(value), (_, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([x], [y]) => (x < y ? -1 : 1)))
      : each,
  );
}

test("a pattern too costly for a long text gives up, and other patterns give a result", () => {
  let state = 1;
  const text = Array.from({ length: 100_000 }, () => {
    state = (state * 1_103_515_245 + 12_345) & 0x7fff_ffff;
    return state & 0x1_0000 ? "a" : "b";
  }).join("");
  for (const source of [".*a.{900}$", "a.{900}$", ".*a.{100}$", "(a+)+$"]) {
    for (const length of [2_000, 100_000]) {
      // A machine that tries one way after the other would never come to an end.
      const found = patternOf(source)?.(text.slice(0, length));
      assert.equal(typeof found, length > 2_000 && source.includes("00}") ? "undefined" : "boolean", source);
    }
  }
});

test("a text too long for a pattern matches neither the pattern nor its negation", () => {
  const entry = a({ regex: "evil.{200}" });
  for (const filters of [[entry], [{ not: entry }], [{ not: { not: entry } }]]) {
    const { passes: isPassed, warnings } = ask(filters, { a: `${"x".repeat(50_000)}evil` });
    assert.equal(isPassed, false);
    assert.match(warnings[0] ?? "", /the text is too long for it/);
  }
  assert.equal(passes([a({ regex: "end$" })], { a: `${"x".repeat(200_000)}end` }), true);
});
