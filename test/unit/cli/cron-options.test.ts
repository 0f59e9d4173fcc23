import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ArgsDef } from "citty";
import { normalizeArguments, UsageError } from "../../../src/cli/kit/arguments.ts";
import { createCommand, editCommand } from "../../../src/cli/cron/define.ts";
import {
  eitherSwitch,
  hasSwitch,
  listOption,
  numberOption,
  optionOf,
  inputOf,
} from "../../../src/cli/cron/options.ts";

const create = (...words: string[]) => normalizeArguments(words, createCommand.args as ArgsDef);
const edit = (...words: string[]) => normalizeArguments(words, editCommand.args as ArgsDef);
const said = (words: readonly string[]): Readonly<Record<string, unknown>> => inputOf(words);

describe("options of a job", () => {
  it("omitted options stay unchanged, and empty ones are reset", () => {
    assert.deepEqual(said(create("every 1h", "x")), {});
    const cleared = edit(
      "tea",
      "--script",
      "",
      "--deliver=",
      "--skill",
      "",
      "--toolsets",
      "",
      "--grace",
      "",
      "--tz",
      " ",
    );
    assert.deepEqual(said(cleared), {
      script: null,
      deliver: null,
      skills: null,
      toolsets: null,
      misfire_grace_seconds: null,
      time_zone: null,
    });
  });

  it("repeatable options keep their order, with or without commas", () => {
    const words = create(
      "every 1h",
      "--skill",
      "b",
      "--deliver",
      "local, telegram:-1",
      "--skill=a,c",
      "--deliver",
      "all",
    );
    assert.deepEqual(said(words), { skills: ["b", "a", "c"], deliver: "local, telegram:-1, all" });
    assert.equal(listOption(words, "context-from"), undefined);
  });

  it("switches whose name starts with no- are not negations of others", () => {
    const words = create("every 1h", "--no-agent", "--no-catch-up", "--script", "x.sh");
    assert.deepEqual(said(words), { no_agent: true, catch_up: false, script: "x.sh" });
    assert.equal(hasSwitch(["--", "--no-agent"], "no-agent"), false);
    assert.equal(eitherSwitch(edit("tea", "--agent"), "no-agent", "agent"), false);
  });

  it("conflicting options and invalid numbers are usage errors", () => {
    const wrong: readonly (readonly [() => unknown, RegExp])[] = [
      [() => inputOf(create("every 1h", "x", "--catch-up", "--no-catch-up")), /cannot be combined/],
      [() => inputOf(create("every 1h", "x", "--jitter", "soon")), /--jitter must be a whole number/],
      [() => inputOf(create("every 1h", "x", "--grace", "1.5")), /--grace must be a whole number/],
      [() => inputOf(create("every 1h", "x", "--provider", "openai")), /--provider requires --model/],
      [() => create("every 1h", "x", "--overlap", "queue"), /--overlap must be one of skip, allow/],
      [() => create("every 1h", "x", "y"), /Unexpected argument "y"/],
      [() => create("every 1h", "x", "--skil", "y"), /did you mean --skill/],
      [() => create(), /<schedule> is missing/],
    ];
    for (const [use, message] of wrong) {
      assert.throws(use, (error) => error instanceof UsageError && message.test(error.message));
    }
  });

  it("a provider is joined with its model, and negative numbers are left to the job to reject", () => {
    assert.equal(said(create("every 1h", "x", "--model", "m", "--provider", "p"))["model"], "p:m");
    assert.equal(numberOption(create("every 1h", "x", "--inactivity", "-5"), "inactivity"), -5);
    assert.equal(optionOf(create("every 1h", "x", "--name", "a", "--name", "b"), "name"), "b");
  });

  it("a prompt may begin with dashes behind --", () => {
    assert.deepEqual(create("every 1h", "--", "--deliver all").slice(-2), ["every 1h", "--deliver all"]);
  });
});
