/**
 * The rules of programs by name; src/agent/question/policy/program.ts has those that depend only on names and words.
 */
import {
  archive,
  awk,
  chmod,
  compress,
  copy,
  link,
  makeTemporary,
  query,
  remove,
  sed,
  splitFile,
  synchronize,
  writeAll,
} from "./file-programs.ts";
import { git } from "./git.ts";
import { fetchPage } from "./network.ts";
import { act, administer, asksHelp, riskOf, startedByWords } from "./beyond.ts";
import { changesService, service } from "./own-commands.ts";
import {
  administrations,
  type Builder,
  builders,
  type Call,
  findOption,
  ofNode,
  operandsOf,
  type Reader,
  readers,
  risky,
  type Rule,
  sayings,
  statings,
  valuesOfOption,
} from "./program.ts";
import { env, evaluate, find, isStarter, runsPath, source, starterRule, xargs } from "./starters.ts";
import { riskyVariables } from "./variables.ts";
import { ANY, hasAny, isConstant } from "./words.ts";

const say: Rule = () => {};
const stat: Rule = (call) => {
  for (const arg of call.args) call.stat(arg);
  for (const file of call.name === "tree" ? valuesOfOption(call.args, "o", []) : []) call.write(file);
  // Lists of names come from files whose lines the program shows.
  for (const arg of call.args) if (/^--(files0-from|fromfile)/.test(arg)) call.read(arg);
};

function read(call: Call, reader: Reader): void {
  const { args, name } = call;
  const odd = reader.odd && args.find((arg) => reader.odd?.test(arg));
  if (odd !== undefined) {
    call.changes();
    call.ask(`${name} ${odd} does more than ${name} suggests`, "code");
  }
  const isTree = reader.trees === true || (reader.trees && findOption(args, reader.trees) !== undefined);
  const operands = operandsOf(args);
  if (isTree)
    for (const operand of operands.length < 2 ? [...operands, "."] : operands.slice(1))
      call.readTree(operand);
  if (isTree && name === "diff") for (const operand of operands) call.readTree(operand);
  for (const file of reader.output ? valuesOfOption(args, ...reader.output) : []) call.write(file);
  for (const file of reader.writesSecond ? operands.slice(1) : []) call.write(file);
  for (const arg of args) call.read(arg);
}

function build(call: Call, { looks, tasks, runs, publishes }: Builder): void {
  const { args, name } = call;
  if (args.length > 0 && args.every((arg) => asksHelp.test(arg) || arg === "-v")) return;
  for (const arg of args) if (isConstant(arg)) call.read(arg);
  const [operand = "", ...rest] = operandsOf(args);
  const isPlain = args.every(isConstant) && args[0] === operand;
  if (
    isPlain &&
    looks.test(operand) &&
    // An address in place of a name may belong to any server.
    !rest.some((word) => /:|^[^@]*\//.test(word) && isOfNode(name)) &&
    !args.some((arg) => /^(-w|--write|--log|-(toolexec|exec|vettool))/.test(arg))
  ) {
    return operand === "fmt" ? call.changes() : undefined;
  }
  const startsService =
    /^(exec|x|dlx|run|run-script|agentd)$/.test(operand) &&
    args.some((arg) => /^(@[^/]+\/)?agentd(@|$)/.test(arg));
  if (startsService) return changesService(call, rest.slice(operand.startsWith("agentd") ? 0 : 1));
  call.changes();
  if (publishes.test(operand)) {
    act(call, `${operand} publishes, or changes an account or settings`, "outward");
    if (/publish|upload|deploy|push/.test(operand))
      call.ask(`${name} ${operand} publishes files that may change between two calls`, "applying");
    return;
  }
  if (runs?.test(operand)) {
    call.ask(`${name} ${operand} fetches missing code and runs it`, "fetching");
    return call.run(args.slice(args.indexOf(operand) + 1).filter((arg, index) => index > 0 || arg !== "--"));
  }
  const isTask = tasks.test(operand) || (operand === "" && tasks.test("all"));
  const named =
    /^(run|run-script)$/.test(operand) && isOfNode(name)
      ? [operand, rest[0] ?? ""]
      : operand === ""
        ? []
        : [operand];
  const isSeveral = tasks.test("all") && rest.length > 0;
  const isLeading = isPlain && !isSeveral && named.every((word, index) => args[index] === word);
  if (isTask)
    return call.ask(
      `${[name, ...named].join(" ")} runs code from the workspace, which may do anything that you can`,
      "task",
      isLeading && !args.some((arg) => /^--(eval|prefix|manifest-path|script-shell)|[=;`]/.test(arg))
        ? [name, ...named].join(" ")
        : undefined,
    );
  call.ask(
    `${name} ${operand} installs or fetches code from elsewhere, which may run immediately`,
    "fetching",
  );
}

const isOfNode = (name: string): boolean => builders[name] === ofNode;

/** The rule of a program in no table. */
const unknownProgram: Rule = (call) => {
  const { args, name } = call;
  call.changes();
  if (name.startsWith("mkfs")) return act(call, "changes disks or file systems", "destructive");
  // A grant by name alone must not cover every program that such a program starts.
  const starts = args.some(
    (arg) =>
      isStarter(arg) ||
      riskyNames.has(arg) ||
      /^(rm|bash|sh|curl|git|agentd)$/.test(arg) ||
      /[\s;|&`$]/.test(arg),
  );
  for (const arg of args) call.read(arg);
  call.ask(
    `${name} is an unknown program`,
    starts ? "code" : "unknown",
    starts ? undefined : `program ${name}`,
  );
  startedByWords(call);
};

/** Builtins that set the variables named by their words. */
const assign: Rule = (call) => {
  const { args, name } = call;
  if (!call.isLiteral && !/^(export|let|unset)$/.test(name))
    call.ask(`${name} sets variables in a way that cannot be followed`);
  if (args.some((arg) => /\[[^\]]*(\$\(|`)/.test(arg)))
    call.ask(`${name} may run the text in square brackets`);
  if (/^(mapfile|readarray)$/.test(name) && args.some((arg) => arg.startsWith("-C")))
    call.ask(`${name} -C runs commands`);
  if (args.some((arg) => arg.startsWith(ANY)) && name !== "unset")
    call.ask(`${name} sets a variable whose name is only known at run time`);
  const named = args.find((arg) => riskyVariables.test(arg.split("=")[0] ?? ""));
  if (named !== undefined) call.ask(`setting ${named.split("=")[0]} changes what other commands do`, "code");
  if (args.some((arg) => arg.startsWith("AGENTD_")))
    call.ask("setting AGENTD_ variables changes the settings of agentd commands", "own");
};

const print: Rule = (call) => {
  const [first = ""] = call.args;
  if (first.startsWith("-v")) return assign(call);
  if (first.startsWith(ANY)) call.ask("printf gets words that are only known at run time");
};

const test: Rule = (call) => {
  if (call.args.some((arg) => /\[[^\]]*(\$\(|`)/.test(arg)))
    call.ask(`${call.name} may run the text in square brackets`);
};

const setShell: Rule = (call) => {
  const odd = call.args.find(
    (arg) =>
      !/^(-[a-zA-Z]+|\+[a-zA-Z]+|--|errexit|nounset|pipefail|xtrace|noglob|nullglob|extglob|globstar|failglob|nocasematch|posix|lastpipe|inherit_errexit)$/.test(
        arg,
      ),
  );
  if (call.name === "shopt" && odd !== undefined)
    call.ask(`shopt ${odd} changes how the shell reads words`, "code");
};

const alias: Rule = (call) => {
  if (call.args.length === 0) return;
  if (call.args.some((arg) => arg.includes("agentd"))) changesService(call, []);
  act(call, "changes what commands mean", "code");
};

const timetable: Rule = (call) => {
  if (call.args.join(" ") === "-l") return call.ask("crontab -l shows commands and their settings", "code");
  act(call, "runs commands at a later time, without approval", "steering");
};

const date: Rule = (call) => {
  if (findOption(call.args, /^(-s|--set)/)) return act(call, "sets the clock", "system");
  for (const file of valuesOfOption(call.args, "fr", ["--file", "--reference"])) call.read(file);
};

const processes: Rule = (call) => {
  const shows = call.args.some(
    (arg, index) => /^[a-zA-Z]*e[a-zA-Z]*$/.test(arg) && !(call.args[index - 1] ?? "").startsWith("-"),
  );
  if (shows) call.ask("ps shows the environment of other programs, and the secrets in it", "sensitive");
};

const goTo: Rule = (call) => {
  const [target] = call.args.filter((arg) => !/^-[LPe@]+$/.test(arg));
  call.enter(target);
};

/** Compilers and formatters that run no code of the workspace. */
const check: Rule = (call) => {
  if (call.args.length > 0 && call.args.every((arg) => asksHelp.test(arg))) return;
  call.changes();
  const isWhole = call.name === "tsc" && operandsOf(call.args).length === 0;
  if (isWhole && !call.args.some((arg) => /^--(noEmit|showConfig|listFilesOnly)$/.test(arg)))
    call.ask("tsc writes wherever the settings of the workspace say", "task");
  for (const arg of operandsOf(call.args)) call.write(arg);
  for (const file of valuesOfOption(call.args, "o", [
    "--output",
    "--output-file",
    "--outDir",
    "--outFile",
    "--declarationDir",
  ]))
    call.write(file);
  if (call.args.some((arg) => hasAny(arg) || /^-p$|^--(project|build|plugin)|^-b$/.test(arg)))
    call.ask(`${call.name} takes its settings from elsewhere`, "code");
};

const sqlite: Rule = (call) => {
  call.changes();
  for (const arg of call.args) call.read(arg);
  const [, ...statements] = operandsOf(call.args);
  const isLook =
    statements.length > 0 &&
    call.args.every(
      (arg) =>
        isConstant(arg) &&
        /^(-(readonly|json|csv|header|column|table|line|list|markdown|box)|[^-].*)$/s.test(arg),
    ) &&
    statements.every((text) =>
      /^\s*(select\b(?!.*\b(load_extension|writefile|readfile|edit|fts3_tokenizer)\b)[^;]*;?|\.(tables|schema|databases|indexes)(\s+\w+)?)\s*$/is.test(
        text,
      ),
    );
  if (!isLook)
    call.ask("sqlite3 may change the database, start programs or write files", riskOf(call, "code"));
};

const rules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...sayings.split(" ").map((name) => [name, say] as const),
  ...statings.split(" ").map((name) => [name, stat] as const),
  ...Object.entries(readers).map(([name, reader]) => [name, (call: Call) => read(call, reader)] as const),
  ...risky.flatMap(([reason, risk, names]) =>
    names.split(" ").map((name) => [name, (call: Call) => act(call, reason, risk)] as const),
  ),
  ...Object.entries(administrations).map(
    ([name, rule]) => [name, (call: Call) => administer(call, rule)] as const,
  ),
  ...Object.entries(builders).map(([name, builder]) => [name, (call: Call) => build(call, builder)] as const),
  ...["mkdir", "touch", "tee", "rmdir", "mkfifo"].map((name) => [name, writeAll] as const),
  ...["cp", "mv", "install", "gcp", "gmv"].map((name) => [name, copy] as const),
  ...["rm", "unlink", "grm"].map((name) => [name, remove] as const),
  ...["tar", "bsdtar", "gtar", "zip", "unzip", "cpio", "7z"].map((name) => [name, archive] as const),
  ...["gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd"].map(
    (name) => [name, compress] as const,
  ),
  ...[
    "read",
    "mapfile",
    "readarray",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "unset",
    "let",
    "getopts",
  ].map((name) => [name, assign] as const),
  ...["awk", "gawk", "mawk", "nawk"].map((name) => [name, awk] as const),
  ...["tsc", "gofmt", "ruff", "rustfmt", "black", "isort"].map((name) => [name, check] as const),
  ["sed", sed],
  ["gsed", sed],
  ["jq", query],
  ["yq", query],
  ["ln", link],
  ["chmod", chmod],
  ["rsync", synchronize],
  ["split", splitFile],
  ["csplit", splitFile],
  ["mktemp", makeTemporary],
  ["git", git],
  ["curl", fetchPage],
  ["wget", fetchPage],
  ["agentd", service],
  ["env", env],
  ["printenv", say],
  ["xargs", xargs],
  ["find", find],
  ["fd", find],
  ["fdfind", find],
  ["eval", evaluate],
  ["trap", evaluate],
  ["source", source],
  [".", source],
  ["printf", print],
  ["test", test],
  ["[", test],
  ["set", setShell],
  ["shopt", setShell],
  ["cd", goTo],
  ["pushd", goTo],
  ["alias", alias],
  ["crontab", timetable],
  ["date", date],
  ["ps", processes],
  ["sqlite3", sqlite],
]);

const riskyNames: ReadonlySet<string> = new Set(risky.flatMap(([, , names]) => names.split(" ")));

/** Returns the rule of a program by name; undefined for an unknown program. */
function ruleOf(name: string): Rule | undefined {
  return rules.get(name) ?? rules.get(name.replace(/^(pip|pytest)[\d.]+$/, "$1")) ?? starterRule(name);
}

/** Returns whether the shell looks a name up, or its path is in the machine's program folders. */
const isSystemPath = (name: string): boolean =>
  !name.includes("/") ||
  /^(\/usr(\/local)?|\/opt\/homebrew)?\/s?bin\/[^/]+$/.test(name) ||
  name.startsWith("/lib");

/** Returns the rule for a name as written in the command, with its folder if it has one. */
export function ruleFor(path: string): Rule {
  if (!isSystemPath(path)) return runsPath;
  return ruleOf(path.slice(path.lastIndexOf("/") + 1)) ?? unknownProgram;
}
