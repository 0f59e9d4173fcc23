/** Walks the text of a shell command and everything it would start, and collects findings. */
import {
  forEachChild,
  parse,
  type Assignment,
  type Command,
  type Function as FunctionNode,
  type ParsedScript,
  type Redirection,
  type SyntaxNode,
  type Word,
} from "unbash";
import { CommandCall, type CallSite, type Evaluation } from "./call.ts";
import type { Input } from "./program.ts";
import { ruleFor } from "./programs.ts";
import { joinPath, type PolicyPaths } from "./paths.ts";
import { ask, deny, isAlwaysAsked, type Finding } from "./risk.ts";
import { commandsBefore, numbersIn, riskyVariables, Variables } from "./variables.ts";
import { ANY, combined, expandText, expandWord, hasAny, isConstant, valuesOf, type Fields } from "./words.ts";

interface CommandReview {
  readonly findings: readonly Finding[];
  /** True when the command certainly changes nothing. */
  readonly looksOnly: boolean;
  /** True when `approvals.allow` covers every part that may change something. */
  readonly isAllowed: boolean;
}

interface CommandOptions {
  /** The initial folder. Default: the workspace. */
  readonly folder?: string | undefined;
  /** Prefixes of commands that need no approval. */
  readonly allow?: readonly string[] | undefined;
}

const MAX_CHARACTERS = 40_000;
const MAX_DOCUMENTS = 100;
const MAX_NESTING = 150;
const MAX_DEPTH = 6;
const MAX_PROGRAMS = 400;
const MAX_FINDINGS = 50;
const forkBomb = /([\w:.]{1,32})\(\)\{[^}]{0,99}?\1\|\1&/;

/** Reviews the shell text `command`. Pure; never throws. */
export function reviewCommand(
  command: string,
  paths: PolicyPaths,
  options: CommandOptions = {},
): CommandReview {
  const reviewer = new Reviewer(paths, options);
  try {
    reviewer.review(command);
  } catch {
    // People decide about text that the walk cannot handle, such as nesting that exhausts the stack.
    reviewer.note(ask("it cannot be checked: it is nested too deeply or too large", command, "unchecked"));
  }
  const { findings, looksOnly, isAllowed } = reviewer;
  return { findings, looksOnly, isAllowed };
}

interface CommandSite {
  readonly depth: number;
  readonly input: Input | undefined;
}

class Reviewer implements Evaluation {
  readonly paths: PolicyPaths;
  readonly variables: Variables;
  readonly findings: Finding[] = [];
  looksOnly = true;
  isAllowed = true;
  source = "";
  folders: readonly string[];
  isFolderUnknown = false;
  /** Target of the last `cd`, if it succeeds. */
  reached: readonly string[] | undefined;
  readonly #allow: readonly (readonly string[])[];
  readonly #functions = new Map<string, FunctionNode[]>();
  readonly #called = new Set<string>();
  readonly #calling: FunctionNode[] = [];
  #programsLeft = MAX_PROGRAMS;

  constructor(paths: PolicyPaths, { folder, allow = [] }: CommandOptions) {
    this.paths = paths;
    this.variables = new Variables(paths);
    this.folders = [folder ?? paths.workspace];
    this.#allow = allow.map((words) => words.trim().split(/\s+/)).filter(([first]) => first !== "");
  }

  review(text: string): void {
    this.text(text, { depth: 0, input: undefined });
    for (const [name, bodies] of this.#functions) {
      if (this.#called.has(name)) continue;
      // A trap or an exported name may still call it, with any words.
      this.variables.parameters = undefined;
      for (const body of bodies) this.#node(body.body, { depth: 1, input: undefined });
    }
  }

  /** Reviews shell text, with the values of `$1` and the others. */
  text(text: string, site: CommandSite, parameters?: readonly string[]): void {
    if (site.depth > MAX_DEPTH) return this.#unchecked("it is nested too deeply to be checked", text);
    if (forkBomb.test(text.replace(/\s/g, ""))) this.note(deny("it starts processes endlessly"));
    const isLarge = text.length > MAX_CHARACTERS || text.split("<<").length > MAX_DOCUMENTS;
    if (isLarge) return this.#unchecked("it is too long to be checked", text);
    if (/[\uE000-\uF8FF]/.test(text))
      return this.#unchecked("it contains private characters that cannot be read", text);
    const outer = { source: this.source, parameters: this.variables.parameters };
    this.source = text;
    this.variables.parameters = parameters;
    const script = parse(text);
    this.variables.collect(script);
    this.#collectFunctions(script, 0);
    this.#script(script, site);
    this.source = outer.source;
    this.variables.parameters = outer.parameters;
  }

  note(finding: Finding | undefined): void {
    if (!finding) return;
    this.changes();
    const isBelowLimit = this.findings.length < MAX_FINDINGS || finding.outcome === "deny";
    // Other findings must not displace those that every mode asks about.
    const isFirst = isAlwaysAsked(finding) && !this.findings.some(isAlwaysAsked);
    if (isBelowLimit || isFirst) this.findings.push(finding);
  }

  changes(): void {
    this.looksOnly = false;
    this.isAllowed = false;
  }

  /** Reviews one program with its words. */
  program(argv: Fields, site: CallSite): void {
    const [name = "", ...args] = argv;
    if ((this.#programsLeft -= 1) < 0)
      return this.#unchecked("it starts too many programs to be checked", this.source);
    if (site.depth > MAX_DEPTH) return this.#unchecked("it is nested too deeply to be checked", this.source);
    const before = { count: this.findings.length, isAllowed: this.isAllowed };
    const call = new CommandCall(this, { name: baseName(name), words: argv, site });
    if (!isConstant(name) || name === "") {
      for (const arg of args) call.read(arg);
      call.ask("the name of a command is only known at run time", "unclear", this.source);
    } else if (this.#functions.has(name)) {
      return this.#function(name, args, site);
    } else {
      const rule = ruleFor(name);
      rule(call);
    }
    if (this.#isNamed(argv)) this.#lift(before);
  }

  enter(target: string | undefined): void {
    if (target !== undefined && (!isConstant(target) || target === "-")) {
      this.isFolderUnknown = true;
      this.reached = this.folders;
      return;
    }
    const reached = this.folders.map((folder) => joinPath(folder, target ?? this.paths.home));
    this.reached = reached;
    this.#setFolders([...this.folders, ...reached]);
  }

  #setFolders(folders: readonly string[]): void {
    const all = [...new Set(folders)];
    if (all.length > 8) this.isFolderUnknown = true;
    this.folders = all.slice(0, 8);
    this.variables.folders = this.folders;
  }

  #unchecked(reason: string, text: string): void {
    this.note(ask(reason, text, "unchecked"));
  }

  #isNamed(argv: Fields): boolean {
    return (
      argv.every(isConstant) &&
      this.#allow.some((words) => words.every((word, index) => word === argv[index]))
    );
  }

  /** Drops newer findings, except those that no setting lifts. */
  #lift({ count, isAllowed }: { readonly count: number; readonly isAllowed: boolean }): void {
    const kept = this.findings
      .splice(count)
      .filter((finding) => finding.outcome === "deny" || isAlwaysAsked(finding));
    this.findings.push(...kept);
    this.isAllowed = isAllowed && kept.length === 0;
  }

  /** A recursive function may pass itself any words. */
  #function(name: string, args: Fields, { depth, input }: CallSite): void {
    this.#called.add(name);
    const outer = this.variables.parameters;
    for (const node of this.#functions.get(name) ?? []) {
      const times = this.#calling.filter((each) => each === node).length;
      if (times > 1) continue;
      this.#calling.push(node);
      this.variables.parameters = times > 0 || args.some(hasAny) ? undefined : args;
      this.#node(node.body, { depth: depth + 1, input });
      this.#calling.pop();
    }
    this.variables.parameters = outer;
  }

  #collectFunctions(node: SyntaxNode, depth: number): void {
    if (depth > MAX_NESTING) throw new RangeError("nested too deeply");
    if (node.type === "Function") {
      const name = node.name.value;
      this.#functions.set(name, [...(this.#functions.get(name) ?? []), node]);
    }
    forEachChild(node, (child) => this.#collectFunctions(child, depth + 1));
  }

  #script({ commands, errors = [] }: ParsedScript, site: CommandSite): void {
    const [error] = errors;
    if (error) this.#unchecked(`it cannot be checked: ${error.message}`, this.source);
    for (const statement of commands) this.#node(statement.command, site);
  }

  /** Reviews a subshell: its folder does not affect the rest. */
  #apart(work: () => void): void {
    const { folders, isFolderUnknown } = this;
    work();
    this.isFolderUnknown = isFolderUnknown;
    this.#setFolders(folders);
  }

  #node(node: SyntaxNode, site: CommandSite): void {
    if (this.#programsLeft < 0) return;
    switch (node.type) {
      case "Command":
        return this.#command(node, site);
      case "Pipeline":
        return this.#pipeline(node.commands, site);
      case "AndOr":
        return this.#andOr(node.commands, node.operators, site);
      case "Redirected":
        for (const redirect of node.redirects) this.#redirection(redirect, site);
        return this.#node(node.command, { ...site, input: this.#inputOf(node.redirects) ?? site.input });
      case "Subshell":
        return this.#apart(() => this.#node(node.body, site));
      case "Function":
        return;
      case "For":
      case "Select":
        this.#named(node.name.text);
        for (const word of node.wordlist ?? []) this.#visit(word, site);
        return this.#loop(() => this.#node(node.body, site));
      case "While":
        return this.#loop(() => {
          this.#node(node.clause, site);
          this.#node(node.body, site);
        });
      case "ArithmeticFor":
        forEachChild(node, (child) => (child === node.body ? undefined : this.#visit(child, site)));
        return this.#loop(() => this.#node(node.body, site));
      case "TestCommand":
        for (const text of numbersIn(node.expression)) this.#number(text);
        return forEachChild(node, (child) => this.#visit(child, site));
      case "Coproc":
        return this.#apart(() => this.#node(node.body, site));
      case "Word":
      case "ArithmeticCommand":
        return this.#visit(node, site);
      default:
        // Groups, branches and cases: reviews their parts in order.
        return forEachChild(node, (child) => this.#node(child, site));
    }
  }

  #pipeline(commands: readonly SyntaxNode[], site: CommandSite): void {
    for (const [index, command] of commands.entries()) {
      const input = index === 0 ? site.input : { from: commandsBefore(commands, index) };
      if (commands.length === 1) this.#node(command, site);
      else this.#apart(() => this.#node(command, { ...site, input }));
    }
  }

  #andOr(commands: readonly SyntaxNode[], operators: readonly string[], site: CommandSite): void {
    const outer = this.folders;
    let isSure = true;
    for (const [index, command] of commands.entries()) {
      this.reached = undefined;
      this.#node(command, site);
      isSure &&= operators[index] !== "||";
      if (!isSure) this.#setFolders([...outer, ...this.folders]);
      else if (this.reached && command.type === "Command" && index < operators.length)
        this.#setFolders(this.reached);
    }
    this.#setFolders([...outer, ...this.folders]);
  }

  /** Reviews a loop again when its body changed the folder or new variables, because later rounds start with those. */
  #loop(work: () => void): void {
    const { folders } = this;
    const { count } = this.variables;
    work();
    const hasMoved = this.folders.length !== folders.length;
    if (!hasMoved && this.variables.count === count) return;
    this.isFolderUnknown ||= hasMoved;
    work();
  }

  #named(name: string): void {
    if (riskyVariables.test(name))
      this.note(ask(`setting ${name} changes what other commands do`, this.source, "code"));
  }

  #command(node: Command, site: CommandSite): void {
    const { name, args, prefix, redirects } = node;
    forEachChild(node, (child) => this.#visit(child, site));
    const fields = [...(name ? [name] : []), ...args].map((word) => this.#fieldsOf(word));
    for (const part of prefix) if (part.type === "Assignment") this.#assignment(part, name?.value);
    for (const redirect of redirects) this.#redirection(redirect, site);
    const input = this.#inputOf(redirects) ?? site.input;
    const isLiteral = name?.parts?.some(({ type }) => type.endsWith("Expansion")) !== true;
    for (const argv of combined(fields))
      if (argv.length > 0) this.program(argv, { depth: site.depth, input, isLiteral });
  }

  #fieldsOf(word: Word | Assignment): readonly Fields[] {
    if (word.type === "Word") return expandWord(word, this.variables);
    const { name, value } = word;
    if (value.type === "ArrayValue") return [[name]];
    return valuesOf(value, this.variables).map((text) => [`${name}=${text}`]);
  }

  #assignment({ name }: Assignment, command: string | undefined): void {
    if (name.startsWith("AGENTD_"))
      this.note(ask(`setting ${name} changes the settings of agentd commands`, this.source, "own"));
    // IFS for one line of input changes nothing else.
    if (name === "IFS" && /^(read|mapfile|readarray)$/.test(command ?? "")) return;
    this.#named(name);
  }

  #redirection(redirect: Redirection, site: CommandSite): void {
    if (redirect.type === "HereDoc" || redirect.target === undefined) return;
    this.#visit(redirect.target, site);
    if (redirect.type === "HereString") return;
    const { operator, target } = redirect;
    const call = new CommandCall(this, {
      name: "a redirection",
      words: [],
      site: { depth: site.depth, input: undefined, isLiteral: true },
    });
    for (const field of expandWord(target, this.variables).flat()) {
      if (/^[<>]&$/.test(operator) && /^(\d+|-)$/.test(field)) continue;
      if (operator === "<" || operator === "<&") call.read(field);
      else if (field !== "/dev/null") call.write(field);
    }
  }

  #inputOf(redirects: readonly Redirection[]): Input | undefined {
    const input = redirects.findLast(({ operator }) => operator.startsWith("<"));
    if (input === undefined) return undefined;
    if (input.type === "HereDoc")
      return { text: expandText(input.body.parts, input.body.text, this.variables) };
    const [part, ...others] = input.target?.parts ?? [];
    if (input.type === "Redirect")
      return part?.type === "ProcessSubstitution" && others.length === 0
        ? { from: [part] }
        : { isOther: true };
    const [text = ANY, ...more] = input.target ? valuesOf(input.target, this.variables) : [];
    return { text: more.length > 0 ? ANY : text };
  }

  /** Visits the parts of words for the commands they run. */
  #visit(node: SyntaxNode, site: CommandSite): void {
    switch (node.type) {
      case "Script":
        return this.#apart(() => this.#script(node, { depth: site.depth + 1, input: undefined }));
      case "ParameterExpansion":
        if (node.operation?.type === "Transform" && !/^[QUuLKka]$/.test(node.operation.operand.text))
          this.note(ask("it expands the text of a variable twice", this.source));
        if (node.index) this.#number(node.index.text);
        break;
      case "ArithmeticWord":
        this.#number(node.value);
        break;
      case "Assignment":
        if (node.index) this.#number(node.index.text);
        break;
      default:
        break;
    }
    forEachChild(node, (child) => this.#visit(child, site));
  }

  /** Checks text that is evaluated as arithmetic: a value such as `a[$(command)]` runs the command. */
  #number(text: string): void {
    const names = text.match(/[A-Za-z_]\w*/g) ?? [];
    const isQuoted = /['\\]/.test(text) && /\$\(|`/.test(text);
    if (isQuoted || names.some((name) => this.variables.isFed(name)))
      this.note(ask("it evaluates text as a number, which may run commands in the text", this.source));
  }
}

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
