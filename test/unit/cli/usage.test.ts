import assert from "node:assert/strict";
import { test } from "node:test";
import type { CommandDef } from "citty";
import { examplesOf } from "../../../src/cli/help/examples.ts";
import { normalizeArguments } from "../../../src/cli/kit/arguments.ts";
import { argsHere, renderUsage, subCommandNames, subCommandOf } from "../../../src/cli/kit/command.ts";
import { wrapText } from "../../../src/cli/kit/wrap.ts";
import { rootCommand } from "../../../src/cli/root.ts";

interface Page {
  readonly command: CommandDef;
  readonly names: readonly string[];
}

async function pagesOf(command: CommandDef, names: readonly string[]): Promise<readonly Page[]> {
  const below = (await subCommandNames(command)).map(async (name) => {
    const next = (await subCommandOf(command, name)) ?? assert.fail(name);
    return pagesOf(next, [...names, name]);
  });
  return [{ command, names }, ...(await Promise.all(below)).flat()];
}

test("no line of the usage of any command is wider than the terminal, but a word or an example", async () => {
  const pages = await pagesOf(rootCommand, ["agentd"]);
  assert.ok(pages.length > 60, String(pages.length));
  for (const { command, names } of pages) {
    for (const width of [40, 80, 100]) {
      const text = await renderUsage(command, names, { width, examples: examplesOf(names) });
      const [wide] = text
        .split("\n")
        .filter((line) => line.length > width && !examplesOf(names).includes(line.trim()))
        .filter((line) => /\S\s/.test(line.trim()) && !line.trim().startsWith("-"));
      assert.equal(wide, undefined, `${names.join(" ")} at ${width}`);
    }
  }
});

test("every example in a usage calls the command with options that exist", async () => {
  const pages = await pagesOf(rootCommand, ["agentd"]);
  let count = 0;
  for (const { names } of pages) {
    for (const example of examplesOf(names)) {
      assert.ok(example.length <= 100, example);
      for (const [, call = ""] of example.matchAll(/(?:^|[|(] ?)agentd( [^|>)]*|$)/g)) {
        count += 1;
        await parse(call, example);
      }
    }
  }
  assert.ok(count > 40, String(count));
});

/** Throws for an unknown command or option. */
async function parse(call: string, example: string): Promise<void> {
  const words = Array.from(call.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g), ([, a, b, c]) => a ?? b ?? c ?? "");
  let command = rootCommand;
  while (words[0] !== undefined && (await subCommandNames(command)).includes(words[0]))
    command = (await subCommandOf(command, words.shift() ?? "")) ?? assert.fail(example);
  if (command === rootCommand) assert.deepEqual(words, [], example);
  if (command !== rootCommand) normalizeArguments(words, await argsHere(command));
}

test("text wraps at spaces under its column, and a command in backticks stays on one line", () => {
  assert.equal(wrapText("one two three four", 9), "one two\nthree\nfour");
  assert.equal(wrapText("  one two three", 9, { indent: "  " }), "  one two\n  three");
  assert.equal(wrapText("Start `agentd gateway` now", 16), "Start\n`agentd gateway`\nnow");
  assert.equal(wrapText("a-word-that-is-longer than", 10), "a-word-that-is-longer\nthan");
  assert.equal(wrapText("first\n  second", 20), "first\n  second");
});
