/** What the rules of single programs see of a call, and what they may say about it. */
import type { SyntaxNode } from "unbash";
import type { Risk } from "./risk.ts";
import { ANY } from "./words.ts";

/** What a program reads from its standard input, where that is not the terminal. */
export interface Input {
  /** Commands that write it, in a pipeline or a substitution. */
  readonly from?: readonly SyntaxNode[];
  /** A here-document or here-string; with a mark where it is not known. */
  readonly text?: string;
  /** A file, or something else of which nothing is known. */
  readonly isOther?: boolean;
}

/** One program with its words, as one of the alternatives that the shell may make of them. */
export interface Call {
  /** Without the folder. */
  readonly name: string;
  /** As it stands in the command. */
  readonly path: string;
  readonly args: readonly string[];
  readonly input: Input | undefined;
  /** The name stands in the text as it is, so that what it sets was seen beforehand. */
  readonly isLiteral: boolean;
  ask(reason: string, risk?: Risk, shape?: string): void;
  deny(reason: string): void;
  /** A word that names a file to read, or may: names of secrets ask, and so does what is not known. */
  read(field: string): void;
  /** A word whose files are looked at only for their names, sizes and dates. */
  stat(field: string): void;
  /** All files at and below a place. */
  readTree(field: string): void;
  write(field: string): void;
  /** It is no mere look. */
  changes(): void;
  /** A program that this one starts. */
  run(argv: readonly string[], input?: Input): void;
  /** Shell text that this one runs. */
  runText(text: string, parameters?: readonly string[]): void;
  enter(field: string | undefined): void;
  isVital(field: string): boolean;
  /** The kinds of places that the paths are in, for signatures. */
  areasOf(fields: readonly string[]): string;
  isOutside(field: string): boolean;
  /** What the input is, where it is known. */
  inputText(): string | undefined;
  /** Names that the input may hold, one a line. */
  inputNames(): readonly string[];
}

export type Rule = (call: Call) => void;

/** The words of a call in two kinds. What may be anything counts as an operand. */
export function operandsOf(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  const before = end === -1 ? args : args.slice(0, end);
  return [...before.filter((arg) => !/^-./.test(arg)), ...(end === -1 ? [] : args.slice(end + 1))];
}

export function optionsOf(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).filter((arg) => /^-./.test(arg));
}

/** The first option that matches, also where the word may be anything. */
export const findOption = (args: readonly string[], pattern: RegExp): string | undefined =>
  optionsOf(args).find((option) => pattern.test(option));

export const mayBeOption = (args: readonly string[]): boolean => args.some((arg) => arg.startsWith(ANY));

/** What follows an option, or stands in it: `-o F`, `-oF`, `--output F`, `--output=F`. */
export function valuesOfOption(
  args: readonly string[],
  short: string,
  long: readonly string[],
): readonly string[] {
  const attached = short === "" ? undefined : new RegExp(`^-[a-zA-Z]*?[${short}](.*)$`, "s");
  return args.flatMap((arg, index) => {
    const [name = "", value] = arg.split(/=(.*)/s);
    if (
      long.some(
        (option) => option === name || (name.length > 3 && option.startsWith(name) && name.startsWith("--")),
      )
    )
      return [value ?? args[index + 1] ?? ANY];
    const found = arg.startsWith("--") ? undefined : attached?.exec(arg)?.[1];
    if (found === undefined) return [];
    return [found === "" ? (args[index + 1] ?? ANY) : found];
  });
}
