/** Programs that run other programs, or code: wrappers, shells, interpreters, and the shell's own `eval` and `trap`. */
import { forEachChild, parse, type SyntaxNode } from "unbash";
import { operandsOf, type Call, type Rule } from "./program.ts";
import { changesService, isService } from "./own-commands.ts";
import { namesFound, rootsOf } from "./outputs.ts";
import { riskyVariables } from "./variables.ts";
import { ANY, BELOW, hasAny, isConstant } from "./words.ts";

/** The syntax of a wrapper's own words. */
interface Wrapper {
  /** Options that take the next word. */
  readonly values?: string;
  /** Options without a value, besides those with `=`. */
  readonly flags?: RegExp;
  /** Number of words before the command. */
  readonly operands?: number;
  /** Why the wrapper itself asks. */
  readonly risk?: readonly [reason: string, risk: "escalating" | "code" | "fetching" | "system"];
}

const wrappers: Readonly<Record<string, Wrapper>> = {
  command: { flags: /^-p$/ },
  builtin: {},
  exec: { values: "-a", flags: /^-[cl]+$/ },
  nohup: {},
  time: { values: "-f -o --format --output", flags: /^-[apvq]+$/ },
  nice: { values: "-n --adjustment", flags: /^-\d+$/ },
  ionice: { values: "-c -n", flags: /^-(t|c\d|n\d)$/ },
  timeout: {
    values: "-k -s --kill-after --signal",
    flags: /^(-[vpf]|--preserve-status|--foreground|--verbose)$/,
    operands: 1,
  },
  stdbuf: { flags: /^-[ioe].+$/, values: "-i -o -e --input --output --error" },
  chrt: { flags: /^-[abdforimRv]+$/, operands: 1 },
  taskset: { flags: /^-[ac]+$/, operands: 1 },
  setarch: { flags: /^-[A-Z3]+$/, operands: 1 },
  prlimit: {},
  flock: { values: "-w -E --timeout --conflict-exit-code", flags: /^-[sxunoF]+$/, operands: 1 },
  eatmydata: {},
  chronic: { flags: /^-[ev]+$/ },
  unbuffer: { flags: /^-p$/ },
  rlwrap: {},
  caffeinate: { values: "-t -w", flags: /^-[dimsu]+$/ },
  fakeroot: { values: "-l -s -i" },
  busybox: {},
  toybox: {},
  jobs: { flags: /^-x$/ },
  faketime: { operands: 1 },
  "xvfb-run": { values: "-n -f -p -s -w", flags: /^-a$/ },
  "dbus-run-session": {},
  sudo: {
    values: "-u -g -h -p -C -r -t -T -U --user --group",
    flags: /^-[nEHSkKibPA]+$|^--[a-z-]+$/,
    risk: ["runs as another user", "escalating"],
  },
  doas: { values: "-u -C", flags: /^-[nLs]+$/, risk: ["runs as another user", "escalating"] },
  setsid: { flags: /^-[cfw]+$/, risk: ["runs something in the background", "code"] },
  "systemd-run": {
    values: "-p -u",
    flags: /^--?[a-zA-Z-]+$/,
    risk: ["runs something in the background", "code"],
  },
};
/** Names of programs that run their words. */
const starters: ReadonlySet<string> = new Set([...Object.keys(wrappers), "env", "xargs"]);

export const shells = new Set(
  "sh bash dash zsh ksh mksh fish ash csh tcsh rbash pwsh yash posh osh nu xonsh elvish".split(" "),
);

/** Interpreters, and their options that take code as an argument. */
const interpreters: Readonly<Record<string, RegExp>> = {
  python: /^-[A-Za-z]*c/,
  pypy: /^-[A-Za-z]*c/,
  perl: /^-[A-Za-z0-9]*[eE]/,
  ruby: /^-[A-Za-z]*e/,
  node: /^(-[a-z]*[ep]|--eval|--print|(--(import|require|loader)=)?data:)/,
  nodejs: /^(-[a-z]*[ep]|--eval|--print)/,
  bun: /^(-[ep]|--eval|--print)/,
  deno: /^(eval$|https?:|data:)/,
  tsx: /^(-[ep]|--eval|--print)/,
  "ts-node": /^(-[ep]|--eval|--print)/,
  php: /^-[rRBEF]/,
  lua: /^-e/,
  luajit: /^-e/,
  Rscript: /^-e/,
  R: /^-e/,
  groovy: /^-e/,
  elixir: /^(-e|--eval)/,
  tclsh: /^-c/,
  julia: /^-[eE]/,
  swift: /^-e/,
  java: /^$/,
  scala: /^-e/,
  ghci: /^-e/,
  irb: /^-e/,
  guile: /^-c/,
};
const asksVersion = /^(-v|-V|--version|-version|--help|-h)$/;

/** Returns the rule of a name that starts other programs; undefined for other names. */
export function starterRule(name: string): Rule | undefined {
  if (Object.hasOwn(wrappers, name)) return wrap;
  if (shells.has(name)) return shell;
  if (/^(ld-.*|ld\.so)$/.test(name)) return (call) => call.run(call.args);
  const interpreter = interpreterOf(name);
  return interpreter && ((call) => interpret(call, interpreter));
}

export const isStarter = (name: string): boolean => starterRule(name) !== undefined;

function interpreterOf(name: string): RegExp | undefined {
  const key = Object.hasOwn(interpreters, name) ? name : name.replace(/[\d.]+$/, "");
  return Object.hasOwn(interpreters, key) ? interpreters[key] : undefined;
}

function wrap(call: Call): void {
  const { name, args } = call;
  const wrapper = wrappers[name] ?? {};
  if (name === "command" && /^-[pvV]*[vV]/.test(args[0] ?? "")) return;
  const rest = behindOptions(call, wrapper);
  if (name === "nohup") call.changes(); // it may write nohup.out
  if (wrapper.risk) call.ask(`${name} ${wrapper.risk[0]}`, wrapper.risk[1]);
  if (rest === undefined) return;
  if (name === "flock" && /^(-c|--command)$/.test(rest[0] ?? "")) return call.runText(rest[1] ?? ANY);
  call.run(rest);
}

/** Returns the words of the command that a wrapper runs; undefined when they cannot be found. */
function behindOptions(call: Call, wrapper: Wrapper): readonly string[] | undefined {
  return behind(call.args, wrapper, (option) =>
    call.ask(`${call.name} ${option} hides which command it runs`),
  );
}

function behind(
  args: readonly string[],
  { values = "", flags, operands = 0 }: Wrapper,
  refuse: (option: string) => void,
): readonly string[] | undefined {
  const withValue = values.split(" ");
  let [at, left] = [0, operands];
  for (; at < args.length; at += 1) {
    const word = args[at] ?? "";
    if (word === "--") continue;
    if (word.startsWith("-") && word !== "-") {
      if (withValue.includes(word)) at += 1;
      else if (
        !flags?.test(word) &&
        !/^--[\w-]+=/.test(word) &&
        !withValue.some((option) => option !== "" && option.length === 2 && word.startsWith(option))
      ) {
        refuse(word);
        return undefined;
      }
    } else if (left > 0) left -= 1;
    else break;
  }
  return args.slice(at);
}

/** `env` alone prints the environment, which holds no secrets; otherwise it sets variables for a command. */
export const env: Rule = (call) => {
  const { args } = call;
  let at = 0;
  for (; at < args.length; at += 1) {
    const word = args[at] ?? "";
    const assigned = /^([A-Za-z_]\w*)=/.exec(word)?.[1];
    if (assigned?.startsWith("AGENTD_"))
      call.ask(`setting ${assigned} changes the settings of agentd commands`, "own");
    if (assigned !== undefined && riskyVariables.test(assigned))
      call.ask(`setting ${assigned} changes what other commands do`, "code");
    if (assigned !== undefined || /^(-i|-|--ignore-environment|-0|--null|-v)$/.test(word)) continue;
    if (/^(-u|--unset)$/.test(word)) at += 1;
    else if (/^(-C|--chdir)$/.test(word)) call.enter(args[(at += 1)]);
    else if (/^(-[a-zA-Z0]*S|--split-string)/.test(word))
      return call.ask("env runs a command that is passed as text");
    else if (word.startsWith("-")) return call.ask(`env ${word} hides which command it runs`);
    else break;
  }
  if (at < args.length) call.run(args.slice(at));
};

function shell(call: Call): void {
  const { name, args } = call;
  let [takesText, readsInput, onlyReads] = [false, false, false];
  let at = 0;
  for (; at < args.length && /^[-+]./.test(args[at] ?? ""); at += 1) {
    const word = args[at] ?? "";
    if (asksVersion.test(word) && word.startsWith("--")) return;
    if (
      /^--(command|init-command|eval|rcfile|init-file)|^-(Command|EncodedCommand|C)$/i.test(word) &&
      word !== "-c"
    )
      return call.ask(`${name} runs text that cannot be checked`);
    if (/^-[A-Za-z]*c/.test(word)) takesText = true;
    if (/^-[A-Za-z]*s/.test(word)) readsInput = true;
    if (/^-[A-Za-z]*n/.test(word)) onlyReads = true;
    if (/^[-+][A-Za-z]*[oO]$/.test(word)) at += 1;
  }
  const [operand, ...rest] = args.slice(at);
  if (takesText) return operand === undefined ? undefined : call.runText(operand, rest.slice(1));
  if (operand !== undefined && !readsInput) {
    if (onlyReads) return call.read(operand);
    return runsScript(call, operand);
  }
  fedShell(call);
}

/** A shell that reads its commands from standard input. */
function fedShell(call: Call): void {
  if (call.input === undefined) return call.changes();
  const text = call.inputText();
  if (text === undefined)
    return call.ask(`${call.name} runs the output of another command, which cannot be checked`);
  call.runText(text);
}

/** A code file that a shell or an interpreter runs. */
function runsScript(call: Call, file: string): void {
  if (isService(file)) return changesService(call, call.args.slice(call.args.indexOf(file) + 1));
  call.read(file);
  if (!isConstant(file) || /^\/(dev|proc)\//.test(file))
    return call.ask(`${call.name} runs text that cannot be checked`);
  const where = call.isOutside(file) ? "code from outside the workspace" : "code from the workspace";
  call.ask(`${call.name} ${file} runs ${where}, which may do anything that you can`, "code");
}

/** A path in place of a command's name. */
export const runsPath: Rule = (call) => {
  const { path, args } = call;
  if (isService(path)) return changesService(call, args);
  for (const word of [path, ...args]) call.read(word);
  call.ask(
    `${path} is a program from the workspace or a user's folder, which may do anything that you can`,
    "code",
  );
};

function interpret(call: Call, inline: RegExp): void {
  const { name, args } = call;
  if (args.length > 0 && args.every((arg) => asksVersion.test(arg))) return;
  for (const arg of args) if (isConstant(arg)) call.read(arg);
  // `deno run npm:agentd`, `deno task agentd`, `bun run agentd`
  const service = /^(deno|bun)$/.test(name) ? args.findIndex(isService) : -1;
  if (service !== -1) return changesService(call, args.slice(service + 1));
  const own = optionsBefore(args);
  if (own.some((option) => inline.test(option) || hasAny(option)))
    return call.ask(`${name} gets code that cannot be checked`, "code");
  const [, module] = /^-[A-Za-z]*m$/.test(own.at(-1) ?? "") ? [undefined, args[own.length]] : [];
  // Without -I or -P, Python looks for a module in the current folder first.
  if (module === "json.tool" && own.some((option) => /^-[A-Za-z]*[IP]/.test(option))) {
    const [, ...written] = operandsOf(args.slice(own.length + 1));
    for (const file of written) call.write(file);
    return;
  }
  if (module !== undefined) return runsModule(call, module, args.slice(own.length + 1));
  const file = args.slice(own.length).find((arg) => !arg.startsWith("-") && !/^(run|test|check)$/.test(arg));
  if (file !== undefined) return runsScript(call, file);
  if (call.input !== undefined) return call.ask(`${name} runs its input, which cannot be checked`, "unclear");
  call.ask(`${name} runs code, which may do anything that you can`, "code");
}

function runsModule(call: Call, module: string, rest: readonly string[]): void {
  if (/^agentd(\.|$)/.test(module)) return changesService(call, rest);
  if (module === "pip") return call.run(["pip", ...rest]);
  if (module === "pytest" || module === "unittest")
    return call.ask(
      `${call.name} -m ${module} runs the workspace's tests, which may do anything that you can`,
      "task",
    );
  if (module === "http.server")
    return call.ask(`${call.name} -m http.server shows files to the network`, "outward");
  call.ask(`${call.name} -m ${module} runs code, which may do anything that you can`, "code");
}

/** Returns the words up to the one that names the code; the rest belong to the script. */
function optionsBefore(args: readonly string[]): readonly string[] {
  const end = args.findIndex((arg, index) => {
    const before = args[index - 1] ?? "";
    return (
      /^-[A-Za-z]*m$/.test(before) || /\.(py|pyw|js|mjs|cjs|ts|mts|rb|pl|php|lua|R|jl|tcl|jar)$/.test(arg)
    );
  });
  return end === -1 ? args : args.slice(0, end);
}

/** `eval` and `trap`: checks text that is written literally in the command. */
export const evaluate: Rule = (call) => {
  const words = call.name === "trap" ? operandsOf(call.args).slice(0, 1) : call.args;
  if (words.some((word) => !isConstant(word)) || !call.isLiteral)
    return call.ask(`${call.name} runs text that cannot be checked`);
  if (words[0] !== "-" && words.length > 0) call.runText(words.join(" "));
};

export const source: Rule = (call) => {
  const [file = ANY] = call.args;
  runsScript(call, file);
};

/** `xargs` passes words from its input to its command; `parallel` may do more. */
export const xargs: Rule = (call) => {
  const { args } = call;
  const own = {
    values: "-I -n -P -L -d -s -a -E -J -R -S --max-args --max-procs --max-chars --delimiter --arg-file",
    flags: /^-([0rtxp]+|[iel].*|\d+)$|^--(null|no-run-if-empty|verbose|exit)$/,
  };
  const command = behind(args, own, (option) => call.ask(`xargs ${option} hides which command it runs`));
  if (command === undefined) return;
  const options = args.slice(0, args.length - command.length);
  const isFromFile = options.some((option) => /^(-a|--arg-file)/.test(option));
  for (const [index, option] of options.entries())
    if (/^(-a|--arg-file)$/.test(option)) call.read(options[index + 1] ?? ANY);
  const names = isFromFile ? [ANY] : call.inputNames();
  const mark = replacedMark(options);
  const made = command.length === 0 ? ["echo"] : command;
  if (mark === undefined) return call.run([...made, ...names]);
  const [name = "", ...rest] = names.length === 1 ? names : [ANY];
  const value = rest.length > 0 ? ANY : name;
  call.run(made.map((word) => word.replaceAll(mark, value)));
};

function replacedMark(options: readonly string[]): string | undefined {
  const at = options.findIndex((option) => /^-[iIJ]|^--replace/.test(option));
  if (at === -1) return undefined;
  const option = options[at] ?? "";
  const attached = option.replace(/^(-[iIJ]|--replace=?)/, "");
  return attached || (/^-[IJ]$/.test(option) ? options[at + 1] : undefined) || "{}";
}

/** What `find` and `fd` start or delete; the rest only reads. */
export const find: Rule = (call) => {
  const { name, args } = call;
  const roots = rootsOf(args);
  for (const [index, arg] of args.entries()) {
    if (arg === "-delete") {
      if (roots.some((root) => call.isVital(root))) call.deny("it would delete a vital folder");
      call.ask("find -delete deletes files", "destructive");
    }
    if (/^-f(printf|print0?|ls)$/.test(arg)) call.write(args[index + 1] ?? ANY);
    if (arg === "-files0-from") call.read(args[index + 1] ?? ANY);
    const starts =
      /^-(exec|execdir|ok|okdir)$/.test(arg) ||
      (name !== "find" && /^(-x|-X|--exec|--exec-batch)$/.test(arg));
    if (!starts) continue;
    const command = startedBy(args.slice(index + 1));
    for (const found of name === "find" ? namesFound(args) : [`./${BELOW}`]) {
      const own = command.map((word) => word.replaceAll("{}", found));
      call.run(name === "find" ? own : [...own, found]);
    }
  }
  // An unknown word may be one of the options above.
  if (
    args.some(
      (arg, index) => arg.startsWith(ANY) && !roots.includes(arg) && !(args[index - 1] ?? "").startsWith("-"),
    )
  )
    call.ask(`${name} gets words that are only known at run time`);
};

function startedBy(words: readonly string[]): readonly string[] {
  const end = words.findIndex((word) => word === ";" || word === "+");
  return end === -1 ? words : words.slice(0, end);
}

/** Returns whether the text runs `program`, directly or through a program that starts others. */
export function mentionsProgram(text: string, program: string): boolean {
  const isNamed = (word: string) => baseName(word) === program;
  const isIn = (node: SyntaxNode, depth: number): boolean => {
    if (node.type === "Command" && node.name) {
      const words = node.args.flatMap((word) => (word.type === "Word" ? [word.value] : []));
      if (isNamed(node.name.value)) return true;
      if (starters.has(baseName(node.name.value)) && words.some(isNamed)) return true;
    }
    let found = false;
    forEachChild(node, (child) => {
      found ||= depth < 150 && isIn(child, depth + 1);
    });
    return found;
  };
  if (!text.includes(program) || text.length > 40_000) return false;
  try {
    return isIn(parse(text), 0);
  } catch {
    return false; // Nested too deeply for the parser.
  }
}

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
