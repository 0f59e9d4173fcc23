import { notOutput, outputOptions, writers } from "./command-table.ts";
import {
  alwaysMinded,
  ask,
  deny,
  isVital,
  judgeWord,
  judgeWrite,
  placeOf,
  type Finding,
  type Places,
} from "./path-judge.ts";
import { isWithin, joinPath } from "./sensitive-path.ts";
import { folderOfGlob, type Word } from "./shell-word.ts";

/** Who collects what there is to say. */
export interface Notes {
  /** The text at hand, which is all that an answer to a question about something unknown may cover. */
  readonly source: string;
  note(finding: Finding | undefined): void;
  /** Notes a write, which is more than a look. */
  write(word: Word, name: string): void;
}

const MAX_FOLDERS = 8;
const MAX_WORDS = 5_000;

const isTelling = (finding: Finding) => finding.verdict === "ask" && alwaysMinded(finding);

/** Where the shell may be while it runs a command line, and what words mean from there. */
export class CommandPlaces {
  readonly #places: Places;
  readonly #notes: Notes;
  /** A `cd` may or may not have happened, so every place counts. */
  #folders: readonly string[];
  #folderUnknown = false;
  #wordsLeft = MAX_WORDS;

  constructor(places: Places, notes: Notes) {
    this.#places = places;
    this.#notes = notes;
    this.#folders = [places.workspace];
  }

  /** Notes what there is to say against writing where `word` leads. */
  write(word: Word, name: string): void {
    const path = word.glob ? word.text.replace(/[^/]*[*?[].*$/, "") : word.text;
    const findings = this.#folders.flatMap(
      (folder) => judgeWrite(joinPath(folder, path), this.#places) ?? [],
    );
    const isUnknown = word.dynamic || (this.#folderUnknown && !path.startsWith("/"));
    // A name may tell what it is, wherever it stands.
    for (const finding of findings) if (!isUnknown || isTelling(finding)) this.#notes.note(finding);
    if (!isUnknown) return;
    const what = word.dynamic ? "to a place" : "in a folder";
    this.#notes.note(
      ask(`${name} writes ${what} worked out at run time`, `${name} ?: ${this.#notes.source}`),
    );
  }

  /** Notes what there is to say against reading what `word` may name. */
  read(word: Word): void {
    // Checked one by one, words cost time on the loop that serves everybody.
    this.#wordsLeft -= 1;
    if (this.#wordsLeft === 0)
      this.#notes.note(ask("it has too many words to be checked", this.#notes.source, "unchecked"));
    if (this.#wordsLeft <= 0) return;
    this.#notes.note(judgeWord(word, this.#folders, this.#places));
  }

  /** The words of a `cd`. */
  enter(rest: readonly Word[]): void {
    const [target] = rest.filter((word) => !/^-[LPe@]*$/.test(word.text) || word.text === "-");
    if (target?.dynamic || target?.glob || target?.text === "-") this.#folderUnknown = true;
    const to = target?.text ?? this.#places.home;
    const reached = this.#folders.map((folder) => joinPath(folder, to));
    this.#folders = [...new Set([...this.#folders, ...reached])].slice(0, MAX_FOLDERS);
    if (this.#folders.length === MAX_FOLDERS) this.#folderUnknown = true;
  }

  /** The words of an `rm`. */
  remove(rest: readonly Word[]): void {
    const options = rest
      .filter((word) => word.text.startsWith("-") && word.text !== "--")
      .map((word) => word.text);
    const recursive = options.some((option) => /^-[a-zA-Z]*[rR]|^--r/.test(option));
    const forced = options.some((option) => /^-[a-zA-Z]*f|^--f/.test(option));
    if (options.some((option) => option.startsWith("--no-p")))
      this.#notes.note(deny("rm --no-preserve-root is never meant"));
    const targets = rest.filter((word) => !word.text.startsWith("-"));
    const paths = targets.flatMap((word) =>
      this.#folders.map((folder) => joinPath(folder, word.text.replace(/\/?\.?\*+$/, "") || "/")),
    );
    if (recursive && this.isVital(targets)) this.#notes.note(deny("it would delete a vital folder"));
    const places = [...new Set(paths.map((path) => placeOf(path, this.#places)))].join(", ");
    if (recursive || forced)
      this.#notes.note(
        ask(
          `rm ${options.join(" ")} deletes without asking`,
          `rm ${options.join(" ")} ${places}`,
          "destructive",
        ),
      );
    if (targets.some((word) => word.glob))
      this.#notes.note(ask("rm with a pattern may delete more than meant", `rm * ${places}`, "destructive"));
    for (const word of targets) this.write(word, "rm");
  }

  /** The files that a command writes by its nature or by an option. */
  writesOf(name: string, rest: readonly Word[]): void {
    for (const [index, word] of rest.entries()) {
      const [option, value] = word.text.split(/=(.*)/s);
      if (!outputOptions.has(option ?? "") || notOutput.has(name)) continue;
      const target = value === undefined ? rest[index + 1] : { ...word, text: value };
      if (target && !(name === "curl" && option === "-O")) this.#notes.write(target, name);
    }
    const rule = writers.get(name);
    if (rule === undefined) return;
    const operands = rest.filter((word) => !word.text.startsWith("-") || word.dynamic);
    for (const word of rule === "all" ? operands : operands.slice(-1)) this.#notes.write(word, name);
  }

  /** Whether one of `words` leads to a folder that must not go as a whole. */
  isVital(words: readonly Word[]): boolean {
    const isWhole = (word: Word) => !word.dynamic && (!word.glob || /(^|\/)\.?\*+$/.test(word.text));
    return words.some(
      (word) =>
        isWhole(word) &&
        this.#folders.some((folder) => isVital(joinPath(folder, folderOfGlob(word)), this.#places)),
    );
  }

  /** Whether one of `words` leads to a folder with all of the home below it, where work is not done. */
  holdsHome(words: readonly Word[]): boolean {
    const { home, workspace } = this.#places;
    if (isWithin(home, workspace)) return false;
    return words.some(
      (word) =>
        !word.dynamic && this.#folders.some((folder) => isWithin(home, joinPath(folder, folderOfGlob(word)))),
    );
  }
}
