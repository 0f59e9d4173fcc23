/** Programs with a language of their own in their words: sed and awk, jq and yq. */
import { findOption, operandsOf, valuesOfOption, type Call, type Rule } from "./program.ts";
import { ANY, hasAny, isConstant } from "./words.ts";

/** `sed`: scripts that only edit text run; those that start commands or name files are judged by these. */
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

/** The files that a sed script names; undefined where it starts commands, or is not understood. */
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

/** The length of the command at the start of the text. */
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

/** Where the part that begins at `start` has ended, behind its mark; beyond the text when it has no end. */
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
  if (args.some((arg) => arg.startsWith(ANY)))
    call.ask(`${name} is given words that are worked out at run time`);
};

function startsCommands(call: Call): void {
  call.changes();
  call.ask(`${call.name}'s program may start commands, or read and write files`, "code");
}

const MAX_PROGRAM_CHARACTERS = 4_000;

/** Whether a program without its strings and patterns neither starts commands nor opens files. */
function isHarmlessAwk(program: string): boolean {
  if (program.length > MAX_PROGRAM_CHARACTERS) return false;
  const bare = program
    .replace(/"(\\[\s\S]|[^"\\])*"/g, '""')
    .replace(/(^|[{(,~!&|;}\n])(\s*)\/(\\[\s\S]|\[[^\]]*\]|[^/\\\n[])*\//g, "$1$2R");
  if (/system|getline|@|close|ENVIRON|ARGV|extension|"[^"]*$/.test(bare)) return false;
  return !/printf?\b[^;}]*[|>]|(^|[^|])\|($|[^|])/.test(bare);
}

/** `jq` and `yq` read what their words name; in place they write it. */
export const query: Rule = (call) => {
  const { args, name } = call;
  const isYq = name === "yq";
  if (isYq && args.some((arg) => /load|strload|env\(/.test(arg)))
    call.ask("yq may read other files from its expression", "unclear");
  const isInPlace = isYq && findOption(args, /^(-[a-zA-Z]*i|--in-?place)/) !== undefined;
  for (const file of isInPlace ? operandsOf(args).slice(1) : []) call.write(file);
  for (const arg of args) if (!isInPlace || arg.includes("/") || arg.startsWith(".")) call.read(arg);
};
