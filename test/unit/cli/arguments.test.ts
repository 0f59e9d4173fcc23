import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ArgsDef } from "citty";
import { findFirstArgument, normalizeArguments, UsageError } from "../../../src/cli/kit/arguments.ts";

const args: ArgsDef = {
  name: { type: "positional", required: true },
  rest: { type: "positional", required: false },
  force: { type: "boolean", alias: "f" },
  color: { type: "boolean", default: true },
  port: { type: "string", alias: ["p"] },
  level: { type: "enum", options: ["low", "high"] },
};

describe("normalizeArguments", () => {
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ["a", ["--", "a"]],
    ["a b --force", ["--force", "--", "a", "b"]],
    ["-f a -p 80", ["--force", "--port=80", "--", "a"]],
    ["--port=80 a", ["--port=80", "--", "a"]],
    ["--port= a", ["--port=", "--", "a"]],
    ["--port=a=b a", ["--port=a=b", "--", "a"]],
    ["--port -5 -7", ["--port=-5", "--", "-7"]],
    ["--no-color a", ["--no-color", "--", "a"]],
    ["a - ", ["--", "a", "-"]],
    ["--force -- --port", ["--force", "--", "--port"]],
    ["--level high a", ["--level=high", "--", "a"]],
  ];
  for (const [line, expected] of cases) {
    it(`reads ${line}`, () => assert.deepEqual(normalizeArguments(line.trim().split(" "), args), expected));
  }

  const refused: readonly (readonly [string, RegExp])[] = [
    ["--forse a", /^Unknown option --forse; did you mean --force\?$/],
    ["--zzzzzz a", /^Unknown option --zzzzzz\.$/],
    ["-x a", /^Unknown option -x/],
    ["-force a", /^Unknown option -force; did you mean --force\?$/],
    ["--name a", /^Unknown option --name/],
    ["--force=yes a", /^--force does not take a value\.$/],
    ["--no-force=1 a", /^Unknown option --no-force/],
    ["--no-port a", /^Unknown option --no-port/],
    ["a --port", /^--port needs a value\.$/],
    ["a --port --force", /^--port needs a value\.$/],
    ["a --level mid", /^--level must be one of low, high\.$/],
    ["a b c", /^Unexpected argument "c"\. Put quotes around a text of several words\.$/],
    ["a b -- c", /^Unexpected argument "c"\. Put quotes around a text of several words\.$/],
    ["--force", /^The argument <name> is missing\.$/],
  ];
  for (const [line, message] of refused) {
    it(`refuses ${line}`, () => {
      assert.throws(
        () => normalizeArguments(line.split(" "), args),
        (error) => error instanceof UsageError && message.test(error.message),
      );
    });
  }

  it("asks for options that are required", () => {
    assert.throws(
      () => normalizeArguments([], { to: { type: "string", required: true } }),
      /--to is required/,
    );
  });
});

describe("findFirstArgument", () => {
  it("passes over flags and their values", () => {
    assert.equal(findFirstArgument(["--port", "80", "-f", "run"], args), 3);
    assert.equal(findFirstArgument(["--port=80", "run"], args), 1);
    assert.equal(findFirstArgument(["--", "run"], args), -1);
    assert.equal(findFirstArgument([], args), -1);
  });
});
