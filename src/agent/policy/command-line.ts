import { readSubstitutions, readWord, unknownWord, type Cursor, type Word } from "./shell-word.ts";

/** One command with its words; the first is its name. */
export interface SimpleCommand {
  readonly words: readonly Word[];
  readonly assignments: readonly Assignment[];
  readonly redirections: readonly Redirection[];
  /** Reads what the command before it in the pipe writes. */
  readonly piped: boolean;
  /** Stands in `$()`, backticks or `<()` of another command. */
  readonly substituted: boolean;
}

export interface Assignment {
  readonly name: string;
  readonly value: Word;
}

export interface Redirection {
  readonly operator: string;
  readonly target: Word;
  /** Text of a here-document. */
  readonly body?: string;
}

/** What shell text will run. */
export interface CommandLine {
  /** Every simple command, those inside substitutions and subshells too, in reading order. */
  readonly commands: readonly SimpleCommand[];
  /** Why parts could not be understood; empty when all were. */
  readonly unclear: readonly string[];
}

interface Parse {
  readonly cursor: Cursor;
  readonly commands: SimpleCommand[];
  readonly substituted: boolean;
  readonly depth: number;
  pendingBodies: {
    readonly redirection: { body?: string };
    readonly end: string;
    readonly tabs: boolean;
    readonly raw: boolean;
  }[];
}

interface Draft {
  words: Word[];
  assignments: Assignment[];
  redirections: Redirection[];
}

const MAX_DEPTH = 8;
const MAX_COMMANDS = 500;
const redirectionOperator = /^(?:\d*|\{\w+\})(?:&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<|>)/;
const separator = /^(?:;;&|;;|;&|;|&&|&|\|\||\|&|\||\n|\(|\))/;
const blanks = /(?:[ \t\r]|\\\n)+/y;
/** Words that only group: what follows them is a command again. */
export const groupWords = new Set([
  "if",
  "then",
  "elif",
  "else",
  "do",
  "while",
  "until",
  "!",
  "{",
  "}",
  "fi",
  "done",
]);

/**
 * Takes shell text apart the way bash would, as far as text alone tells. Never throws: what it cannot follow is told
 * in `unclear`. `variables` are values that are certain, such as HOME.
 */
export function parseCommandLine(
  text: string,
  variables: Readonly<Record<string, string>> = {},
): CommandLine {
  const unclear: string[] = [];
  const commands: SimpleCommand[] = [];
  parseText(text, {
    cursor: { text, at: 0, unclear, variables },
    commands,
    substituted: false,
    depth: 0,
    pendingBodies: [],
  });
  if (commands.length > MAX_COMMANDS) unclear.push(`it has more than ${MAX_COMMANDS} commands`);
  return { commands, unclear: [...new Set(unclear)] };
}

function parseText(text: string, parse: Parse): void {
  if (parse.depth > MAX_DEPTH) return void parse.cursor.unclear.push("it is nested too deeply");
  const { cursor } = parse;
  let piped = false;
  while (cursor.at < text.length && parse.commands.length <= MAX_COMMANDS) {
    const before = cursor.at;
    readCommand(parse, piped);
    skipBlanks(cursor);
    const operator = separator.exec(text.slice(cursor.at, cursor.at + 4))?.[0];
    cursor.at += operator?.length ?? 0;
    piped = operator === "|" || operator === "|&" || (piped && operator === "(");
    if (operator === "\n") readBodies(parse);
    if (cursor.at === before) cursor.at += 1;
  }
  if (parse.pendingBodies.length > 0) cursor.unclear.push("a here-document has no end");
}

function readCommand(parse: Parse, piped: boolean): void {
  const { cursor } = parse;
  const draft: Draft = { words: [], assignments: [], redirections: [] };
  for (;;) {
    skipBlanks(cursor);
    if (readRedirection(parse, draft)) continue;
    const start = cursor.at;
    const word = readWord(cursor);
    if (!word) break;
    noteWord(parse, draft, { word, raw: cursor.text.slice(start, cursor.at) });
  }
  if (draft.words.length > 0 && cursor.text[cursor.at] === "(")
    cursor.unclear.push("it defines a function or uses a pattern");
  if (draft.words.length + draft.assignments.length + draft.redirections.length === 0) return;
  parse.commands.push({ ...draft, piped, substituted: parse.substituted });
}

function noteWord(
  parse: Parse,
  draft: Draft,
  { word, raw }: { readonly word: Word; readonly raw: string },
): void {
  parseSubstitutions(parse, word.substitutions);
  const isFirst = draft.words.length === 0;
  const assignment = isFirst ? /^([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=/.exec(raw) : null;
  if (assignment) {
    const value = { ...word, text: word.text.slice(word.text.indexOf("=") + 1) };
    draft.assignments.push({ name: assignment[1] ?? "", value });
    return;
  }
  if (isFirst && !word.quoted && groupWords.has(word.text)) return;
  if (isFirst && !word.quoted && /^(case|function|coproc)$/.test(word.text)) {
    parse.cursor.unclear.push(`it uses ${word.text}`);
  }
  draft.words.push(word);
}

function readRedirection(parse: Parse, draft: Draft): boolean {
  const { cursor } = parse;
  const rest = cursor.text.slice(cursor.at, cursor.at + 40);
  const match = redirectionOperator.exec(rest)?.[0];
  if (match === undefined || /^[<>]\(/.test(rest)) return false;
  cursor.at += match.length;
  skipBlanks(cursor);
  const start = cursor.at;
  const target = readWord(cursor) ?? unknownWord;
  parseSubstitutions(parse, target.substitutions);
  const redirection: { operator: string; target: Word; body?: string } = {
    operator: match.replace(/^(\d+|\{\w+\})/, ""),
    target,
  };
  draft.redirections.push(redirection);
  if (redirection.operator === "<<" || redirection.operator === "<<-") {
    const raw = target.quoted || /['"\\]/.test(cursor.text.slice(start, cursor.at));
    parse.pendingBodies.push({ redirection, end: target.text, tabs: redirection.operator === "<<-", raw });
  }
  return true;
}

/** The here-documents announced on the line that just ended. */
function readBodies(parse: Parse): void {
  const { cursor } = parse;
  for (const { redirection, end, tabs, raw } of parse.pendingBodies) {
    const lines: string[] = [];
    let closed = false;
    while (cursor.at < cursor.text.length && !closed) {
      const feed = cursor.text.indexOf("\n", cursor.at);
      const whole = cursor.text.slice(cursor.at, feed === -1 ? cursor.text.length : feed);
      const line = tabs ? whole.replace(/^\t+/, "") : whole;
      cursor.at += whole.length + (feed === -1 ? 0 : 1);
      closed = line === end;
      if (!closed) lines.push(line);
    }
    redirection.body = lines.join("\n");
    if (!raw) parseSubstitutions(parse, readSubstitutions(redirection.body, cursor));
    if (!closed) cursor.unclear.push("a here-document has no end");
  }
  parse.pendingBodies = [];
}

function parseSubstitutions(parse: Parse, texts: readonly string[]): void {
  const { unclear, variables } = parse.cursor;
  for (const text of texts) {
    parseText(text, {
      cursor: { text, at: 0, unclear, variables },
      commands: parse.commands,
      substituted: true,
      depth: parse.depth + 1,
      pendingBodies: [],
    });
  }
}

/** Blanks, continued lines and comments. */
function skipBlanks(cursor: Cursor): void {
  // Sticky, not sliced: a slice for each word would make long text cost the square of its length.
  blanks.lastIndex = cursor.at;
  cursor.at += blanks.exec(cursor.text)?.[0].length ?? 0;
  // To the shell a carriage return is no blank, so that no comment begins behind it.
  if (cursor.text[cursor.at] !== "#" || cursor.text[cursor.at - 1] === "\r") return;
  const feed = cursor.text.indexOf("\n", cursor.at);
  cursor.at = feed === -1 ? cursor.text.length : feed;
}
