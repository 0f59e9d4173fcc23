/** One program of a command line: what its rule may read and report. */
import type { Call, Input } from "./program.ts";
import {
  areaOf,
  checkField,
  checkTree,
  checkWrites,
  isInside,
  isVital,
  joinPath,
  type PolicyPaths,
} from "./paths.ts";
import { ask, deny, isAlwaysAsked, type Finding, type Risk } from "./risk.ts";
import type { Variables } from "./variables.ts";
import { ANY, BELOW, hasAny, isConstant, NAME, type Fields } from "./words.ts";

/** Where and how a program is called. */
export interface CallSite {
  readonly depth: number;
  readonly input: Input | undefined;
  readonly isLiteral: boolean;
}

/** The review of the whole command, to which a call reports. */
export interface Evaluation {
  readonly paths: PolicyPaths;
  readonly variables: Variables;
  readonly source: string;
  readonly folders: readonly string[];
  readonly isFolderUnknown: boolean;
  note(finding: Finding | undefined): void;
  changes(): void;
  program(argv: Fields, site: CallSite): void;
  text(text: string, suffix: Pick<CallSite, "depth" | "input">, parameters?: readonly string[]): void;
  enter(field: string | undefined): void;
}

const MAX_WORDS = 400;
/** Risks of words whose effect depends on the folder. */
const folderBound: ReadonlySet<Risk> = new Set(["code", "task", "fetching"]);

export class CommandCall implements Call {
  readonly name: string;
  readonly path: string;
  readonly args: Fields;
  readonly input: Input | undefined;
  readonly isLiteral: boolean;
  readonly #site: CallSite;
  readonly #words: Fields;
  readonly #evaluation: Evaluation;

  constructor(
    evaluation: Evaluation,
    { name, words, site }: { readonly name: string; readonly words: Fields; readonly site: CallSite },
  ) {
    this.#evaluation = evaluation;
    this.#site = site;
    this.#words = words;
    this.name = name;
    this.path = words[0] ?? name;
    this.args = words.slice(1, MAX_WORDS);
    this.input = site.input;
    this.isLiteral = site.isLiteral;
    if (words.length > MAX_WORDS)
      evaluation.note(ask("it has too many words to be checked", evaluation.source, "unchecked"));
  }

  ask(reason: string, risk: Risk = "unclear", shape?: string): void {
    const { source, folders, isFolderUnknown } = this.#evaluation;
    const words = this.#words;
    const constant = words.length > 0 && words.every(isConstant) ? words.join(" ") : undefined;
    // The data it sends is in the rest of the text.
    const isFed = risk === "outward" && this.input !== undefined;
    const covered = shape ?? (isFed || risk === "unclear" ? constant && source : constant);
    const isFolderBound = folderBound.has(risk);
    // Words or folders that are only known at run time may be anything, so a grant would cover anything.
    const isKept = isAlwaysAsked({ risk }) || (covered !== undefined && !(isFolderBound && isFolderUnknown));
    const suffix = isFolderBound && covered !== undefined ? ` in ${folders.join(" or ")}` : "";
    this.#evaluation.note(ask(reason, `${covered ?? source}${suffix}`, isKept ? risk : "unclear"));
  }

  deny(reason: string): void {
    this.#evaluation.note(deny(reason));
  }

  read(field: string): void {
    const { folders, paths, source, isFolderUnknown } = this.#evaluation;
    this.#evaluation.note(checkField(field, folders, paths));
    if (hasAny(field))
      return this.ask(`${this.name} reads a file that is only known at run time`, "unclear", source);
    const isRelative = isFolderUnknown && !/^[-/]/.test(field);
    if (isRelative)
      this.ask(`${this.name} reads in a folder that is only known at run time`, "unclear", source);
  }

  stat(field: string): void {
    // Names, sizes and dates are not secret; the output of a substitution was checked where it occurs.
    if (/^\/dev\/(tcp|udp)\//.test(field)) this.read(field);
  }

  readTree(field: string): void {
    if (hasAny(field)) return this.read(field);
    const { folders, paths } = this.#evaluation;
    this.read(field);
    this.#evaluation.note(checkTree(field, folders, paths));
  }

  write(field: string): void {
    const { folders, paths, source, isFolderUnknown } = this.#evaluation;
    this.changes();
    const isUnknown = hasAny(field) || (isFolderUnknown && !field.startsWith("/"));
    // A name may reveal a sensitive file in any folder.
    for (const finding of checkWrites(field, folders, paths))
      if (!isUnknown || isAlwaysAsked(finding)) this.#evaluation.note(finding);
    if (isUnknown)
      this.ask(`${this.name} writes to a path that is only known at run time`, "unclear", source);
  }

  changes(): void {
    this.#evaluation.changes();
  }

  run(argv: Fields, input = this.input): void {
    if (argv.length > 0)
      this.#evaluation.program(argv, { depth: this.#site.depth + 1, input, isLiteral: false });
  }

  runText(text: string, parameters?: readonly string[]): void {
    if (!isConstant(text)) return this.ask(`${this.name} runs text that cannot be checked`, "unclear");
    this.#evaluation.text(text, { depth: this.#site.depth + 1, input: this.input }, parameters);
  }

  enter(field: string | undefined): void {
    this.#evaluation.enter(field);
  }

  isVital(field: string): boolean {
    const { folders, paths } = this.#evaluation;
    // The content of a folder, hidden or not, counts as the folder.
    const whole =
      field.replace(new RegExp(`(^|/)\\.?${NAME}+$`), "$1") || (field.startsWith("/") ? "/" : ".");
    return isConstant(whole) && folders.some((folder) => isVital(joinPath(folder, whole), paths));
  }

  areasOf(fields: Fields): string {
    const { folders, paths } = this.#evaluation;
    const areas = fields.flatMap((field) =>
      folders.map((folder) =>
        areaOf(joinPath(folder, field.replaceAll(NAME, "*").replaceAll(BELOW, "**")), paths),
      ),
    );
    return [...new Set(areas)].join(", ");
  }

  isOutside(field: string): boolean {
    const { folders, paths, isFolderUnknown } = this.#evaluation;
    return isFolderUnknown || folders.some((folder) => !isInside(joinPath(folder, field), paths));
  }

  inputText(): string | undefined {
    const { text, from } = this.input ?? {};
    if (text !== undefined) return isConstant(text) ? text : undefined;
    const output = from && this.#evaluation.variables.printedBy(from);
    return output && "text" in output && isConstant(output.text) ? output.text : undefined;
  }

  inputNames(): readonly string[] {
    const text = this.inputText();
    if (text !== undefined) return text.split(/\s+/).filter((word) => word !== "");
    const output = this.input?.from && this.#evaluation.variables.printedBy(this.input.from);
    return output && "names" in output ? output.names : [ANY];
  }
}
