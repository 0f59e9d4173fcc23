/**
 * Programs that change files: they run inside the workspace unless they delete files or write files that control later
 * work.
 */
import { type Call, findOption, operandsOf, type Rule, valuesOfOption } from "./program.ts";
import { ANY, hasAny, isConstant, NAME } from "./words.ts";

/** `rm`: named files of the workspace ask once per session; trees, patterns and other paths ask each time. */
export const remove: Rule = (call) => {
  const { args, name } = call;
  const options = args.filter((arg) => /^-./.test(arg) && arg !== "--");
  const targets = operandsOf(args);
  const isRecursive = options.some((option) => /^-[a-zA-Z]*[rR]|^--r/.test(option));
  if (options.some((option) => option.startsWith("--no-p")))
    call.deny("rm --no-preserve-root is never intended");
  if (isRecursive && targets.some((target) => call.isVital(target)))
    call.deny("it would delete a vital folder");
  for (const target of targets) call.write(target);
  const areas = call.areasOf(targets);
  const isSure = args.every(isConstant);
  if (isRecursive)
    return call.ask(
      `${name} ${options.join(" ")} permanently deletes folders`,
      "destructive",
      isSure ? `rm ${options.join(" ")} ${areas}` : undefined,
    );
  if (targets.some((target) => !isConstant(target)))
    return call.ask(
      "rm with a pattern may delete more than intended",
      "destructive",
      targets.some(hasAny) ? undefined : `rm * ${areas}`,
    );
  call.ask(`${name} permanently deletes files`, "deletion", `rm files ${areas}`);
};

/** `cp`, `mv` and `install`: the last word, or the value of -t, is written; the others are read. */
export const copy: Rule = (call) => {
  const { args, name } = call;
  const known =
    /^(-[abdfiLnPpRrTuvxsHlc]+|-t.*|--(archive|recursive|force|interactive|no-clobber|verbose|update|preserve|parents|target-directory|no-target-directory|backup|reflink|symbolic-link|link|dereference|no-dereference|help|version)(=.*)?|--|-[mogDCS].*|--(mode|directory)(=.*)?)$/;
  const strange =
    findOption(args, /./) === undefined ? undefined : args.find((arg) => /^-./.test(arg) && !known.test(arg));
  if (strange !== undefined) call.ask(`${name} ${strange} is an unknown option`);
  const given = valuesOfOption(args, "t", ["--target-directory"]);
  const operands = operandsOf(args);
  const isTree = findOption(args, /^-[a-zA-Z]*[arR]|^--(recursive|archive)/) !== undefined;
  const sources = given.length > 0 ? operands : operands.slice(0, -1);
  for (const target of given.length > 0 ? given : operands.slice(-1)) {
    call.write(target);
    // The file may go into a folder under its own name.
    for (const source of sources) call.write(`${target}/${source.split("/").at(-1) ?? ""}`);
  }
  for (const source of sources) {
    if (isTree) call.readTree(source);
    else call.read(source);
    if (name === "mv") call.write(source);
  }
};

/** `ln` gives its target another name, for reading and for writing. */
export const link: Rule = (call) => {
  const operands = operandsOf(call.args);
  const given = valuesOfOption(call.args, "t", ["--target-directory"]);
  const sources = given.length > 0 || operands.length === 1 ? operands : operands.slice(0, -1);
  for (const source of sources) {
    call.readTree(source);
    if (call.isOutside(source)) call.write(source);
  }
  for (const target of given.length > 0 ? given : operands.length > 1 ? operands.slice(-1) : ["."])
    call.write(target);
};

/** `mkdir`, `touch`, `tee` and others that write every operand. */
export const writeAll: Rule = (call) => {
  call.changes();
  const strange =
    call.name === "tee" ? findOption(call.args, /^--?(?!(a|i|p|ai|append|ignore-interrupts)$)/) : undefined;
  if (strange !== undefined) call.ask(`${call.name} ${strange} is an unknown option`);
  for (const target of operandsOf(call.args)) call.write(target);
  for (const source of valuesOfOption(call.args, "r", ["--reference"]))
    if (call.name === "touch") call.stat(source);
};

/** `chmod` for files of the workspace. */
export const chmod: Rule = (call) => {
  const { args } = call;
  call.changes();
  if (findOption(args, /^(-[a-zA-Z]*R|--recursive)$/))
    call.ask("chmod -R changes the permissions of many files", "system");
  const operands = args.filter((arg) => !/^-(R|c|f|v)+$|^--/.test(arg));
  if (operands.slice(0, 1).some((mode) => /^(0?[2467]\d{3}|[ugoa]*[+=][rwxXt]*s[a-z]*)$/.test(mode)))
    call.ask("chmod lets a program run as another user", "escalating");
  for (const target of operands.slice(1)) call.write(target);
};

/** `tar`, `zip` and others: listing reads, packing reads trees, unpacking writes unknown files. */
export const archive: Rule = (call) => {
  const { args, name } = call;
  const [bundle = "", ...rest] = args;
  const lists = /^-?[a-zA-Z]*t[a-zA-Z]*$/.test(bundle) || args.includes("--list");
  if (name === "unzip" && findOption(args, /^-[lZtvz1]+$/)) return args.forEach((arg) => call.read(arg));
  if (name === "zipinfo") return args.forEach((arg) => call.read(arg));
  const isTar = name.endsWith("tar");
  const known =
    /^(-?[a-zA-Z]*|--(create|list|gzip|bzip2|xz|zstd|verbose|file|exclude|directory|auto-compress|totals|exclude-vcs)(=.*)?|-C.*)$/;
  const strange = isTar
    ? args.find((arg) => arg.startsWith("-") && (!known.test(arg) || /^-[a-zA-Z]*[IFPT]/.test(arg)))
    : findOption(args, /^-(TT|F|.*I|-unzip-c)/);
  call.changes();
  if (strange !== undefined || (isTar && /^[a-zA-Z]*[IFPT]/.test(bundle)))
    return call.ask(`${name} ${strange ?? bundle} may start other programs or write anywhere`);
  if (isTar && lists) return rest.forEach((arg) => call.read(arg));
  const packs = isTar ? /^-?[a-zA-Z]*c/.test(bundle) || args.includes("--create") : name === "zip";
  const folders = valuesOfOption(args, isTar ? "C" : name === "unzip" ? "d" : "", ["--directory"]);
  if (packs) return pack(call, isTar ? folders : []);
  for (const folder of folders) call.write(folder);
  for (const arg of args) call.read(arg);
  call.ask(`${name} unpacks unreviewed files over existing ones`, "code");
};

function pack(call: Call, folders: readonly string[]): void {
  const words = call.args
    .filter((_arg, index) => index > 0 || call.name === "zip")
    .filter((arg) => !/^-./.test(arg));
  const [bundle = ANY, ...sources] = words;
  if (bundle !== "-") call.write(bundle);
  for (const source of sources) call.readTree(source);
  for (const folder of folders) call.readTree(folder);
}

/** `gzip` and others replace a file by its packed or unpacked form. */
export const compress: Rule = (call) => {
  const toOutput = findOption(call.args, /^-[a-zA-Z0-9]*[clt]|^--(stdout|list|test)/) !== undefined;
  for (const file of operandsOf(call.args)) call.read(file);
  if (toOutput || operandsOf(call.args).length === 0) return;
  for (const file of operandsOf(call.args)) call.write(file);
};

/** `rsync` between folders of this machine. */
export const synchronize: Rule = (call) => {
  const { args } = call;
  call.changes();
  const risky = args.find((arg) =>
    /^(--del|--rsh|--remove-source|--files-from|--log-file|--write-batch)|^-[a-zA-Z]*e|:/.test(arg),
  );
  if (risky !== undefined)
    call.ask(`rsync ${risky} deletes files, starts a program or reaches another machine`, "outward");
  const operands = operandsOf(args);
  for (const target of operands.slice(-1)) call.write(target);
  for (const source of operands.slice(0, -1)) call.readTree(source);
};

/** `split` and `csplit` write pieces under a given name. */
export const splitFile: Rule = (call) => {
  call.changes();
  if (findOption(call.args, /^--filter/)) call.ask(`${call.name} --filter starts other programs`);
  const operands = operandsOf(call.args);
  call.read(operands[0] ?? "-");
  call.write(operands.length > 1 ? (operands.at(-1) ?? ANY) : "x");
};

/** `mktemp` creates a file or folder in the temporary folder, or where its pattern says. */
export const makeTemporary: Rule = (call) => {
  call.changes();
  for (const folder of valuesOfOption(call.args, "p", ["--tmpdir"]))
    call.write(folder === ANY ? "/tmp" : folder);
  for (const pattern of operandsOf(call.args)) call.write(pattern.replace(/X{3,}/, NAME));
};

/** `sed`: scripts that only edit text run; scripts that start commands or name files are evaluated by those. */
export const sed: Rule = (call) => {
  const { args, name } = call;
  const isInPlace = findOption(args, /^(-[nErsuz]*i|--in-place)/) !== undefined;
  const options = args.filter((arg) => /^-./.test(arg));
  const isKnown = options.every((option) =>
    /^(-[nErsuz]*(i.*)?|-[nErsuz]*[ef]|--(quiet|silent|regexp-extended|null-data|in-place(=.*)?|expression(=.*)?|separate|unbuffered|posix|debug|version|help)|--)$/s.test(
      option,
    ),
  );
  if (!isKnown || findOption(args, /^(-[nErsuz]*f|--file)/)) {
    call.changes();
    return call.ask(`${name}'s script may start commands or write files`, "code");
  }
  const given = valuesOfOption(args, "e", ["--expression"]);
  const operands = operandsOf(
    args.filter((_arg, index) => !/^(-[nErsuz]*e|--expression)$/.test(args[index - 1] ?? "")),
  );
  const scripts = given.length > 0 ? given : operands.slice(0, 1);
  const files = given.length > 0 ? operands : operands.slice(1);
  for (const script of scripts) runSed(call, script);
  for (const file of files) if (isInPlace) call.write(file);
  for (const file of files) call.read(file);
};

function runSed(call: Call, script: string): void {
  const found = isConstant(script) ? readSed(script) : undefined;
  if (found === undefined) {
    call.changes();
    return call.ask(`${call.name}'s script may start commands or write files`, "code");
  }
  for (const file of found.reads) call.read(file);
  for (const file of found.writes) call.write(file);
}

interface SedFiles {
  readonly reads: string[];
  readonly writes: string[];
}

/** Returns the files that a sed script names; undefined when it starts commands or cannot be parsed. */
function readSed(script: string): SedFiles | undefined {
  const files: SedFiles = { reads: [], writes: [] };
  let rest = script;
  while (rest !== "") {
    const skipped = /^[\s;{}]+/.exec(rest) ?? /^#[^\n]*/.exec(rest);
    const address =
      skipped ?? /^(\d+(~\d+)?|\$|[+~]\d+|,|!|\/(\\[\s\S]|\[[^\]]*\]|[^/\\[])*\/[IM]*)\s*/.exec(rest);
    if (address) {
      rest = rest.slice(address[0].length);
      continue;
    }
    const command = sedCommand(rest, files);
    if (command === undefined) return undefined;
    rest = rest.slice(command);
  }
  return files;
}

/** Returns the length of the command at the start of the text. */
function sedCommand(text: string, files: SedFiles): number | undefined {
  const simple =
    /^([pPdDgGhHxnNzF=]|[qQlL]\s*\d*)\s*(?=[;}\n]|$)/.exec(text) ?? /^[:btT]\s*[^;}\n]*/.exec(text);
  if (simple) return simple[0].length;
  const inserted = /^[aic](\\\n|\s|\\)?([^\n\\]|\\[\s\S])*/.exec(text);
  if (inserted) return inserted[0].length;
  const file = /^([rRwW])\s*([^\n]*)/.exec(text);
  if (file) {
    (/[rR]/.test(file[1] ?? "") ? files.reads : files.writes).push((file[2] ?? "").trim());
    return file[0].length;
  }
  if (!/^[sy]/.test(text)) return undefined;
  const mark = text[1] ?? "";
  if (mark === "" || /[\s\\\w]/.test(mark)) return undefined;
  const end = endOfPart(text, endOfPart(text, 2, mark), mark);
  const flags = /^([gpiImM\d]*)(w\s*([^\n]*))?\s*(?=[;}\n]|$)/.exec(text.slice(end));
  if (end > text.length || !flags) return undefined;
  if (flags[3] !== undefined) files.writes.push(flags[3].trim());
  return end + flags[0].length;
}

/** Returns the position after the delimiter that ends the part from `start`; beyond the text when it is missing. */
function endOfPart(text: string, start: number, mark: string): number {
  let at = start;
  while (at < text.length && text[at] !== mark) at += text[at] === "\\" ? 2 : 1;
  return at < text.length ? at + 1 : text.length + 2;
}

/** `awk`: programs that only print run. */
export const awk: Rule = (call) => {
  const { args, name } = call;
  const values = new Set(["-F", "-v", "--field-separator", "--assign"]);
  let at = 0;
  for (; /^-./.test(args[at] ?? ""); at += 1) {
    const word = args[at] ?? "";
    if (word === "--version") return;
    if (values.has(word)) at += 1;
    else if (!/^(-[Fv].+|--field-separator=.*|--assign=.*|--)$/s.test(word)) return startsCommands(call);
  }
  const [program = ANY, ...files] = args.slice(at);
  if (hasAny(program) || !isHarmlessAwk(program)) return startsCommands(call);
  for (const file of [...args.slice(0, at), ...files]) call.read(file);
  if (args.some((arg) => arg.startsWith(ANY))) call.ask(`${name} gets words that are only known at run time`);
};

function startsCommands(call: Call): void {
  call.changes();
  call.ask(`${call.name}'s program may start commands, or read and write files`, "code");
}

const MAX_PROGRAM_CHARACTERS = 4_000;

/** Returns whether a program without its strings and patterns neither starts commands nor opens files. */
function isHarmlessAwk(program: string): boolean {
  if (program.length > MAX_PROGRAM_CHARACTERS) return false;
  const bare = program
    .replace(/"(\\[\s\S]|[^"\\])*"/g, '""')
    .replace(/(^|[{(,~!&|;}\n])(\s*)\/(\\[\s\S]|\[[^\]]*\]|[^/\\\n[])*\//g, "$1$2R");
  if (/system|getline|@|close|ENVIRON|ARGV|extension|"[^"]*$/.test(bare)) return false;
  return !/printf?\b[^;}]*[|>]|(^|[^|])\|($|[^|])/.test(bare);
}

/** `jq` and `yq` read their files; in place they also write them. */
export const query: Rule = (call) => {
  const { args, name } = call;
  const isYq = name === "yq";
  if (isYq && args.some((arg) => /load|strload|env\(/.test(arg)))
    call.ask("yq may read other files from its expression", "unclear");
  if (isYq && findOption(args, /^(-[a-zA-Z]*s|--split)/)) {
    call.changes();
    call.ask("yq -s writes files with names from its expression", "code");
  }
  if (args.some((arg) => /\b(import|include)\b/.test(arg)) || findOption(args, /^(-[a-zA-Z]*f$|--from-file)/))
    call.ask(`${name}'s program may read other files`, "code");
  const isInPlace = isYq && findOption(args, /^(-[a-zA-Z]*i|--in-?place)/) !== undefined;
  for (const file of isInPlace ? operandsOf(args).slice(1) : []) call.write(file);
  for (const arg of args) if (!isInPlace || arg.includes("/") || arg.startsWith(".")) call.read(arg);
};
