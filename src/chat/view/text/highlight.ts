/**
 * Colours code line by line: comments, strings, numbers and keywords. It knows families of languages, not their
 * grammars: what it does not recognise stays plain. Pure.
 */
import { span, type Role, type Span } from "./line.ts";

/** The state between the lines of a block: the end of the comment or string that is open. */
export interface CodeState {
  readonly language: string;
  readonly open?: { readonly until: string; readonly role: Role };
}

interface Family {
  readonly keywords: ReadonlySet<string>;
  /** Beginnings of comments up to the end of the line. */
  readonly line: readonly string[];
  /** Comments and strings of several lines. */
  readonly blocks: readonly { readonly from: string; readonly until: string; readonly role: Role }[];
  readonly quotes: string;
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));
const SLASHES = { line: ["//"], blocks: [{ from: "/*", until: "*/", role: "comment" as const }] };
const NO_BLOCKS = { line: ["#"], blocks: [] };

const SCRIPT: Family = {
  keywords: words(
    "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in instanceof interface keyof let namespace never new null number of private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined unknown using var void while yield",
  ),
  line: SLASHES.line,
  blocks: [...SLASHES.blocks, { from: "`", until: "`", role: "string" }],
  quotes: `"'`,
};

/** C, C++, Java, C#, Go, Rust, Kotlin, Swift, PHP and the like. */
const CURLY: Family = {
  keywords: words(
    "abstract as async auto await bool boolean break byte case catch chan char class const continue crate default defer delete do double dyn else enum extends extern fallthrough false final finally float fn for func fun go goto if impl implements import in init inline instanceof int interface internal is let long loop map match mod module move mut namespace new nil null nullptr object operator override package private protected protocol pub public range record ref return select self Self short signed sizeof static string struct super switch template this throw throws trait true try type typedef typename union unsafe unsigned use using val var virtual void volatile when where while yield",
  ),
  ...SLASHES,
  quotes: `"`,
};

const PYTHON: Family = {
  keywords: words(
    "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield",
  ),
  line: ["#"],
  blocks: [
    { from: '"""', until: '"""', role: "string" },
    { from: "'''", until: "'''", role: "string" },
  ],
  quotes: `"'`,
};

const SHELL: Family = {
  keywords: words(
    "case cd do done echo elif else esac exit export fi for function if in local read return set shift source then unset until while",
  ),
  ...NO_BLOCKS,
  quotes: `"'`,
};

const RUBY: Family = {
  keywords: words(
    "BEGIN END alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo require rescue retry return self super then true undef unless until when while yield",
  ),
  ...NO_BLOCKS,
  quotes: `"'`,
};

const SQL: Family = {
  keywords: words(
    "add all alter and as asc begin between by case check commit constraint create cross default delete desc distinct drop else end exists false foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then true union unique update using values view when where with",
  ),
  line: ["--"],
  blocks: SLASHES.blocks,
  quotes: `'"`,
};

/** JSON, YAML, TOML and other configuration. */
const DATA: Family = { keywords: words("true false null yes no on off"), ...NO_BLOCKS, quotes: `"'` };

const MARKUP: Family = {
  keywords: words(""),
  line: [],
  blocks: [{ from: "<!--", until: "-->", role: "comment" }],
  quotes: `"`,
};

const FAMILIES: Readonly<Record<string, Family>> = Object.fromEntries(
  (
    [
      ["js javascript jsx mjs cjs ts typescript tsx mts deno node", SCRIPT],
      [
        "c h cpp c++ cc cs csharp java go golang rust rs kotlin kt swift scala php dart zig proto css scss",
        CURLY,
      ],
      ["py python python3", PYTHON],
      ["sh bash zsh shell fish console dockerfile makefile make", SHELL],
      ["rb ruby elixir ex perl pl r lua", RUBY],
      ["sql postgres postgresql sqlite mysql", SQL],
      ["json jsonc json5 yaml yml toml ini env conf", DATA],
      ["html xml svg vue", MARKUP],
    ] as const
  ).flatMap(([names, family]) => names.split(" ").map((name) => [name, family])),
);

/** Longer lines stay plain, which bounds the search. */
const MAX_CHARACTERS = 2_000;

/** Returns the language of a fence's label: `ts`, `ts title="a.ts"`, `{.python}`. */
export function languageOf(label: string): string {
  return /[\w+#-]+/.exec(label.toLowerCase())?.[0] ?? "";
}

/** Returns one line of code as spans, and the state for the next line. */
export function highlightLine(
  source: string,
  state: CodeState,
): { readonly spans: readonly Span[]; readonly state: CodeState } {
  const { language } = state;
  if (language === "diff" || language === "patch") return { spans: [diffSpan(source)], state };
  const family = FAMILIES[language];
  if (family === undefined || source.length > MAX_CHARACTERS) return { spans: [span(source, "code")], state };
  const spans: Span[] = [];
  let open = state.open;
  let at = 0;
  while (at < source.length) {
    if (open !== undefined) {
      const end = source.indexOf(open.until, at);
      const next = end === -1 ? source.length : end + open.until.length;
      spans.push(span(source.slice(at, next), open.role));
      at = next;
      if (end === -1) break;
      open = undefined;
      continue;
    }
    const token = tokenAt(source, at, family);
    if (token.opens !== undefined) {
      const { from, role } = token.opens;
      open = token.opens;
      spans.push(span(from, role));
      at += from.length;
      continue;
    }
    spans.push(span(token.text, token.role));
    at += token.text.length;
  }
  return { spans, state: open === undefined ? { language } : { language, open } };
}

interface Token {
  readonly text: string;
  readonly role: Role;
  readonly opens?: Family["blocks"][number];
}

const WORD = /[\p{L}_$][\p{L}\p{N}_$]*/uy;
const NUMBER = /(?:0[xob][\da-f_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\w*/iy;

function tokenAt(source: string, at: number, family: Family): Token {
  const opens = family.blocks.find(({ from }) => source.startsWith(from, at));
  if (opens !== undefined) return { text: "", role: opens.role, opens };
  const isComment = family.line.some((mark) => source.startsWith(mark, at));
  // A # inside a word, such as in a URL or $#, begins no comment.
  const isFree = at === 0 || /\s/.test(source[at - 1] ?? "");
  if (isComment && (source[at] !== "#" || isFree)) return { text: source.slice(at), role: "comment" };
  const first = source[at] ?? "";
  if (family.quotes.includes(first)) return { text: stringAt(source, at), role: "string" };
  const word = match(WORD, source, at);
  if (word !== undefined) {
    const name = family === SQL ? word.toLowerCase() : word;
    return { text: word, role: family.keywords.has(name) ? "keyword" : "plain" };
  }
  const number = match(NUMBER, source, at);
  return number === undefined ? { text: first, role: "plain" } : { text: number, role: "number" };
}

/** Returns the string that begins here, up to its closing quote or the end of the line. */
function stringAt(source: string, at: number): string {
  const quote = source[at];
  for (let end = at + 1; end < source.length; end++) {
    if (source[end] === "\\") end++;
    else if (source[end] === quote) return source.slice(at, end + 1);
  }
  return source.slice(at);
}

function match(pattern: RegExp, source: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0];
}

function diffSpan(source: string): Span {
  if (source.startsWith("+")) return span(source, "added");
  if (source.startsWith("-")) return span(source, "removed");
  return span(source, source.startsWith("@@") ? "accent" : "plain");
}
