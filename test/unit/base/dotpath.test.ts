import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { formatDotPath, getAtPath, parseDotPath } from "../../../src/base/data.ts";

describe("parseDotPath", () => {
  const paths: readonly (readonly [string, readonly (string | number)[]])[] = [
    ["a", ["a"]],
    ["a.b_c.d-e", ["a", "b_c", "d-e"]],
    ["a[0].b", ["a", 0, "b"]],
    ["a.0.b", ["a", "0", "b"]],
    ["[2]", [2]],
    ['a["x.y"].z', ["a", "x.y", "z"]],
    ['a["say \\"hi\\""]', ["a", 'say "hi"']],
  ];
  for (const [text, segments] of paths) {
    it(`reads ${text}`, () => assert.deepEqual(parseDotPath(text), segments));
  }

  for (const text of [
    "",
    ".",
    ".a",
    "a.",
    "a..b",
    "a b",
    "a[",
    "a[x]",
    "a[-1]",
    "a[0]b",
    'a["x]',
    "a['x']",
    "é",
    "a[1234567890]",
  ]) {
    it(`refuses ${JSON.stringify(text)}`, () => assert.equal(parseDotPath(text), undefined));
  }

  it("refuses a path over 1024 characters", () => {
    assert.equal(parseDotPath("a".repeat(1025)), undefined);
    assert.deepEqual(parseDotPath("a".repeat(1024)), ["a".repeat(1024)]);
  });

  it("refuses a quoted name that is not JSON", () => assert.equal(parseDotPath('a["\\x"]'), undefined));
});

describe("formatDotPath", () => {
  for (const text of ["a", "a.b[0].c", '["x.y"][3]', 'a["with space"].b', ""]) {
    it(`is the inverse of parseDotPath for ${JSON.stringify(text)}`, () => {
      assert.equal(formatDotPath(parseDotPath(text) ?? []), text);
    });
  }
});

describe("getAtPath", () => {
  const value = { a: { list: [{ name: "first" }, null], "x.y": 1, none: undefined } };

  it("reads names, indices in both forms, and quoted names", () => {
    assert.equal(getAtPath(value, ["a", "list", 0, "name"]), "first");
    assert.equal(getAtPath(value, ["a", "list", "0", "name"]), "first");
    assert.equal(getAtPath(value, ["a", "x.y"]), 1);
  });

  it("gives the value itself for the empty path", () => assert.equal(getAtPath(value, []), value));

  it("is undefined where no value exists, at any depth", () => {
    assert.equal(getAtPath(value, ["a", "b", "c", "d"]), undefined);
    assert.equal(getAtPath(value, ["a", "list", 1, "name"]), undefined);
    assert.equal(getAtPath(value, ["a", "list", 9]), undefined);
    assert.equal(getAtPath("text", [0]), undefined);
    assert.equal(getAtPath(null, ["a"]), undefined);
  });

  it("never reads inherited properties", () => {
    for (const name of ["constructor", "__proto__", "toString"])
      assert.equal(getAtPath(value, [name]), undefined);
    assert.equal(getAtPath(value, ["a", "list", "length"]), undefined);
  });
});
