/** Lazy commands and their usage text, for `--help` and usage errors. Pure. */
import type { ArgDef, CommandDef, ArgsDef, CommandMeta, SubCommandsDef } from "citty";
import { wrapText } from "./wrap.ts";

const INDENT = "  ";
/** Longer names stand on a line of their own, above their description. */
const MAX_LABEL = 28;

/** The options of every command. */
export const GLOBAL_OPTIONS: readonly (readonly [string, string])[] = [
  ["--profile <name>", "Use a named profile, which has its own home (or set AGENTD_PROFILE)"],
  ["-h, --help", "Show this help"],
];

/** The options of commands that also work on a server. */
export const TARGET_ARGS = {
  url: {
    type: "string",
    valueHint: "url",
    description: "Work on the server at this address (or set AGENTD_URL)",
  },
  context: {
    type: "string",
    valueHint: "name",
    description: "Work on the server of this context; `local` is this machine",
  },
  "token-stdin": {
    type: "boolean",
    description:
      "Read the server's API key from standard input. Default: API_SERVER_KEY, or that of the context",
  },
} as const satisfies ArgsDef;

const onServers = new WeakSet<object>();

/** Defines a command that works on this machine, and on a server with the options of {@link TARGET_ARGS}. */
export function defineApiCommand<const T extends ArgsDef>(command: CommandDef<T>): CommandDef<T> {
  onServers.add(command);
  return command;
}

export function worksOnServers(command: CommandDef): boolean {
  return onServers.has(command);
}

interface UsageOptions {
  /** Characters of a line. Examples may be longer, so that they can be copied. */
  readonly width: number;
  readonly examples: readonly string[];
}

/** Returns the usage text. `names` is the command path, such as `["agentd", "config", "set"]`. */
export async function renderUsage(
  command: CommandDef,
  names: readonly string[],
  { width, examples }: UsageOptions,
): Promise<string> {
  const [meta, args, commands] = await Promise.all([
    metaOf(command),
    argsHere(command),
    summariesOf(command),
  ]);
  const positionals = Object.entries(args).filter(([, arg]) => arg.type === "positional");
  const options = Object.entries(args).filter(([, arg]) => arg.type !== "positional");
  return [
    wrapText(meta.description ?? "", width),
    wrapText(await usageLine(command, names), width, { indent: INDENT.repeat(2) }),
    examples.length > 0 ? ["Examples:", ...examples.map((line) => `${INDENT}${line}`)].join("\n") : "",
    section("Commands:", commands, width),
    section(
      "Arguments:",
      positionals.map(([name, arg]) => [name, describe(arg)]),
      width,
    ),
    section(
      "Options:",
      [
        ...options.map(([name, arg]) => [label(name, arg), describe(arg)] as const),
        ...(await globalOptionsOf(command)),
      ],
      width,
    ),
    commands.length > 0
      ? wrapText(`Run \`${names.join(" ")} <command> --help\` for more about a command.`, width)
      : "",
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** Returns the options that a command has besides its own. */
export async function globalOptionsOf(command: CommandDef): Promise<typeof GLOBAL_OPTIONS> {
  if (!worksOnServers((await defaultOf(command)) ?? command)) return GLOBAL_OPTIONS;
  const options = Object.entries(TARGET_ARGS).map(
    ([name, arg]) => [label(name, arg), arg.description] as const,
  );
  return [...options, ...GLOBAL_OPTIONS];
}

/** Returns the first line of the usage, such as `Usage: agentd config set <key> <value> [options]`. */
export async function usageLine(command: CommandDef, names: readonly string[]): Promise<string> {
  const hasCommands = (await subCommandNames(command)).length > 0;
  const hasDefault = (await defaultOf(command)) !== undefined;
  const positionals = Object.entries(await argsHere(command)).filter(([, arg]) => arg.type === "positional");
  const words = [
    ...names,
    ...(hasCommands ? [hasDefault ? "[command]" : "<command>"] : []),
    ...positionals.map(([name, arg]) => placeholder(isRepeated(arg) ? `${name}...` : name, arg)),
    "[options]",
  ];
  return `Usage: ${words.join(" ")}`;
}

function placeholder(name: string, arg: ArgDef): string {
  return isRequired(arg) ? `<${name}>` : `[${name}]`;
}

/** Returns whether the argument is repeatable, which Citty cannot express. */
export function isRepeated(arg: ArgDef): boolean {
  return arg.type === "positional" && arg.valueHint === "...";
}

export function isRequired(arg: ArgDef): boolean {
  return (
    arg.default === undefined && (arg.type === "positional" ? arg.required !== false : arg.required === true)
  );
}

function label(name: string, arg: ArgDef): string {
  const short = aliasesOf(arg).map((alias) => `-${alias}, `);
  return `${short.join("")}--${name}${arg.type === "boolean" ? "" : ` <${arg.valueHint ?? "value"}>`}`;
}

/** Returns the short names of an option. */
export function aliasesOf(arg: ArgDef): readonly string[] {
  return "alias" in arg && arg.alias !== undefined ? [arg.alias].flat() : [];
}

function describe(arg: ArgDef): string {
  const choices = arg.type === "enum" && arg.options ? ` (one of ${arg.options.join(", ")})` : "";
  const fallback =
    arg.default === undefined || arg.default === false ? "" : ` (default ${String(arg.default)})`;
  return `${arg.description ?? ""}${choices}${fallback}`;
}

/** Returns names with their descriptions beside them, wrapped within their column. */
function section(title: string, rows: readonly (readonly [string, string])[], width: number): string {
  if (rows.length === 0) return "";
  const labels = rows.map(([name]) => name.length).filter((length) => length <= MAX_LABEL);
  const column = INDENT.length + Math.max(0, ...labels) + 2;
  const hanging = " ".repeat(column);
  const lines = rows.map(([name, text]) => {
    const start = `${INDENT}${name}`;
    const wrapped = wrapText(hanging + text, width, { indent: hanging });
    return start.length + 2 <= column
      ? (start.padEnd(column) + wrapped.slice(column)).trimEnd()
      : `${start}\n${wrapped}`.trimEnd();
  });
  return [title, ...lines].join("\n");
}

type Resolvable<T> = T | Promise<T> | (() => T) | (() => Promise<T>);
type Lazy = (() => Promise<CommandDef>) & {
  readonly summary: string;
  /** Other names that call the command; the usage leaves them out. */
  readonly aliases: readonly string[];
};

/** Returns a command that loads on demand. The usage of its parent needs only its summary. */
export function lazyCommand<T extends ArgsDef>(
  summary: string,
  load: () => Promise<CommandDef<T>>,
  { aliases = [] }: { readonly aliases?: readonly string[] } = {},
): Lazy {
  return Object.assign(async () => (await load()) as unknown as CommandDef, { summary, aliases });
}

/** Returns the same for a command that starts a service: what it loads is kept compiled in the home. */
export function lazyService<T extends ArgsDef>(summary: string, load: () => Promise<CommandDef<T>>): Lazy {
  return lazyCommand(summary, async () => {
    (await import("./code-cache.ts")).keepCompiledCode();
    return load();
  });
}

async function metaOf(command: CommandDef): Promise<CommandMeta> {
  return resolved(command.meta ?? {});
}

export async function argsOf(command: CommandDef): Promise<ArgsDef> {
  return resolved(command.args ?? {});
}

/** Returns the name and summary of each subcommand. */
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

/** Loads one subcommand, or returns undefined if it does not exist. */
export async function subCommandOf(command: CommandDef, name: string): Promise<CommandDef | undefined> {
  const commands = await below(command);
  const found = Object.hasOwn(commands, name)
    ? commands[name]
    : Object.values(commands).find((each) => isLazy(each) && each.aliases.includes(name));
  return found === undefined ? undefined : resolved<CommandDef>(found);
}

/** Returns the subcommand that runs by default. */
export async function defaultOf(command: CommandDef): Promise<CommandDef | undefined> {
  const name = await resolved(command.default);
  return name === undefined ? undefined : subCommandOf(command, name);
}

/** Returns the arguments of a command and of its default subcommand. */
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
