/** All commands with their options, as data for the completion scripts. */
import type { CommandDef } from "citty";
import { aliasesOf, argsHere, globalOptionsOf, subCommandOf, summariesOf } from "../kit/command.ts";

export interface OptionNode {
  /** Such as `--json` and `-y`. */
  readonly names: readonly string[];
  readonly description: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
}

export interface CommandNode {
  /** Such as `/runs/list`; empty for the program itself. */
  readonly path: string;
  readonly commands: readonly (readonly [name: string, summary: string])[];
  readonly options: readonly OptionNode[];
}

/** Returns the command and all commands below it. Loads each of them. */
export async function commandTree(command: CommandDef, path = ""): Promise<readonly CommandNode[]> {
  const commands = await summariesOf(command);
  const below = await Promise.all(
    commands.map(async ([name]) => {
      const next = await subCommandOf(command, name);
      return next ? commandTree(next, `${path}/${name}`) : [];
    }),
  );
  return [{ path, commands, options: await optionsOf(command) }, ...below.flat()];
}

async function optionsOf(command: CommandDef): Promise<readonly OptionNode[]> {
  const own = Object.entries(await argsHere(command)).flatMap(([name, arg]): readonly OptionNode[] => {
    if (arg.type === "positional") return [];
    return [
      {
        names: [`--${name}`, ...aliasesOf(arg).map((alias) => `-${alias}`)],
        description: (arg.description ?? "").replace(/\s+/g, " "),
        takesValue: arg.type !== "boolean",
        choices: arg.type === "enum" ? (arg.options ?? []) : [],
      },
    ];
  });
  return [...own, ...(await globalOptionsOf(command)).map(globalOption)];
}

function globalOption([label, description]: readonly [string, string]): OptionNode {
  const names = label.split(/,? /).filter((word) => word.startsWith("-"));
  return { names: names.toReversed(), description, takesValue: label.includes("<"), choices: [] };
}
