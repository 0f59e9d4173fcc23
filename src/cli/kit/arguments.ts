/** Validates the arguments of a command line against the declaration of a command. Pure. */
import type { ArgDef, ArgsDef } from "citty";
import { suggest } from "../../base/suggest.ts";
import { aliasesOf, isRepeated, isRequired } from "./command.ts";

/** A usage error: prints its message and the usage to stderr and exits with code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

interface Flag {
  readonly name: string;
  readonly arg: ArgDef;
}

const FLAG = /^(--?)([^=]*)(?:=(.*))?$/s;

/**
 * Returns the words in canonical form: `--name=value`, switches, then `--` and the arguments, which may start with a
 * dash. Throws {@link UsageError} for unknown flags, missing or extra values, invalid choices, and missing or extra
 * arguments.
 */
export function normalizeArguments(words: readonly string[], args: ArgsDef): string[] {
  const flags: string[] = [];
  const given = new Set<string>();
  const positionals: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "--") {
      positionals.push(...words.slice(at + 1));
      break;
    }
    if (!isFlag(word)) {
      positionals.push(word);
      continue;
    }
    const { name, arg } = findFlag(word, args);
    given.add(name);
    if (takesNext(word, arg)) at += 1;
    flags.push(toFlag({ name, arg }, word, words[at]));
  }
  checkPositionals(positionals, args);
  const options = Object.entries(args).filter(([, arg]) => arg.type !== "positional");
  const missing = options.find(([name, arg]) => isRequired(arg) && !given.has(name));
  if (missing) throw new UsageError(`--${missing[0]} is required.`);
  return [...flags, "--", ...positionals];
}

/** Returns the positional arguments of normalized words (see {@link normalizeArguments}). */
export function positionalsOf(words: readonly string[]): readonly string[] {
  const end = words.indexOf("--");
  return end < 0 ? [] : words.slice(end + 1);
}

/** Returns the index of the first positional argument, or -1. */
export function findFirstArgument(words: readonly string[], args: ArgsDef): number {
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "--") return -1;
    if (!isFlag(word)) return at;
    const flag = lookUp(word, args);
    if (flag && takesNext(word, flag.arg)) at += 1;
  }
  return -1;
}

/** Returns false for `-` and negative numbers, which are arguments. */
function isFlag(word: string): boolean {
  return word.startsWith("-") && word !== "-" && !/^-\d/.test(word);
}

function findFlag(word: string, args: ArgsDef): Flag {
  const flag = lookUp(word, args);
  if (flag) return flag;
  const [, , name = ""] = FLAG.exec(word) ?? [];
  const names = [...Object.keys(args).filter((each) => args[each]?.type !== "positional"), "profile", "help"];
  const hint = suggest(name, names).replace(/"([^"]+)"/, "--$1");
  throw new UsageError(`Unknown option ${word.split("=")[0]}${hint.includes("?") ? hint : "."}`);
}

function lookUp(word: string, args: ArgsDef): Flag | undefined {
  const [, dashes, name = ""] = FLAG.exec(word) ?? [];
  const flags = Object.entries(args).filter(([, arg]) => arg.type !== "positional");
  const found = flags.find(([own, arg]) =>
    dashes === "-"
      ? aliasesOf(arg).includes(name)
      : own === name || (arg.type === "boolean" && `no-${own}` === name && !word.includes("=")),
  );
  return found && { name: found[0], arg: found[1] };
}

function takesNext(word: string, arg: ArgDef): boolean {
  return arg.type !== "boolean" && !word.includes("=");
}

function toFlag({ name, arg }: Flag, word: string, next: string | undefined): string {
  const [written = word] = word.split("=");
  if (arg.type === "boolean") {
    if (word.includes("=")) throw new UsageError(`${written} does not take a value.`);
    return word.startsWith("--no-") && name !== written.slice(2) ? `--no-${name}` : `--${name}`;
  }
  const value = word.includes("=") ? word.slice(written.length + 1) : next;
  if (value === undefined || (!word.includes("=") && isFlag(value)))
    throw new UsageError(`${written} needs a value.`);
  if (arg.type === "enum" && arg.options && !arg.options.includes(value)) {
    throw new UsageError(`${written} must be one of ${arg.options.join(", ")}.`);
  }
  return `--${name}=${value}`;
}

function checkPositionals(words: readonly string[], args: ArgsDef): void {
  const declared = Object.entries(args).filter(([, arg]) => arg.type === "positional");
  const missing = declared.slice(words.length).find(([, arg]) => isRequired(arg));
  if (missing) throw new UsageError(`The argument <${missing[0]}> is missing.`);
  const extra = words[declared.length];
  const [, last] = declared.at(-1) ?? [];
  if (extra === undefined || (last && isRepeated(last))) return;
  const hint = last ? " Put quotes around a text of several words." : "";
  throw new UsageError(`Unexpected argument ${JSON.stringify(extra)}.${hint}`);
}
