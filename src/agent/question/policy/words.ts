/**
 * The possible expansions of a command's words. Parts that are only known at run time are written as marks, so that a
 * word stays one string of constant text and marks. Pure.
 */
import {
  parse,
  type BraceExpansionPart,
  type ParameterExpansionPart,
  type Word,
  type WordPart,
} from "unbash";

/** Digits, dates and similar text: neither an important file nor an option. */
export const PLAIN = "\uE000";
/** A pattern's match: part of one name, without a leading dot. */
export const NAME = "\uE001";
/** Any path inside a folder, including hidden ones. */
export const BELOW = "\uE002";
/** Anything at all, including several words or none. */
export const ANY = "\uE003";

const marks = /[\uE000-\uE003]/;

/** Returns whether the text is fully known before run time. */
export const isConstant = (field: string): boolean => !marks.test(field);
export const hasAny = (field: string): boolean => field.includes(ANY);

/** One possible expansion of a word, as words in order. */
export type Fields = readonly string[];

/** Output of a command: a text, or names of which only the form is known. */
export type Output = { readonly text: string } | { readonly names: readonly string[] };

/** Resolves the references in words. */
export interface Scope {
  /** Returns every possible value of a variable or parameter. */
  values(name: string): readonly string[];
  /** Returns the elements of an array, or the parameters for `@`; undefined when unknown. */
  elements(name: string): readonly string[] | undefined;
  output(script: Extract<WordPart, { type: "CommandExpansion" }>["script"]): Output;
  readonly home: string;
  /** The possible folders of the shell. */
  readonly folders: readonly string[];
}

const MAX_ALTERNATIVES = 32;
const MAX_FIELDS = 256;
const MAX_BRACES = 64;
const MAX_BRACE_PAIRS = 8;
const UNKNOWN: readonly Fields[] = [[ANY]];

/** Returns every possible expansion of `word`, at most {@link MAX_ALTERNATIVES}; beyond that, anything. */
export function expandWord(
  word: Word,
  scope: Scope,
  { isAssigned = false }: { readonly isAssigned?: boolean } = {},
): readonly Fields[] {
  const { parts, text } = word;
  if (parts === undefined) return [[tilde(word.value, text, scope)]];
  if (parts.some(({ type }) => type === "BraceExpansion") && !isAssigned)
    return expandBraces(word, parts, scope);
  let drafts: readonly Draft[] = [EMPTY];
  // A URL is not a pattern: no file has such a name.
  const isAddress = /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  for (const [index, part] of parts.entries()) {
    const pieces = isAddress && isGlob(part) ? [{ text: part.text }] : expandPart(part, scope, isAssigned);
    const first = index === 0 && part.type === "Literal";
    drafts = drafts.flatMap((draft) =>
      pieces.map((piece) =>
        add(draft, first ? { ...piece, text: tilde(piece.text, part.text, scope) } : piece),
      ),
    );
    if (drafts.length > MAX_ALTERNATIVES) return UNKNOWN;
  }
  const alternatives = drafts.map(({ done, open }) => (open === undefined ? done : [...done, open]));
  return alternatives.some((fields) => fields.length > MAX_FIELDS) ? UNKNOWN : alternatives;
}

/** Returns every possible value of `word` where it stays one word, as after `=`. */
export function valuesOf(word: Word, scope: Scope): readonly string[] {
  return expandWord(word, scope, { isAssigned: true }).map((fields) =>
    fields.length > 1 ? ANY : (fields[0] ?? ""),
  );
}

/** Expands the text of a here-document, or another text in which only expansions count. */
export function expandText(parts: readonly WordPart[] | undefined, text: string, scope: Scope): string {
  if (parts === undefined) return text;
  return parts
    .map((part) => {
      const pieces = expandPart(part, scope, true);
      return pieces.length === 1 ? (pieces[0]?.text ?? "") : ANY;
    })
    .join("");
}

/** Returns every combination of the words' alternatives. Beyond the limit the words that differ become anything. */
export function combined(words: readonly (readonly Fields[])[]): readonly Fields[] {
  const count = words.reduce((product, alternatives) => product * alternatives.length, 1);
  const bounded =
    count <= MAX_ALTERNATIVES ? words : words.map((each) => (each.length === 1 ? each : [[ANY]]));
  // The number of a combination encodes the alternative of each word.
  return Array.from({ length: count <= MAX_ALTERNATIVES ? count : 1 }, (_, list) => {
    let rest = list;
    return bounded.flatMap((alternatives) => {
      const chosen = alternatives[rest % alternatives.length] ?? [];
      rest = Math.floor(rest / alternatives.length);
      return chosen;
    });
  });
}

/** Returns whether a pattern with marks may match a name. */
export function nameMatches(pattern: string, name: string): boolean {
  if (pattern.includes(BELOW)) return true;
  if (!pattern.includes(NAME)) return pattern === name;
  if (pattern.startsWith(NAME) && name.startsWith(".")) return false;
  const pieces = pattern.split(new RegExp(`${NAME}+`));
  const [first = "", last = ""] = [pieces[0], pieces.at(-1)];
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length)
    return false;
  let at = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const found = name.indexOf(piece, at);
    if (found === -1) return false;
    at = found + piece.length;
  }
  return at <= name.length - last.length;
}

/** Complete words, and the word under construction. */
interface Draft {
  readonly done: Fields;
  readonly open: string | undefined;
}

const EMPTY: Draft = { done: [], open: undefined };

/** One possible value of a part of a word. `rest` are further words. */
interface Piece {
  readonly text: string;
  readonly rest?: Fields;
  /** True when an empty text makes no word. */
  readonly isBare?: boolean;
  /** True when the previous word ends here. */
  readonly splits?: boolean;
}

function add({ done, open }: Draft, { text, rest = [], isBare = false, splits = false }: Piece): Draft {
  if (isBare && text === "" && rest.length === 0) return { done, open };
  const closed = splits && open !== undefined ? [...done, open] : done;
  const joined = splits || open === undefined ? text : open + text;
  if (rest.length === 0) return { done: closed, open: joined };
  const head = isBare && joined === "" ? [] : [joined];
  return { done: [...closed, ...head, ...rest.slice(0, -1)], open: rest.at(-1) };
}

const isGlob = (part: WordPart): boolean => part.type === "Glob" || part.type === "ExtendedGlob";

function tilde(value: string, text: string, { home, folders }: Scope): string {
  if (!text.startsWith("~")) return value;
  if (/^~(\/|$)/.test(text)) return home + value.slice(1);
  const isHere = /^~\+(\/|$)/.test(text) && folders.length === 1;
  return isHere
    ? (folders[0] ?? "") + value.slice(2)
    : `${ANY}${value.includes("/") ? value.slice(value.indexOf("/")) : ""}`;
}

function expandPart(part: WordPart, scope: Scope, isQuoted: boolean): readonly Piece[] {
  switch (part.type) {
    case "Literal":
    case "SingleQuoted":
    case "AnsiCQuoted":
      return [{ text: part.value }];
    case "Glob":
    case "ExtendedGlob":
      return [{ text: isQuoted ? part.text : NAME }];
    case "DoubleQuoted":
    case "LocaleString":
      return expandQuoted(part.parts, scope);
    case "SimpleExpansion":
      return isQuoted ? quoted(part.text.slice(1), scope) : bare(part.text.slice(1), scope);
    case "ParameterExpansion":
      return expandParameter(part, scope, isQuoted);
    case "CommandExpansion":
      return printed(scope.output(part.script), isQuoted);
    case "ArithmeticExpansion":
      return [{ text: PLAIN }];
    case "ProcessSubstitution":
      return [{ text: "/dev/fd/63" }];
    case "BraceExpansion":
      return [{ text: part.text }];
  }
}

/** A quoted text is one word; only `"$@"` makes several. */
function expandQuoted(parts: readonly WordPart[], scope: Scope): readonly Piece[] {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined && isList(only)) return listOf(nameOf(only), scope);
  let texts: readonly string[] = [""];
  for (const part of parts) {
    const pieces = expandPart(part, scope, true);
    texts = texts.flatMap((text) => pieces.map((piece) => text + (piece.rest ? ANY : piece.text)));
    if (texts.length > MAX_ALTERNATIVES) return [{ text: ANY }];
  }
  return texts.map((text) => ({ text }));
}

const isList = (part: WordPart): boolean =>
  (part.type === "SimpleExpansion" && /^\$[@*]$/.test(part.text)) ||
  (part.type === "ParameterExpansion" &&
    part.prefix === undefined &&
    part.operation === undefined &&
    (/^[@*]$/.test(part.index?.text ?? "") || /^[@*]$/.test(part.parameter)));

function nameOf(part: WordPart): string {
  if (part.type !== "ParameterExpansion") return part.text.slice(1);
  return part.parameter;
}

function listOf(name: string, scope: Scope): readonly Piece[] {
  const elements = scope.elements(name);
  if (elements === undefined) return [{ text: ANY }];
  const [text, ...rest] = elements;
  return [text === undefined ? { text: "", isBare: true } : { text, rest }];
}

const quoted = (name: string, scope: Scope): readonly Piece[] => scope.values(name).map((text) => ({ text }));
const bare = (name: string, scope: Scope): readonly Piece[] =>
  /^[@*]$/.test(name) ? listOf(name, scope) : scope.values(name).map(split);

/** Splits the value of an unquoted variable like the shell: into words, whose patterns are expanded. */
function split(value: string): Piece {
  const pieces = value.split(/[ \t\n]+/).map((piece) => piece.replace(/[*?]|\[[^\]]*\]/g, NAME));
  if (pieces.length === 1) return { text: pieces[0] ?? "", isBare: true };
  // After an empty last piece, the next part of the word begins another word.
  const words = pieces.filter((piece, index) => piece !== "" || index === 0 || index === pieces.length - 1);
  const [text = "", ...rest] = words;
  return { text, rest, isBare: true, ...(/^\s/.test(value) ? { splits: true } : {}) };
}

function printed(output: Output, isQuoted: boolean): readonly Piece[] {
  if ("text" in output) {
    const text = output.text.replace(/\n+$/, "");
    return [isQuoted ? { text } : split(text)];
  }
  if (isQuoted)
    return [
      { text: output.names.length === 1 && isSingle(output.names[0] ?? "") ? (output.names[0] ?? "") : ANY },
    ];
  const [text = ANY, ...rest] = output.names;
  return [{ text, rest }];
}

/** Numbers and similar values are single; names may be several. */
const isSingle = (name: string): boolean => !name.includes(NAME) && !name.includes(BELOW);

function expandParameter(part: ParameterExpansionPart, scope: Scope, isQuoted: boolean): readonly Piece[] {
  const { operation, prefix, parameter, index } = part;
  if (prefix === "#") return [{ text: PLAIN }];
  if (prefix === "!") return [{ text: ANY }];
  if (operation === undefined) {
    if (isList(part)) return listOf(nameOf(part), scope);
    return index === undefined && isQuoted ? quoted(parameter, scope) : bare(parameter, scope);
  }
  const own = scope.values(parameter);
  const values = [...new Set(resultsOf(operation, own, scope))];
  if (values.length > MAX_ALTERNATIVES) return [{ text: ANY }];
  return values.map((value) => (isQuoted ? { text: value } : split(value)));
}

type Operation = NonNullable<ParameterExpansionPart["operation"]>;

function resultsOf(operation: Operation, own: readonly string[], scope: Scope): readonly string[] {
  switch (operation.type) {
    case "Default": {
      const other = valuesOf(operation.operand, scope);
      return operation.operator.includes("+") ? ["", ...other] : [...own, ...other];
    }
    case "Remove": {
      const [pattern = ANY, ...more] = valuesOf(operation.operand, scope);
      if (more.length > 0 || !isConstant(pattern) || /[*?[\]/\\]/.test(operation.operand.text)) return [ANY];
      return own.map((value) => without(value, pattern, operation.operator));
    }
    default:
      return [ANY];
  }
}

/** Removes a constant suffix or prefix without slash from a value. */
function without(value: string, pattern: string, operator: string): string {
  const isEnding = operator.startsWith("%");
  if (isConstant(value)) {
    if (isEnding) return value.endsWith(pattern) ? value.slice(0, value.length - pattern.length) : value;
    return value.startsWith(pattern) ? value.slice(pattern.length) : value;
  }
  if (!isEnding || hasAny(value)) return ANY;
  // A pattern's name without its end still has no leading dot.
  const name = value.slice(value.lastIndexOf("/") + 1);
  return name.startsWith(NAME) ? value.slice(0, value.length - name.length) + NAME : ANY;
}

function expandBraces(word: Word, parts: readonly WordPart[], scope: Scope): readonly Fields[] {
  const at = parts.findIndex(({ type }) => type === "BraceExpansion");
  const brace = parts[at] as BraceExpansionPart;
  const choices = word.text.split("{").length > MAX_BRACE_PAIRS ? undefined : choicesOf(brace.text);
  if (choices === undefined) return UNKNOWN;
  const before = parts
    .slice(0, at)
    .map(({ text }) => text)
    .join("");
  const after = parts
    .slice(at + 1)
    .map(({ text }) => text)
    .join("");
  const fields: string[] = [];
  for (const choice of choices) {
    const [made] = parse(`: ${before}${choice}${after}`).commands;
    const command = made?.command.type === "Command" ? made.command : undefined;
    const [argument, ...others] = command?.args ?? [];
    if (argument?.type !== "Word" || others.length > 0) return UNKNOWN;
    const alternatives = expandWord(argument, scope);
    if (alternatives === UNKNOWN || alternatives.length > 1 || fields.length > MAX_BRACES) return UNKNOWN;
    fields.push(...(alternatives[0] ?? []));
  }
  return [fields];
}

/** Returns the alternatives between the braces; undefined for content that is not supported. */
function choicesOf(text: string): readonly string[] | undefined {
  const inner = text.slice(1, -1);
  const row = /^(-?\d+|[a-zA-Z])\.\.(-?\d+|[a-zA-Z])(\.\.-?\d+)?$/.exec(inner);
  if (row) return /\d/.test(row[1] ?? "") ? [PLAIN] : undefined;
  if (/[$`'"\\]/.test(inner)) return undefined;
  const choices: string[] = [];
  let [depth, start] = [0, 0];
  for (let index = 0; index <= inner.length; index += 1) {
    const letter = inner[index];
    if (letter === "{") depth += 1;
    if (letter === "}") depth -= 1;
    if (index < inner.length && (letter !== "," || depth > 0)) continue;
    choices.push(inner.slice(start, index));
    start = index + 1;
    if (choices.length > MAX_BRACES) return undefined;
  }
  return choices;
}
