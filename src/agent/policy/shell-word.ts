/** Reads one word of shell text: quotes, escapes, expansions. Pure; the grammar of commands is in command-line.ts. */

export interface Word {
  /** The word without its quotes and escapes; where `dynamic`, only what is certain of it. */
  readonly text: string;
  /** Holds something that only running tells: a variable, a substitution, a brace expansion. */
  readonly dynamic: boolean;
  /** Holds an unquoted `*`, `?` or `[`. */
  readonly glob: boolean;
  /** Any part was quoted or escaped, so that it is no keyword. */
  readonly quoted: boolean;
  /** Text of the commands inside `$()`, backticks and `<()`. */
  readonly substitutions: readonly string[];
}

/** A word of which nothing is known. */
export const unknownWord: Word = { text: "", dynamic: true, glob: false, quoted: false, substitutions: [] };

/** The folder in which a pattern's last part looks; other words as they are. */
export function folderOfGlob({ glob, text }: Word): string {
  return glob ? text.slice(0, text.lastIndexOf("/") + 1) || "." : text;
}

/** A place in the text, moved by whoever reads. `unclear` collects what could not be understood. */
export interface Cursor {
  readonly text: string;
  at: number;
  readonly unclear: string[];
  /** Values of variables that are certain, such as HOME. */
  readonly variables: Readonly<Record<string, string>>;
}

interface Draft {
  text: string;
  dynamic: boolean;
  glob: boolean;
  quoted: boolean;
  substitutions: string[];
}

const endsWord = new Set([" ", "\t", "\n", "\r", ";", "&", "|", "(", ")", "<", ">"]);

/** The word at the cursor, which moves behind it; undefined where none starts. */
export function readWord(cursor: Cursor): Word | undefined {
  const draft: Draft = { text: "", dynamic: false, glob: false, quoted: false, substitutions: [] };
  const start = cursor.at;
  while (cursor.at < cursor.text.length) {
    const before = cursor.at;
    const letter = cursor.text[cursor.at] ?? "";
    if (isProcessSubstitution(cursor)) readProcessSubstitution(cursor, draft);
    else if (endsWord.has(letter)) break;
    else readPart(cursor, draft, letter);
    if (cursor.at === before) break;
  }
  if (cursor.at === start) return undefined;
  return expandTilde(draft, cursor, start);
}

/** Commands inside the expansions of a here-document's body. */
export function readSubstitutions(body: string, outer: Cursor): readonly string[] {
  const cursor: Cursor = { text: body, at: 0, unclear: outer.unclear, variables: outer.variables };
  const draft: Draft = { text: "", dynamic: false, glob: false, quoted: false, substitutions: [] };
  while (cursor.at < body.length) readQuotedPart(cursor, draft, body[cursor.at] ?? "");
  return draft.substitutions;
}

function readPart(cursor: Cursor, draft: Draft, letter: string): void {
  if (letter === "\\") return readEscape(cursor, draft);
  if (letter === "'") return readSingleQuotes(cursor, draft);
  if (letter === '"') return readDoubleQuotes(cursor, draft);
  if (letter === "$") return readDollar(cursor, draft);
  if (letter === "`") return readBackticks(cursor, draft);
  if (letter === "*" || letter === "?" || letter === "[") draft.glob = true;
  if (letter === "{" && /^\{[^\s{}]*(,|\.\.)/.test(cursor.text.slice(cursor.at, cursor.at + 200)))
    draft.dynamic = true;
  draft.text += letter;
  cursor.at += 1;
}

function readEscape(cursor: Cursor, draft: Draft): void {
  const next = cursor.text[cursor.at + 1] ?? "";
  cursor.at += 2;
  if (next === "\n") return;
  draft.text += next;
  draft.quoted = true;
}

function readSingleQuotes(cursor: Cursor, draft: Draft): void {
  const end = cursor.text.indexOf("'", cursor.at + 1);
  if (end === -1) return giveUp(cursor, "a quote is not closed");
  draft.text += cursor.text.slice(cursor.at + 1, end);
  draft.quoted = true;
  cursor.at = end + 1;
}

function readDoubleQuotes(cursor: Cursor, draft: Draft): void {
  draft.quoted = true;
  cursor.at += 1;
  while (cursor.at < cursor.text.length) {
    const letter = cursor.text[cursor.at] ?? "";
    if (letter === '"') {
      cursor.at += 1;
      return;
    }
    readQuotedPart(cursor, draft, letter);
  }
  giveUp(cursor, "a quote is not closed");
}

function readQuotedPart(cursor: Cursor, draft: Draft, letter: string): void {
  if (letter === "$") return readDollar(cursor, draft, true);
  if (letter === "`") return readBackticks(cursor, draft);
  const next = cursor.text[cursor.at + 1] ?? "";
  if (letter === "\\" && '$`"\\\n'.includes(next) && next !== "") return readEscape(cursor, draft);
  draft.text += letter;
  cursor.at += 1;
}

function readDollar(cursor: Cursor, draft: Draft, inQuotes = false): void {
  const rest = cursor.text.slice(cursor.at, cursor.at + 300);
  if (!inQuotes && rest.startsWith("$'")) return readAnsiQuotes(cursor, draft);
  if (!inQuotes && rest.startsWith('$"')) {
    cursor.at += 1;
    return readDoubleQuotes(cursor, draft);
  }
  if (rest.startsWith("$(")) return readBracketed(cursor, draft, rest.startsWith("$((") ? "$((" : "$(");
  const plain = /^\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})/.exec(rest);
  const name = plain?.[1] ?? plain?.[2];
  if (plain && name !== undefined && Object.hasOwn(cursor.variables, name)) {
    draft.text += cursor.variables[name] ?? "";
    cursor.at += plain[0].length;
    return;
  }
  if (rest.startsWith("${")) return readBracketed(cursor, draft, "${");
  const special = plain?.[0] ?? /^\$[0-9@*#?$!_-]/.exec(rest)?.[0];
  draft.dynamic ||= special !== undefined;
  if (special === undefined) draft.text += "$";
  cursor.at += special?.length ?? 1;
}

/** `$(...)`, `$((...))` and `${...}`: the first is analysed, and what the others hold is searched for the first. */
function readBracketed(cursor: Cursor, draft: Draft, opening: "$(" | "$((" | "${"): void {
  const isBrace = opening === "${";
  const end = findClosing(cursor.text, cursor.at + 1, isBrace ? "{}" : "()");
  if (end === -1) return giveUp(cursor, "an expansion is not closed");
  const inner = cursor.text.slice(cursor.at + 2, end);
  draft.dynamic = true;
  if (isBrace && inner.endsWith("@P")) cursor.unclear.push("an expansion runs what a variable holds");
  // `$((a); b)` is no arithmetic: its first bracket closes before the end.
  const isCommand = opening === "$((" && findClosing(inner, 0, "()") !== inner.length - 1;
  if (opening === "$(" || isCommand) draft.substitutions.push(inner);
  else draft.substitutions.push(...readSubstitutions(inner, cursor));
  cursor.at = end + 1;
}

function readBackticks(cursor: Cursor, draft: Draft): void {
  let end = cursor.at + 1;
  while (end < cursor.text.length && cursor.text[end] !== "`") end += cursor.text[end] === "\\" ? 2 : 1;
  if (end >= cursor.text.length) return giveUp(cursor, "a backtick is not closed");
  draft.substitutions.push(cursor.text.slice(cursor.at + 1, end).replace(/\\([`$\\])/g, "$1"));
  draft.dynamic = true;
  cursor.at = end + 1;
}

const ansiLetters: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  a: "\x07",
  b: "\b",
  e: "\x1b",
  f: "\f",
  v: "\v",
};

const ansiQuotes = /\$'([^'\\]*(?:\\[\s\S][^'\\]*)*)'/y;

function readAnsiQuotes(cursor: Cursor, draft: Draft): void {
  ansiQuotes.lastIndex = cursor.at;
  const body = ansiQuotes.exec(cursor.text);
  if (!body) return giveUp(cursor, "a quote is not closed");
  draft.quoted = true;
  const escape = /\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|([\s\S]))/g;
  draft.text += (body[1] ?? "").replace(escape, (_all, ...groups: (string | undefined)[]) => {
    const [hex, four, eight, octal, letter = ""] = groups;
    if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8) & 0xff);
    const code = hex ?? four ?? eight;
    if (code === undefined) return ansiLetters[letter] ?? letter;
    const point = Number.parseInt(code, 16);
    return point <= 0x10ffff ? String.fromCodePoint(point) : "";
  });
  cursor.at += body[0].length;
}

function isProcessSubstitution({ text, at }: Cursor): boolean {
  return (text[at] === "<" || text[at] === ">") && text[at + 1] === "(";
}

function readProcessSubstitution(cursor: Cursor, draft: Draft): void {
  const end = findClosing(cursor.text, cursor.at + 1, "()");
  if (end === -1) return giveUp(cursor, "a substitution is not closed");
  draft.substitutions.push(cursor.text.slice(cursor.at + 2, end));
  draft.dynamic = true;
  cursor.at = end + 1;
}

/** Index of the bracket that closes the one at `open`, quotes and escapes minded; -1 when there is none. */
function findClosing(text: string, open: number, pair: "()" | "{}"): number {
  let depth = 0;
  let bodies: string[] = [];
  for (let at = open; at < text.length; at += 1) {
    const letter = text[at];
    if (letter === "<" && pair === "()") {
      hereDocument.lastIndex = at;
      const document = hereDocument.exec(text);
      if (document) {
        bodies.push(document[2] ?? "");
        at += document[0].length - 1;
        continue;
      }
    }
    if (letter === "\n" && bodies.length > 0) {
      at = skipBodies(text, at, bodies);
      bodies = [];
      continue;
    }
    if (letter === "\\") at += 1;
    else if (letter === "'" || letter === '"') {
      at = closeQuote(text, at, letter);
      if (at === -1) return -1;
    } else if (letter === pair[0]) depth += 1;
    else if (letter === pair[1] && (depth -= 1) === 0) return at;
  }
  return -1;
}

const hereDocument = /(?<!<)<<-?[ \t]*(['"\\]?)([A-Za-z_]\w{0,60})['"]?/y;

/** The place of the line feed behind the here-documents that begin after the one at `feed`. */
function skipBodies(text: string, feed: number, ends: readonly string[]): number {
  let at = feed;
  for (const end of ends) {
    for (;;) {
      const next = text.indexOf("\n", at + 1);
      const line = text.slice(at + 1, next === -1 ? text.length : next);
      if (next === -1) return text.length;
      at = next;
      if (line.replace(/^\t+/, "") === end) break;
    }
  }
  return at - 1;
}

function closeQuote(text: string, open: number, quote: string): number {
  for (let at = open + 1; at < text.length; at += 1) {
    if (text[at] === "\\" && quote === '"') at += 1;
    else if (text[at] === quote) return at;
  }
  return -1;
}

function expandTilde(draft: Draft, cursor: Cursor, start: number): Word {
  const home = cursor.variables["HOME"];
  if (cursor.text[start] !== "~" || !/^~(\/|$)/.test(draft.text)) {
    // ~user and ~+ lead elsewhere.
    return cursor.text[start] === "~" ? { ...draft, dynamic: true } : draft;
  }
  return home === undefined ? { ...draft, dynamic: true } : { ...draft, text: home + draft.text.slice(1) };
}

function giveUp(cursor: Cursor, why: string): void {
  cursor.unclear.push(why);
  cursor.at = cursor.text.length;
}
