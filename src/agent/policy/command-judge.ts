import { judgeGit } from "./command-git.ts";
import { parseCommandLine, type Redirection, type SimpleCommand } from "./command-line.ts";
import {
  interpreters,
  outputOptions,
  readers,
  riskOf,
  riskyCommands,
  riskyVariables,
  shells,
  wrappers,
  writers,
} from "./command-table.ts";
import {
  ask,
  deny,
  isVital,
  judgeWord,
  judgeWrite,
  placeOf,
  type Finding,
  type Places,
} from "./path-judge.ts";
import { judgeProgram } from "./program-judge.ts";
import { joinPath } from "./sensitive-path.ts";
import { folderOfGlob, unknownWord, type Word } from "./shell-word.ts";

export interface CommandVerdict {
  readonly findings: readonly Finding[];
  /** Nothing in it can change anything. */
  readonly looksOnly: boolean;
}

const MAX_DEPTH = 6;
const MAX_FOLDERS = 8;
const MAX_WORDS = 5_000;
/** Programs that others start. */
const MAX_PROGRAMS = 60;
const MAX_SCANNED = 500;
const MAX_FINDINGS = 50;
const forkBomb = /([\w:.]{1,32})\(\)\{[^}]{0,99}?\1\|\1&/;
const downloaders = new Set(["curl", "wget", "aria2c", "http", "https", "xh", "fetch", "lynx"]);
const decoders = new Set(["base64", "base32", "xxd", "openssl", "rev", "uudecode", "gunzip", "zcat"]);

/** What there is to say against the shell text `command`, run in the workspace. Pure; never throws. */
export function judgeCommand(command: string, places: Places): CommandVerdict {
  const judge = new CommandJudge(places);
  judge.text(command, 0);
  return { findings: judge.findings, looksOnly: judge.looksOnly };
}

/** Reads through a command line and what it would start, and collects what there is to say. */
export class CommandJudge {
  readonly places: Places;
  readonly findings: Finding[] = [];
  looksOnly = true;
  /** Where the shell may be: a `cd` may or may not have happened, so every place counts. */
  #folders: readonly string[];
  #folderUnknown = false;
  #downloads = false;
  #wordsLeft = MAX_WORDS;
  #programsLeft = MAX_PROGRAMS;
  /** The text at hand, which is all that an answer to a question about something unknown may cover. */
  #source = "";

  constructor(places: Places) {
    this.places = places;
    this.#folders = [places.workspace];
  }

  text(text: string, depth: number): void {
    const outer = this.#source;
    this.#source = text;
    this.#text(text, depth);
    this.#source = outer;
  }

  #text(text: string, depth: number): void {
    if (forkBomb.test(text.replace(/\s/g, ""))) this.note(deny("it starts processes without end"));
    if (depth > MAX_DEPTH) return this.note(ask("it is nested too deeply to be checked", text));
    const line = parseCommandLine(text, { HOME: this.places.home });
    for (const reason of line.unclear) this.note(ask(`it cannot be checked: ${reason}`, text));
    for (const command of line.commands) this.#command(command, depth);
  }

  note(finding: Finding | undefined): void {
    if (!finding) return;
    this.looksOnly = false;
    if (this.findings.length < MAX_FINDINGS || finding.verdict === "deny") this.findings.push(finding);
  }

  #command(command: SimpleCommand, depth: number): void {
    for (const { name, value } of command.assignments) {
      if (riskyVariables.test(name))
        this.note(ask(`setting ${name} changes what other commands do`, this.#source, "code"));
      this.#read(value);
    }
    for (const redirection of command.redirections) this.#redirection(redirection);
    const name = command.words[0]?.text ?? "";
    if (command.substituted && decoders.has(baseName(name))) {
      this.note(ask(`${name} makes text that cannot be checked part of a command`, this.#source));
    }
    this.program(command.words, { command, depth, seen: false });
  }

  /** One program with its arguments; wrappers hand the rest of their words back to this. */
  program(words: readonly Word[], at: Inner): void {
    const [first, ...rest] = words;
    if (first === undefined) return;
    const isTest = first.text === "[" || first.text === "[[";
    if (first.dynamic || (first.glob && !isTest))
      return this.note(ask("the name of a command is worked out at run time", this.#source));
    if (at.depth > MAX_DEPTH) return this.note(ask("it is nested too deeply to be checked", this.#source));
    const name = baseName(first.text);
    if ((this.#programsLeft -= 1) < 0)
      return this.note(ask("it starts too much to be checked", this.#source));
    if (!at.seen) for (const word of first.text.includes("/") ? words : rest) this.#read(word);
    if (downloaders.has(name)) this.#downloads = true;
    if (!readers.has(name) && name !== "git") this.looksOnly = false;
    if (this.#downloads && first.text.includes("/") && !/^\/(usr\/|s?bin\/)/.test(first.text))
      this.#downloaded(name);
    const inner = { command: at.command, depth: at.depth + 1, seen: true };
    const risk =
      riskyCommands.get(name) ?? (name.startsWith("mkfs") ? "changes disks or file systems" : undefined);
    if (risk !== undefined) return this.#risky(name, rest, { risk, inner });
    if (wrappers.has(name)) return this.#wrapper(name, rest, inner);
    if (shells.has(name)) return this.#shell(name, rest, at);
    if (name === "eval" || name === "trap") return this.#evaluate(name, rest, at.depth);
    if (name === "source" || name === ".") return this.#sourced(rest);
    if (name === "find" || name === "fd" || name === "fdfind") return this.#find(name, rest, inner);
    if (name === "git") return this.#git(rest);
    if (name === "rm") return this.#remove(rest);
    if (name === "cd" || name === "pushd") return this.#changeFolder(rest);
    this.#interpreter(name, rest, at.command);
    judgeProgram(name, rest, this);
    this.#writes(name, rest);
  }

  /** What an answer covers: the same words; where words are unknown, only the same text. */
  shape(name: string, rest: readonly Word[]): string {
    return rest.some((word) => word.dynamic)
      ? this.#source
      : [name, ...rest.map((word) => word.text)].join(" ");
  }

  /** Notes what there is to say against writing where `word` leads. */
  write(word: Word, name: string): void {
    this.looksOnly = false;
    if (word.dynamic)
      return this.note(ask(`${name} writes to a place worked out at run time`, `${name} ?: ${this.#source}`));
    const path = word.glob ? word.text.replace(/[^/]*[*?[].*$/, "") : word.text;
    if (this.#folderUnknown && !path.startsWith("/")) {
      return this.note(
        ask(`${name} writes in a folder worked out at run time`, `${name} ?: ${this.#source}`),
      );
    }
    for (const folder of this.#folders) this.note(judgeWrite(joinPath(folder, path), this.places));
  }

  #read(word: Word): void {
    // Checked one by one, words cost time on the loop that serves everybody.
    this.#wordsLeft -= 1;
    if (this.#wordsLeft === 0) this.note(ask("it has too many words to be checked", this.#source));
    if (this.#wordsLeft <= 0) return;
    this.note(judgeWord(word, this.#folders, this.places));
  }

  #redirection({ operator, target, body }: Redirection): void {
    if (body !== undefined || operator === "<<<") return;
    this.#read(target);
    if (operator === "<" || operator === "<&") return;
    if (operator === ">&" && /^(\d+|-)$/.test(target.text)) return;
    this.write(target, "a redirection");
  }

  #risky(
    name: string,
    rest: readonly Word[],
    { risk, inner }: { readonly risk: string; readonly inner: Inner },
  ): void {
    const kind = rest.some((word) => word.dynamic) ? "unclear" : riskOf(name, rest);
    this.note(ask(`${name} ${risk}`, this.shape(name, rest), kind));
    if (name.startsWith("mkfs") && rest.some((word) => word.text.startsWith("/dev/"))) {
      this.note(deny(`${name} would erase a disk`));
    }
    for (const word of rest.filter(({ text }) => name === "dd" && text.startsWith("of="))) {
      this.write({ ...word, text: word.text.slice(3) }, name);
    }
    for (const word of rest.filter(() => name === "truncate" || name === "shred" || name === "wipefs")) {
      if (!word.text.startsWith("-")) this.write(word, name);
    }
    this.#scan(rest, inner);
  }

  #wrapper(name: string, rest: readonly Word[], inner: Inner): void {
    const withValue = wrappers.get(name) ?? new Set<string>();
    if (name === "command" && /^-[pvV]*[vV]/.test(rest[0]?.text ?? "")) return;
    let at = 0;
    for (; at < rest.length; at += 1) {
      const text = rest[at]?.text ?? "";
      const assigned = name === "env" ? /^([A-Za-z_]\w*)=/.exec(text)?.[1] : undefined;
      if (assigned !== undefined && riskyVariables.test(assigned)) {
        this.note(ask(`setting ${assigned} changes what other commands do`, this.#source, "code"));
      }
      if (/^(-S|--split-string|--call|-c$)/.test(text) && /^(env|npx|bunx|pnpx)$/.test(name)) {
        this.note(ask(`${name} is given a command as text`, this.#source));
      }
      if (assigned !== undefined || (name === "timeout" && /^[\d.]+[smhd]?$/.test(text))) continue;
      if (!text.startsWith("-")) break;
      if (withValue.has(text)) at += 1;
    }
    const target = rest.slice(at);
    if (target.length === 0) return;
    const extra = name === "xargs" ? [unknownWord] : [];
    this.program([...target, ...extra], inner);
    // An option with a value that is not in the table would have been taken for the command.
    if (!readers.has(baseName(target[0]?.text ?? ""))) this.#scan([...target.slice(1), ...extra], inner);
  }

  /** Words of a command that starts others: the first few that are commands to mind are judged as such. */
  #scan(words: readonly Word[], inner: Inner): void {
    if (words.length > MAX_SCANNED) this.note(ask("it has too many words to be checked", this.#source));
    let left = 3;
    for (const [index, word] of words.slice(0, MAX_SCANNED).entries()) {
      const name = baseName(word.text);
      const minds =
        riskyCommands.has(name) || shells.has(name) || /^(rm|mv|find|git|eval|tee|mkfs.*)$/.test(name);
      if (!minds || left === 0) continue;
      left -= 1;
      this.program(words.slice(index), inner);
    }
  }

  #shell(name: string, rest: readonly Word[], { command, depth }: Inner): void {
    let takesText = false;
    let readsInput = false;
    let at = 0;
    for (; at < rest.length; at += 1) {
      const word = rest[at];
      if (!word || word.dynamic || !/^[-+]./.test(word.text)) break;
      if (/^--(rcfile|init-file)/.test(word.text))
        this.note(ask(`${name} runs a start-up file`, `${name} ${word.text}`));
      if (/^-[A-Za-z]*c/.test(word.text)) takesText = true;
      if (/^-[A-Za-z]*s/.test(word.text)) readsInput = true;
      if (/^[-+][A-Za-z]*[oO]$/.test(word.text)) at += 1;
    }
    const operand = rest[at];
    if (takesText && operand && !operand.dynamic) return this.text(operand.text, depth + 1);
    if (takesText || operand?.dynamic || /^\/(dev|proc)\//.test(operand?.text ?? "")) {
      return this.note(ask(`${name} runs text that cannot be checked`, this.#source));
    }
    if (operand && !readsInput) return this.#downloads ? this.#downloaded(name) : undefined;
    this.#input(name, command, depth);
  }

  /** A shell that reads its commands from standard input. */
  #input(name: string, command: SimpleCommand, depth: number): void {
    if (command.piped) this.note(ask(`${name} runs what another command writes`, this.#source));
    for (const { operator, target, body } of command.redirections) {
      if (body !== undefined) this.text(body, depth + 1);
      if (operator !== "<<<") continue;
      if (target.dynamic) this.note(ask(`${name} runs text that cannot be checked`, this.#source));
      else this.text(target.text, depth + 1);
    }
  }

  #evaluate(name: string, rest: readonly Word[], depth: number): void {
    const words = name === "trap" ? rest.slice(0, 1) : rest;
    const text = words.map((word) => word.text).join(" ");
    if (words.some((word) => word.dynamic))
      return this.note(ask(`${name} runs text that cannot be checked`, text));
    this.text(text, depth + 1);
  }

  #sourced(rest: readonly Word[]): void {
    const [file] = rest;
    if (!file || file.dynamic || file.text.startsWith("/dev/"))
      return this.note(ask("it runs text that cannot be checked", this.#source));
    if (this.#downloads) this.#downloaded("source");
  }

  #downloaded(name: string): void {
    this.note(ask(`${name} may run what was just downloaded`, this.#source));
  }

  #find(name: string, rest: readonly Word[], inner: Inner): void {
    const roots = rest
      .filter((word) => !word.text.startsWith("-"))
      .map((word) => joinPath(this.#folders[0] ?? "/", word.text));
    for (const [index, { text }] of rest.entries()) {
      if (text === "-delete") {
        this.note(
          roots.some((root) => isVital(root, this.places))
            ? deny("it would delete a vital folder")
            : undefined,
        );
        this.note(ask("find -delete deletes files", this.shape(name, rest)));
      }
      const file = rest[index + 1];
      if (/^-f(printf|print0?|ls)$/.test(text) && file) this.write(file, name);
      if (
        /^(-exec|-execdir|-ok|-okdir)$/.test(text) ||
        (name !== "find" && /^(-x|-X|--exec|--exec-batch)$/.test(text))
      ) {
        this.program(
          [
            ...rest
              .slice(index + 1)
              .map((part) => (part.text.includes("{}") ? { ...part, dynamic: true } : part)),
            unknownWord,
          ],
          inner,
        );
      }
    }
  }

  #git(rest: readonly Word[]): void {
    const { subcommand, looksOnly, reason, risk } = judgeGit(rest);
    if (!looksOnly) this.looksOnly = false;
    if (reason !== undefined)
      this.note(ask(`git ${subcommand} ${reason}`, this.shape(`git ${subcommand}`, rest), risk));
  }

  #remove(rest: readonly Word[]): void {
    const options = rest
      .filter((word) => word.text.startsWith("-") && word.text !== "--")
      .map((word) => word.text);
    const recursive = options.some((option) => /^-[a-zA-Z]*[rR]|^--r/.test(option));
    const forced = options.some((option) => /^-[a-zA-Z]*f|^--f/.test(option));
    if (options.some((option) => option.startsWith("--no-p")))
      this.note(deny("rm --no-preserve-root is never meant"));
    const targets = rest.filter((word) => !word.text.startsWith("-"));
    const paths = targets.flatMap((word) =>
      this.#folders.map((folder) => joinPath(folder, word.text.replace(/\/?\.?\*+$/, "") || "/")),
    );
    const isWhole = (word: Word) => !word.dynamic && (!word.glob || /(^|\/)\.?\*+$/.test(word.text));
    const vital = targets.some(
      (word) =>
        isWhole(word) &&
        this.#folders.some((folder) => isVital(joinPath(folder, folderOfGlob(word)), this.places)),
    );
    if (recursive && vital) this.note(deny("it would delete a vital folder"));
    const places = [...new Set(paths.map((path) => placeOf(path, this.places)))].join(", ");
    if (recursive || forced)
      this.note(ask(`rm ${options.join(" ")} deletes without asking`, `rm ${options.join(" ")} ${places}`));
    if (targets.some((word) => word.glob))
      this.note(ask("rm with a pattern may delete more than meant", `rm * ${places}`));
    for (const word of targets) this.write(word, "rm");
  }

  #changeFolder(rest: readonly Word[]): void {
    const [target] = rest.filter((word) => !/^-[LPe@]*$/.test(word.text) || word.text === "-");
    if (target?.dynamic || target?.glob || target?.text === "-") this.#folderUnknown = true;
    const to = target?.text ?? this.places.home;
    const reached = this.#folders.map((folder) => joinPath(folder, to));
    this.#folders = [...new Set([...this.#folders, ...reached])].slice(0, MAX_FOLDERS);
    if (this.#folders.length === MAX_FOLDERS) this.#folderUnknown = true;
  }

  #interpreter(name: string, rest: readonly Word[], command: SimpleCommand): void {
    const inline = interpreters.get(name) ?? interpreters.get(name.replace(/[\d.]+$/, ""));
    if (!inline) return;
    if (rest.some((word) => inline.test(word.text)))
      return this.note(ask(`${name} is given code that cannot be checked`, this.#source, codeRisk(rest)));
    const operand = rest.find((word) => !word.text.startsWith("-"));
    if (operand) return this.#downloads ? this.#downloaded(name) : undefined;
    const isFed = command.piped || command.redirections.some(({ operator }) => operator.startsWith("<<"));
    if (isFed) this.note(ask(`${name} runs what it is fed, which cannot be checked`, this.#source));
  }

  #writes(name: string, rest: readonly Word[]): void {
    for (const [index, word] of rest.entries()) {
      const [option, value] = word.text.split(/=(.*)/s);
      if (!outputOptions.has(option ?? "") || name === "grep" || name === "ls" || name === "ps") continue;
      const target = value === undefined ? rest[index + 1] : { ...word, text: value };
      if (target && !(name === "curl" && option === "-O")) this.write(target, name);
    }
    const rule = writers.get(name);
    if (rule === undefined) return;
    const operands = rest.filter((word) => !word.text.startsWith("-") || word.dynamic);
    for (const word of rule === "all" ? operands : operands.slice(-1)) this.write(word, name);
  }
}

interface Inner {
  readonly command: SimpleCommand;
  readonly depth: number;
  /** The words were read already, as arguments of what starts this. */
  readonly seen: boolean;
}

/** The same code does the same again, unless parts of it are worked out at run time. */
const codeRisk = (rest: readonly Word[]) => (rest.some((word) => word.dynamic) ? "unclear" : "code");

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
