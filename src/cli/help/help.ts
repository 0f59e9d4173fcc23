/** `agentd help`: the usage of a command, as with `--help`. */
import { defineCommand, type CommandDef } from "citty";
import { suggest } from "../../base/suggest.ts";
import { positionalsOf, UsageError } from "../kit/arguments.ts";
import process from "node:process";
import { renderUsage, subCommandNames, subCommandOf } from "../kit/command.ts";
import { printData } from "../kit/output.ts";
import { withProgramName } from "../kit/program.ts";
import { examplesOf } from "./examples.ts";

const DEFAULT_WIDTH = 80;
const MIN_WIDTH = 40;
/** Longer lines are hard to read. */
const MAX_WIDTH = 100;

/** Prints the usage of a command, as wide as the terminal. */
export async function printUsage(command: CommandDef, names: readonly string[]): Promise<void> {
  const { columns = DEFAULT_WIDTH } = process.stdout;
  const width = Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, columns));
  printData(withProgramName(await renderUsage(command, names, { width, examples: examplesOf(names) })));
}

/** Returns the command that shows the usage of `root` and the commands below it. */
export function helpCommand(root: CommandDef) {
  return defineCommand({
    meta: { name: "help", description: "Show the usage of agentd or of a command" },
    args: {
      command: {
        type: "positional",
        required: false,
        valueHint: "...",
        description: "The command, such as `cron create`. Omit it to list the commands",
      },
    },
    async run({ rawArgs }) {
      const names = positionalsOf(rawArgs);
      let command = root;
      for (const name of names) {
        const next = await subCommandOf(command, name);
        if (!next) {
          const hint = suggest(name, await subCommandNames(command));
          throw new UsageError(`Unknown command ${JSON.stringify(name)}${hint === "" ? "." : hint}`);
        }
        command = next;
      }
      await printUsage(command, ["agentd", ...names]);
    },
  });
}
