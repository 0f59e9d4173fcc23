/** The usage of a command, for `--help` and beside usage errors. Pure. */
import type { ArgDef, CommandDef } from "citty";
import { argsHere, defaultOf, metaOf, summariesOf } from "./command.ts";

const INDENT = "  ";

/** What every command understands besides its own options. */
const GLOBAL_OPTIONS: readonly (readonly [string, string])[] = [
  ["--profile <name>", "Use the profile of this name, with a home of its own (or set AGENTD_PROFILE)"],
  ["-h, --help", "Show this help"],
];

/** `names` is how the command was reached, such as `["agentd", "config", "set"]`. */
export async function renderUsage(command: CommandDef, names: readonly string[]): Promise<string> {
  const [meta, args, commands] = await Promise.all([
    metaOf(command),
    argsHere(command),
    summariesOf(command),
  ]);
  const positionals = Object.entries(args).filter(([, arg]) => arg.type === "positional");
  const options = Object.entries(args).filter(([, arg]) => arg.type !== "positional");
  const hasDefault = (await defaultOf(command)) !== undefined;
  const line = [
    ...names,
    ...(commands.length > 0 ? [hasDefault ? "[command]" : "<command>"] : []),
    ...positionals.map(([name, arg]) => placeholder(isRepeated(arg) ? `${name}...` : name, arg)),
    "[options]",
  ].join(" ");
  return [
    meta.description ?? "",
    `Usage: ${line}`,
    section("Commands:", commands),
    section(
      "Arguments:",
      positionals.map(([name, arg]) => [name, describe(arg)]),
    ),
    section("Options:", [
      ...options.map(([name, arg]) => [label(name, arg), describe(arg)] as const),
      ...GLOBAL_OPTIONS,
    ]),
    commands.length > 0 ? `\`${names.join(" ")} <command> --help\` tells more about a command.` : "",
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

function placeholder(name: string, arg: ArgDef): string {
  return isRequired(arg) ? `<${name}>` : `[${name}]`;
}

/** The last argument of a command may be given again; Citty has no word for it. */
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

/** Citty has no aliases for positional arguments. */
export function aliasesOf(arg: ArgDef): readonly string[] {
  return "alias" in arg && arg.alias !== undefined ? [arg.alias].flat() : [];
}

function describe(arg: ArgDef): string {
  const choices = arg.type === "enum" && arg.options ? ` (one of ${arg.options.join(", ")})` : "";
  const fallback =
    arg.default === undefined || arg.default === false ? "" : ` (default ${String(arg.default)})`;
  return `${arg.description ?? ""}${choices}${fallback}`;
}

function section(title: string, rows: readonly (readonly [string, string])[]): string {
  if (rows.length === 0) return "";
  const width = Math.max(...rows.map(([left]) => left.length));
  return [title, ...rows.map(([left, right]) => `${INDENT}${left.padEnd(width)}  ${right}`.trimEnd())].join(
    "\n",
  );
}
