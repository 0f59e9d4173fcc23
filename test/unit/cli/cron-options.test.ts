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
const said = (words: readonly string[]) =>
  Object.fromEntries(Object.entries(inputOf(words)).filter(([, value]) => value !== undefined));

describe("options of a job", () => {
  it("what is not said is left alone, and what is empty is taken back", () => {
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
      misfireGraceSeconds: null,
      zone: null,
    });
  });

  it("those that may be given again keep their order, with commas or without", () => {
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
    assert.deepEqual(said(words), { skills: ["b", "a", "c"], deliver: ["local", "telegram:-1", "all"] });
    assert.equal(listOption(words, "context-from"), undefined);
  });

  it("switches with no- in their names are themselves, not the opposite of others", () => {
    const words = create("every 1h", "--no-agent", "--no-catch-up", "--script", "x.sh");
    assert.deepEqual(said(words), { isScriptOnly: true, catchUp: false, script: "x.sh" });
    assert.equal(hasSwitch(["--", "--no-agent"], "no-agent"), false);
    assert.equal(eitherSwitch(edit("tea", "--agent"), "no-agent", "agent"), false);
  });

  it("what contradicts itself, or is no number, is wrong use", () => {
    const wrong: readonly (readonly [() => unknown, RegExp])[] = [
      [() => inputOf(create("every 1h", "x", "--catch-up", "--no-catch-up")), /exclude each other/],
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

  it("a provider is put before its model, and numbers may be negative for the job to refuse", () => {
    assert.equal(said(create("every 1h", "x", "--model", "m", "--provider", "p"))["model"], "p:m");
    assert.equal(numberOption(create("every 1h", "x", "--inactivity", "-5"), "inactivity"), -5);
    assert.equal(optionOf(create("every 1h", "x", "--name", "a", "--name", "b"), "name"), "b");
  });

  it("a prompt may begin with dashes behind --", () => {
    assert.deepEqual(create("every 1h", "--", "--deliver all").slice(-2), ["every 1h", "--deliver all"]);
  });
});
