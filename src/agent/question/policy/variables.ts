/**
 * The possible values of a script's variables, and the output of its commands. All assignments of a name count,
 * wherever they occur, so that neither loops nor branches hide one. Pure.
 */
import {
  forEachChild,
  parse,
  type Assignment,
  type Command,
  type ParsedScript,
  type Redirection,
  type Script,
  type SyntaxNode,
  type TestExpression,
  type Word,
} from "unbash";
import { ANY, expandText, expandWord, PLAIN, valuesOf, type Output, type Scope } from "./words.ts";
import { keepsLines, printers } from "./outputs.ts";

/** Source of a command's standard input. */
type Source = readonly SyntaxNode[] | "unknown" | undefined;

/** A source of a variable's value. */
type Assigned =
  | { readonly value: string }
  | { readonly word: Word }
  | { readonly elements: readonly Word[] }
  | { readonly lines: Source };

const MAX_VALUES = 32;
const MAX_DEPTH = 12;
const UNKNOWN = [ANY];
/** Builtins that set the variables named by their words. */
const readsInto = new Set(["read", "mapfile", "readarray", "getopts"]);
const declares = new Set(["declare", "typeset", "local", "export", "readonly"]);
const numbers =
  /^([?#$!]|RANDOM|SECONDS|LINENO|UID|EUID|PPID|BASHPID|EPOCHSECONDS|EPOCHREALTIME|SHLVL|OPTIND|COLUMNS|LINES)$/;

/** Variables that make an ordinary command run another program or read other files. */
export const riskyVariables =
  /^(LD_\w+|DYLD_\w+|PATH|BASH_ENV|ENV|IFS|SHELLOPTS|BASHOPTS|GLOBIGNORE|PROMPT_COMMAND|PS[0-4]|HOME|PWD|OLDPWD|CDPATH|GIT_\w+|SSH_\w+|PAGER|MANPAGER|EDITOR|VISUAL|BROWSER|NODE_\w+|NPM_CONFIG_\w+|npm_config_\w+|PYTHON\w+|PIP_\w+|PERL5?\w*|RUBY\w+|GEM_\w+|BUNDLE_\w+|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|LESS|LESSOPEN|LESSCLOSE|MAKEFLAGS|MAKEFILES|CC|CXX|RUSTC\w*|CARGO_\w+|GOFLAGS|RIPGREP_CONFIG_PATH|TAR_OPTIONS|CURL_HOME|WGETRC|\w*_proxy|\w*_PROXY|SUDO_\w+|BASH_FUNC\w*)$/;

/** Returns the commands of a pipeline that write the input of the one at `index`; in long pipelines the nearest. */
export function commandsBefore<T>(commands: readonly T[], index: number): readonly T[] {
  return commands.slice(Math.max(0, index - MAX_DEPTH), index);
}

/** Returns the texts of a test that are evaluated as numbers. */
export function numbersIn(expression: TestExpression): readonly string[] {
  if (expression.type === "TestBinary" && /^-(eq|ne|lt|le|gt|ge)$/.test(expression.operator))
    return [expression.left.text, expression.right.text];
  if (expression.type === "TestUnary") return expression.operator === "-v" ? [expression.operand.text] : [];
  if (expression.type === "TestLogical") return expression.operands.flatMap(numbersIn);
  if (expression.type === "TestNot") return numbersIn(expression.operand);
  return expression.type === "TestGroup" ? numbersIn(expression.expression) : [];
}

export class Variables implements Scope {
  readonly home: string;
  folders: readonly string[];
  /** `$1` and the others; undefined when unknown. */
  parameters: readonly string[] | undefined;
  readonly #environment: ReadonlyMap<string, string>;
  readonly #assigned = new Map<string, Assigned[]>();
  readonly #collected = new Map<string, readonly string[]>();
  readonly #working = new Set<string>();
  /** True when an unknown name was set, so that any name may be set. */
  #isOpen = false;
  /** Number of collected values. */
  count = 0;
  #setsParameters = false;
  #depth = 0;

  constructor({
    home,
    agentHome,
    workspace,
  }: {
    readonly home: string;
    readonly agentHome: string;
    readonly workspace: string;
  }) {
    this.home = home;
    this.folders = [workspace];
    this.#environment = new Map([
      ["HOME", home],
      ["AGENTD_HOME", agentHome],
      ["USER", PLAIN],
      ["LOGNAME", PLAIN],
      ["HOSTNAME", PLAIN],
      ["TMPDIR", "/tmp"],
      ["TERM", "dumb"],
    ]);
  }

  /** Collects everything that the nodes may set, before any of it is checked. */
  collect(node: SyntaxNode, input?: Source): void {
    this.#collected.clear();
    this.#collect(node, input);
  }

  values(name: string): readonly string[] {
    if (/^\d+$/.test(name)) return this.#parameter(Number(name));
    if (numbers.test(name)) return [PLAIN];
    if (name === "@" || name === "*") return this.elements(name) ?? UNKNOWN;
    if (this.#isOpen) return UNKNOWN;
    if (name === "PWD" && !this.#assigned.has(name)) return this.folders;
    const assigned = this.#assigned.get(name);
    if (assigned === undefined) return [this.#environment.get(name) ?? ANY];
    return this.#resolved(name, assigned);
  }

  elements(name: string): readonly string[] | undefined {
    if (name === "@" || name === "*") return this.#setsParameters ? undefined : this.parameters;
    const assigned = this.#assigned.get(name);
    const [only] = assigned ?? [];
    if (this.#isOpen || assigned?.length !== 1 || only === undefined || !("elements" in only))
      return undefined;
    const alternatives = only.elements.map((element) => expandWord(element, this));
    if (alternatives.some((each) => each.length > 1)) return undefined;
    return alternatives.flatMap(([fields = []]) => fields);
  }

  /** Returns whether a variable holds text read or produced at run time, so that arithmetic on it may run commands. */
  isFed(name: string): boolean {
    return (
      this.#assigned.has(name) &&
      this.values(name).some((value) => value.includes(ANY) || /[[$`]/.test(value))
    );
  }

  output(script: ParsedScript | Script | undefined): Output {
    return script === undefined ? { text: ANY } : this.printedBy(script.commands);
  }

  /** Returns the output of the last command, when the others precede it in a pipeline. */
  printedBy(nodes: readonly SyntaxNode[]): Output {
    this.#depth += 1;
    try {
      return this.#depth > MAX_DEPTH ? { text: ANY } : this.#printedBy(nodes);
    } finally {
      this.#depth -= 1;
    }
  }

  #parameter(position: number): readonly string[] {
    if (position === 0) return [PLAIN];
    if (this.#setsParameters || this.parameters === undefined) return UNKNOWN;
    return [this.parameters[position - 1] ?? ""];
  }

  #resolved(name: string, assigned: readonly Assigned[]): readonly string[] {
    const known = this.#collected.get(name);
    if (known) return known;
    if (this.#working.has(name) || this.#working.size > MAX_DEPTH) return UNKNOWN;
    this.#working.add(name);
    const outer = this.parameters;
    // A function may have set it with other parameters.
    this.parameters = undefined;
    const values = [...new Set(assigned.slice(0, MAX_VALUES + 1).flatMap((each) => this.#valuesOf(each)))];
    this.parameters = outer;
    this.#working.delete(name);
    const result = values.length > MAX_VALUES ? UNKNOWN : values;
    if (this.#working.size === 0) this.#collected.set(name, result);
    return result;
  }

  #valuesOf(assigned: Assigned): readonly string[] {
    if ("value" in assigned) return [assigned.value];
    if ("word" in assigned) return valuesOf(assigned.word, this);
    if ("elements" in assigned) return assigned.elements.flatMap((word) => expandWord(word, this).flat());
    const { lines } = assigned;
    if (lines === undefined || lines === "unknown") return UNKNOWN;
    const output = this.printedBy(lines);
    return "names" in output ? output.names : UNKNOWN;
  }

  #set(name: string, assigned: Assigned): void {
    if (!/^[A-Za-z_]\w*$/.test(name)) this.#isOpen = true;
    this.count += 1;
    const known = this.#assigned.get(name);
    if (known) known.push(assigned);
    else this.#assigned.set(name, [assigned]);
  }

  #collect(node: SyntaxNode, input: Source): void {
    switch (node.type) {
      case "Pipeline":
        for (const [index, command] of node.commands.entries())
          this.#collect(command, index === 0 ? input : commandsBefore(node.commands, index));
        return;
      case "Redirected":
        this.#collect(node.command, sourceOf(node.redirects) ?? input);
        for (const redirect of node.redirects) this.#collect(redirect, input);
        return;
      case "Command":
        this.#command(node, sourceOf(node.redirects) ?? input);
        break;
      case "Assignment":
        this.#assignment(node);
        break;
      case "For":
      case "Select":
        this.#set(
          node.name.text,
          node.type === "For" && node.wordlist ? { elements: node.wordlist } : { value: ANY },
        );
        break;
      case "ParameterExpansion":
        if (node.operation?.type === "Default" && node.operation.operator.endsWith("="))
          this.#set(node.parameter, { word: node.operation.operand });
        break;
      case "FileDescriptorVariable":
        this.#set(node.name, { value: PLAIN });
        break;
      case "ArithmeticBinary":
        if (/^([-+*/%&^|]|<<|>>)?=$/.test(node.operator) && node.left.type === "ArithmeticWord")
          this.#set(node.left.value.replace(/\[.*$/s, ""), { value: PLAIN });
        break;
      case "Coproc":
        this.#set(node.name?.text ?? "COPROC", { value: PLAIN });
        break;
      default:
        break;
    }
    const inner = node.type === "CommandExpansion" || node.type === "ProcessSubstitution" ? undefined : input;
    forEachChild(node, (child) => this.#collect(child, inner));
  }

  #assignment({ name, value, append }: Assignment): void {
    if (append === true) this.#set(name, { value: ANY });
    this.#set(name, value.type === "ArrayValue" ? { elements: value.elements } : { word: value });
  }

  #command({ name, args }: Command, input: Source): void {
    const words = [...(name ? [name] : []), ...args];
    const start = words.findIndex((word) => !/^\\?(command|builtin)$|^-\w+$/.test(word.text));
    const called = words[start];
    const builtin = called?.type === "Word" ? called.value : "";
    const rest = words.slice(start + 1);
    if (builtin === "set" && rest.some(({ text }) => !/^[-+][a-zA-Z]+$/.test(text)))
      this.#setsParameters = true;
    if (builtin === "shift") this.#setsParameters = true;
    if (builtin === "eval") this.#evaluated(rest, input);
    if (builtin === "printf") this.#printed(rest);
    if (declares.has(builtin)) this.#declared(rest);
    if (!readsInto.has(builtin)) return;
    // Option values count as names too; without names the default names are set.
    const lines = builtin === "getopts" || rest.some(({ text }) => /^-\w*u/.test(text)) ? "unknown" : input;
    for (const word of ["REPLY", "MAPFILE", "OPTARG"]) this.#set(word, { lines });
    for (const word of rest) {
      if (word.text.startsWith("-")) continue;
      if (word.type === "Word" && /^[A-Za-z_]\w*$/.test(word.value))
        this.#set(word.value, { lines: oneLine(rest, lines) });
      else if (word.type === "Word" && /[$`]/.test(word.text)) this.#isOpen = true;
    }
  }

  /** Collects what `eval` of a constant text sets. */
  #evaluated(rest: readonly (Word | Assignment)[], input: Source): void {
    const text = rest.map((word) => (word.type === "Word" ? word.value : word.text)).join(" ");
    this.#depth += 1;
    if (this.#depth < MAX_DEPTH && text.length < 10_000) this.#collect(parse(text), input);
    this.#depth -= 1;
  }

  #printed(rest: readonly (Word | Assignment)[]): void {
    const at = rest.findIndex((word) => word.type === "Word" && word.value.startsWith("-v"));
    const target = rest[at];
    if (target?.type !== "Word") return;
    const name = target.value.length > 2 ? target.value.slice(2) : (rest[at + 1]?.text ?? "");
    this.#set(name.replace(/\[.*$/s, ""), { value: ANY });
  }

  #declared(rest: readonly (Word | Assignment)[]): void {
    // A reference, or a composed name, may set any name.
    const isReference = rest.some(({ text }) => /^-\w*n/.test(text));
    const isMade = rest.some((word) => word.type === "Word" && /[$`]/.test(word.text));
    if (isReference || isMade) this.#isOpen = true;
  }

  #printedBy(nodes: readonly SyntaxNode[]): Output {
    const node = nodes.at(-1);
    if (node === undefined) return { text: "" };
    const before = nodes.slice(0, -1);
    if (node.type === "Statement") return before.length > 0 ? { text: ANY } : this.#printedBy([node.command]);
    if (node.type === "Pipeline") return this.printedBy(node.commands);
    if (node.type === "Script" || node.type === "ProcessSubstitution") {
      const script = node.type === "Script" ? node : node.script;
      return this.output(script);
    }
    return node.type === "Command" ? this.#printedByCommand(node, before) : { text: ANY };
  }

  #printedByCommand(command: Command, before: readonly SyntaxNode[]): Output {
    const unknown: Output = { text: ANY };
    const { name, args, redirects } = command;
    if (name === undefined || args.some(({ type }) => type !== "Word")) return unknown;
    const expanded = [name, ...(args as readonly Word[])].map((word) => expandWord(word, this));
    if (expanded.some((alternatives) => alternatives.length !== 1)) return unknown;
    const [program = "", ...fields] = expanded.flatMap(([only = []]) => only);
    const isQuiet = redirects.every(
      (redirect) => redirect.type === "Redirect" && redirect.target?.text === "/dev/null",
    );
    if (program === "cat" && fields.length === 0) return this.#document(redirects);
    if (!isQuiet && redirects.length > 0) return unknown;
    const operands = fields.filter((field) => !field.startsWith("-"));
    if (before.length > 0 && keepsLines(program, fields, operands)) return this.printedBy(before);
    const output = before.length > 0 ? undefined : printers.get(program)?.(fields, operands, this.folders);
    return output ?? unknown;
  }

  /** Returns what `cat` prints of a here-document. */
  #document(redirects: readonly Redirection[]): Output {
    const [only] = redirects;
    if (redirects.length !== 1 || only?.type !== "HereDoc") return { text: ANY };
    return { text: expandText(only.body.parts, only.body.text, this) };
  }
}

/** Returns where redirections take the input from: a known substitution, or another source. */
function sourceOf(redirects: readonly Redirection[]): Source {
  const input = redirects.findLast(({ operator }) => operator.startsWith("<"));
  if (input === undefined) return undefined;
  const [part, ...others] = (input.type === "Redirect" && input.target?.parts) || [];
  return part?.type === "ProcessSubstitution" && others.length === 0 ? [part] : "unknown";
}

/** A name receives a whole line only when it is the only name. */
function oneLine(rest: readonly (Word | Assignment)[], lines: Source): Source {
  const names = rest.filter(({ text }) => /^[A-Za-z_]\w*$/.test(text));
  return names.length === 1 ? lines : "unknown";
}
