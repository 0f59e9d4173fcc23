/** Citty's commands with what is lazy in them resolved. */
import type { ArgsDef, CommandDef, CommandMeta, SubCommandsDef } from "citty";

type Resolvable<T> = T | Promise<T> | (() => T) | (() => Promise<T>);
type Lazy = (() => Promise<CommandDef>) & {
  readonly summary: string;
  /** Other names that call the command; the usage leaves them out. */
  readonly aliases: readonly string[];
};

/** A command that is loaded when it is called; the usage above it needs only its summary. */
export function lazyCommand<T extends ArgsDef>(
  summary: string,
  load: () => Promise<CommandDef<T>>,
  { aliases = [] }: { readonly aliases?: readonly string[] } = {},
): Lazy {
  return Object.assign(async () => (await load()) as unknown as CommandDef, { summary, aliases });
}

export async function metaOf(command: CommandDef): Promise<CommandMeta> {
  return resolved(command.meta ?? {});
}

export async function argsOf(command: CommandDef): Promise<ArgsDef> {
  return resolved(command.args ?? {});
}

/** Name and summary of each command below. */
export async function summariesOf(command: CommandDef): Promise<readonly (readonly [string, string])[]> {
  const entries = Object.entries(await below(command));
  return Promise.all(
    entries.map(async ([name, each]) => {
      if (isLazy(each)) return [name, each.summary] as const;
      return [name, (await metaOf(await resolved<CommandDef>(each))).description ?? ""] as const;
    }),
  );
}

export async function subCommandNames(command: CommandDef): Promise<readonly string[]> {
  return Object.keys(await below(command));
}

/** Returns the command of that name or alias, without loading the others. */
export async function subCommandOf(command: CommandDef, name: string): Promise<CommandDef | undefined> {
  const commands = await below(command);
  const found = Object.hasOwn(commands, name)
    ? commands[name]
    : Object.values(commands).find((each) => isLazy(each) && each.aliases.includes(name));
  return found === undefined ? undefined : resolved<CommandDef>(found);
}

/** The command that runs when none below is named. */
export async function defaultOf(command: CommandDef): Promise<CommandDef | undefined> {
  const name = await resolved(command.default);
  return name === undefined ? undefined : subCommandOf(command, name);
}

/** What may stand behind the command: its own arguments, and those of the command that runs by default. */
export async function argsHere(command: CommandDef): Promise<ArgsDef> {
  const first = await defaultOf(command);
  return { ...(first ? await argsOf(first) : {}), ...(await argsOf(command)) };
}

function below(command: CommandDef): Promise<SubCommandsDef> {
  return resolved(command.subCommands ?? {});
}

function isLazy(value: unknown): value is Lazy {
  return typeof value === "function" && "summary" in value;
}

async function resolved<T>(value: Resolvable<T>): Promise<T> {
  return typeof value === "function" ? (value as () => T | Promise<T>)() : value;
}
