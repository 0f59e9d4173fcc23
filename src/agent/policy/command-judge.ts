import { judgeGit } from "./command-git.ts";
import { groupWords, parseCommandLine, type Redirection, type SimpleCommand } from "./command-line.ts";
import {
  interpreters,
  readers,
  riskOf,
  riskyCommands,
  runners,
  textTakers,
  wrapperOperands,
  riskyVariables,
  shells,
  wrappers,
} from "./command-table.ts";
import { CommandPlaces } from "./command-places.ts";
import { ask, deny, type Finding, type Places } from "./path-judge.ts";
import { judgeProgram } from "./program-judge.ts";
import { unknownWord, type Word } from "./shell-word.ts";

export interface CommandVerdict {
  readonly findings: readonly Finding[];
  /** Nothing in it can change anything. */
  readonly looksOnly: boolean;
}

const MAX_DEPTH = 6;
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
  readonly #where: CommandPlaces;
  #downloads = false;
  #programsLeft = MAX_PROGRAMS;
  /** The text at hand, which is all that an answer to a question about something unknown may cover. */
  source = "";

  constructor(places: Places) {
    this.places = places;
    this.#where = new CommandPlaces(places, this);
  }

  text(text: string, depth: number): void {
    const outer = this.source;
    this.source = text;
    this.#text(text, depth);
    this.source = outer;
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
        this.note(ask(`setting ${name} changes what other commands do`, this.source, "code"));
      this.#where.read(value);
    }
    for (const redirection of command.redirections) this.#redirection(redirection);
    const name = command.words[0]?.text ?? "";
    if (command.substituted && decoders.has(baseName(name))) {
      this.note(ask(`${name} makes text that cannot be checked part of a command`, this.source));
    }
    this.program(command.words, { command, depth, seen: false });
  }

  /** One program with its arguments; wrappers hand the rest of their words back to this. */
  program(words: readonly Word[], at: Inner): void {
    const [first, ...rest] = words;
    if (first === undefined) return;
    if (at.seen && !first.quoted && groupWords.has(first.text)) return this.program(rest, at);
    const isTest = first.text === "[" || first.text === "[[";
    if (first.dynamic || (first.glob && !isTest))
      return this.note(ask("the name of a command is worked out at run time", this.source));
    if (at.depth > MAX_DEPTH) return this.note(ask("it is nested too deeply to be checked", this.source));
    const name = baseName(first.text);
    if ((this.#programsLeft -= 1) < 0) return this.note(ask("it starts too much to be checked", this.source));
    if (!at.seen && !this.#onlySays(name, at)) {
      for (const word of first.text.includes("/") ? words : rest) this.#where.read(word);
    }
    if (sweeps(name, rest) && this.#where.holdsHome(rest))
      this.note(ask(`${name} takes in the whole home, and the secrets in it`, this.source, "sensitive"));
    if (downloaders.has(name)) this.#downloads = true;
    if (!readers.has(name) && name !== "git") this.looksOnly = false;
    if (this.#downloads && first.text.includes("/") && !/^\/(usr\/|s?bin\/)/.test(first.text))
      this.#downloaded(name);
    const inner = { command: at.command, depth: at.depth + 1, seen: true };
    const risk =
      riskyCommands.get(name) ?? (name.startsWith("mkfs") ? "changes disks or file systems" : undefined);
    if (risk !== undefined) return this.#risky(name, rest, { risk, inner });
    if (name.startsWith("ld-") || name === "ld.so") return this.#wrapper(name, rest, inner);
    const runs = runners.get(name);
    const from = runs ? rest.findIndex((word) => !word.text.startsWith("-")) : -1;
    if (runs?.test(rest[from]?.text ?? "")) return this.#wrapper(name, rest.slice(from + 1), inner);
    if (textTakers.has(name)) for (const { text } of rest) if (/\s/.test(text)) this.text(text, at.depth + 1);
    if (wrappers.has(name)) return this.#wrapper(name, rest, inner);
    if (shells.has(name)) return this.#shell(name, rest, at);
    if (name === "eval" || name === "trap") return this.#evaluate(name, rest, at.depth);
    if (name === "source" || name === ".") return this.#sourced(rest);
    if (name === "find" || name === "fd" || name === "fdfind") return this.#find(name, rest, inner);
    if (name === "git") return this.#git(rest);
    if (name === "rm") return this.#where.remove(rest);
    if (name === "cd" || name === "pushd") return this.#where.enter(rest);
    this.#interpreter(name, rest, at.command);
    judgeProgram(name, rest, this);
    this.#where.writesOf(name, rest);
  }

  /** What an answer covers: the same words; where words are unknown, only the same text. */
  shape(name: string, rest: readonly Word[]): string {
    return rest.some((word) => word.dynamic)
      ? this.source
      : [name, ...rest.map((word) => word.text)].join(" ");
  }

  write(word: Word, name: string): void {
    this.looksOnly = false;
    this.#where.write(word, name);
  }

  /** What `echo` prints is read by nobody where there is no pipe. */
  #onlySays(name: string, { command }: Inner): boolean {
    const isSaying = name === "echo" || name === "printf";
    return isSaying && !command.substituted && !/[|]|\/dev\//.test(this.source);
  }

  #redirection({ operator, target, body }: Redirection): void {
    if (body !== undefined || operator === "<<<") return;
    this.#where.read(target);
    if (operator === "<" || operator === "<&") return;
    if (operator === ">&" && /^(\d+|-)$/.test(target.text)) return;
    // Nothing changes where everything is thrown away.
    if (!target.dynamic && target.text === "/dev/null") return;
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
    let operands = wrapperOperands[name] ?? 0;
    let isSure = true;
    let at = 0;
    for (; at < rest.length; at += 1) {
      const text = rest[at]?.text ?? "";
      const assigned = /^(env|cross-env|dotenv)$/.test(name) ? /^([A-Za-z_]\w*)=/.exec(text)?.[1] : undefined;
      if (assigned !== undefined && riskyVariables.test(assigned)) {
        this.note(ask(`setting ${assigned} changes what other commands do`, this.source, "code"));
      }
      if (
        /^(-[a-zA-Z0]*S|--split-string|--call|--command|-c$)/.test(text) &&
        /^(env|npx|bunx|pnpx|npm|pnpm|flock)$/.test(name)
      ) {
        this.note(ask(`${name} is given a command as text`, this.source));
      }
      if (assigned !== undefined) continue;
      if (!text.startsWith("-") && (operands -= 1) >= 0) continue;
      if (!text.startsWith("-")) break;
      isSure &&= withValue.has(text) || /^--\w[\w-]*=/.test(text);
      if (withValue.has(text)) at += 1;
      if (name === "env" && /^(-C|--chdir)$/.test(text)) this.#where.enter(rest.slice(at, at + 1));
    }
    const target = name === "xargs" ? replaced(rest.slice(at), rest.slice(0, at)) : rest.slice(at);
    if (target.length === 0) return;
    const extra = name === "xargs" ? [unknownWord] : [];
    this.program([...target, ...extra], inner);
    // An option with a value that is not in the table would have been taken for the command.
    if (!isSure && !readers.has(baseName(target[0]?.text ?? "")))
      this.#scan([...target.slice(1), ...extra], inner);
  }

  /** Words of a command that starts others: the first few that are commands to mind are judged as such. */
  #scan(words: readonly Word[], inner: Inner): void {
    if (words.length > MAX_SCANNED) this.note(ask("it has too many words to be checked", this.source));
    let left = 3;
    for (const [index, word] of words.slice(0, MAX_SCANNED).entries()) {
      const name = baseName(word.text);
      const minds =
        riskyCommands.has(name) ||
        shells.has(name) ||
        interpreters.has(name) ||
        /^(rm|mv|cp|find|git|eval|tee|xargs|mkfs.*)$/.test(name);
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
      if (
        /^--(command|init-command|eval)|^-(Command|EncodedCommand|C)/i.test(word.text) &&
        !/^-c$/.test(word.text)
      )
        this.note(ask(`${name} runs text that cannot be checked`, this.source));
      if (/^--(rcfile|init-file)/.test(word.text))
        this.note(ask(`${name} runs a start-up file`, `${name} ${word.text}`));
      if (/^-[A-Za-z]*c/.test(word.text)) takesText = true;
      if (/^-[A-Za-z]*s/.test(word.text)) readsInput = true;
      if (/^[-+][A-Za-z]*[oO]$/.test(word.text)) at += 1;
    }
    const operand = rest[at];
    if (takesText && operand && !operand.dynamic) return this.text(operand.text, depth + 1);
    if (takesText || operand?.dynamic || /^\/(dev|proc)\//.test(operand?.text ?? "")) {
      return this.note(ask(`${name} runs text that cannot be checked`, this.source));
    }
    if (operand && !readsInput) return this.#downloads ? this.#downloaded(name) : undefined;
    this.#input(name, command, depth);
  }

  /** A shell that reads its commands from standard input. */
  #input(name: string, command: SimpleCommand, depth: number): void {
    if (command.piped) this.note(ask(`${name} runs what another command writes`, this.source));
    for (const { operator, target, body } of command.redirections) {
      if (body !== undefined) this.text(body, depth + 1);
      if (operator === "<" && target.dynamic)
        this.note(ask(`${name} runs text that cannot be checked`, this.source));
      if (operator !== "<<<") continue;
      if (target.dynamic) this.note(ask(`${name} runs text that cannot be checked`, this.source));
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
      return this.note(ask("it runs text that cannot be checked", this.source));
    if (this.#downloads) this.#downloaded("source");
  }

  #downloaded(name: string): void {
    this.note(ask(`${name} may run what was just downloaded`, this.source));
  }

  #find(name: string, rest: readonly Word[], inner: Inner): void {
    const roots = rest.filter((word) => !word.text.startsWith("-"));
    for (const [index, { text }] of rest.entries()) {
      if (text === "-delete") {
        this.note(this.#where.isVital(roots) ? deny("it would delete a vital folder") : undefined);
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
    const operands = rest.filter((word) => !word.text.startsWith("-"));
    const target = /^(clone|init)$/.test(subcommand) && operands.length > 1 ? operands.at(-1) : undefined;
    if (target && !/^[\w.+-]+:|^[\w.-]+@/.test(target.text)) this.write(target, "git");
    const folder = rest.findIndex(({ text }) => /^(-o|--output-directory)$/.test(text));
    if (subcommand === "format-patch" && folder !== -1) this.write(rest[folder + 1] ?? unknownWord, "git");
    if (reason !== undefined)
      this.note(ask(`git ${subcommand} ${reason}`, this.shape(`git ${subcommand}`, rest), risk));
  }

  #interpreter(name: string, rest: readonly Word[], command: SimpleCommand): void {
    const inline = interpreters.get(name) ?? interpreters.get(name.replace(/[\d.]+$/, ""));
    if (!inline) return;
    if (optionsOf(rest).some((word) => inline.test(word.text)))
      return this.note(ask(`${name} is given code that cannot be checked`, this.source, codeRisk(rest)));
    const operand = rest.find((word) => !word.text.startsWith("-"));
    if (operand) return this.#downloads ? this.#downloaded(name) : undefined;
    const isFed =
      command.piped ||
      command.redirections.some(
        ({ operator, target }) => operator.startsWith("<<") || (operator === "<" && target.dynamic),
      );
    if (isFed) this.note(ask(`${name} runs what it is fed, which cannot be checked`, this.source));
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

function sweeps(name: string, rest: readonly Word[]): boolean {
  if (name === "tar" || name === "zip" || name === "rsync") return true;
  if (name === "find") return rest.some(({ text }) => text.startsWith("-exec"));
  return (
    /^(grep|cp)$/.test(name) && rest.some(({ text }) => /^-[a-zA-Z]*[rRa]|^--(recursive|archive)/.test(text))
  );
}

const script = /\.(py|pyw|js|mjs|cjs|ts|mts|rb|pl|php|lua|R|jl|tcl)$/;

/** The words that may be options of an interpreter: those behind a script's name are the script's. */
function optionsOf(rest: readonly Word[]): readonly Word[] {
  const end = rest.findIndex((word, index) => {
    const before = rest[index - 1]?.text ?? "";
    return script.test(word.text) || (index > 0 && /^-m$/.test(before));
  });
  return end === -1 || rest[end]?.dynamic ? rest : rest.slice(0, end + 1);
}

/** Words of the command of `xargs` in which something is put at run time. */
function replaced(words: readonly Word[], options: readonly Word[]): readonly Word[] {
  const at = options.findIndex(({ text }) => /^-[iIJ]|^--replace/.test(text));
  if (at === -1) return words;
  const attached = options[at]?.text.replace(/^(-[iIJ]|--replace=?)/, "");
  const mark = attached || (/^-[IJ]$/.test(options[at]?.text ?? "") && options[at + 1]?.text) || "{}";
  return words.map((word) => (word.text.includes(mark) ? { ...word, dynamic: true } : word));
}

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
