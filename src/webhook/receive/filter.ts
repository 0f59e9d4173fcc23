import { RE2JS } from "re2js";
import { isRecord, isExactNumber } from "../../base/data.ts";
import { fieldOf, MISSING, type WebhookSubject, jsonExcerpt } from "./template.ts";
import type { ExactNumber } from "../../base/data.ts";
import { redact } from "../../base/observe.ts";
import { shorten } from "../../base/text.ts";

export interface FilterPorts {
  /** Returns the values that a file lists; undefined when it cannot be read. */
  readonly valuesIn: (path: string) => readonly unknown[] | undefined;
  /** Reports what keeps an entry from ever matching. */
  readonly warn: (problem: string) => void;
}

/** A test of a field, or a combination of other entries. */
type Entry = Readonly<Record<string, unknown>>;

const OPERATORS = [
  "exists",
  "missing",
  "equals",
  "not_equals",
  "contains",
  "in",
  "in_file",
  "regex",
] as const;
const COMBINATORS = ["all", "any", "not"] as const;
type Operator = (typeof OPERATORS)[number];
type Clause = Operator | (typeof COMBINATORS)[number];
const CLAUSES: readonly Clause[] = [...COMBINATORS, ...OPERATORS];
/** Keys of an entry besides its clause; the description is for people. */
const OTHER_KEYS = ["field", "description"];

/** Depth of entries inside entries. */
const MAX_DEPTH = 16;
const MAX_ENTRIES = 200;

/** Returns the problems of a route's filters, one clause each; an empty list when they are usable. */
export function checkFilters(filters: unknown): readonly string[] {
  const entries = entriesOf(filters);
  if (entries === undefined) return ["filters must be a list"];
  if (entries.length > MAX_ENTRIES) return [`filters may have ${MAX_ENTRIES} entries`];
  return entries.flatMap((entry, index) => findProblems(entry, `filters[${index}]`, 0));
}

/** Whether every entry matches. No entries match everything; an entry with a problem matches nothing. */
export function passesFilters(filters: unknown, subject: WebhookSubject, ports: FilterPorts): boolean {
  const entries = entriesOf(filters);
  if (!entries) {
    ports.warn("filters must be a list");
    return false;
  }
  return every(entries, (entry) => matchEntry(entry, { subject, ports, depth: 0 })) === true;
}

/** Texts longer than this are cut: a person wants the value, not the payload. */
const MAX_SHOWN_CHARACTERS = 100;
const MAX_READ_CHARACTERS = 1_000;

/**
 * Returns which entry keeps filters from passing, in words: its place, field and operator, and the value of the field.
 * Undefined when they pass. The values of headers are left out, because they may be credentials.
 */
export function explainFilters(
  filters: unknown,
  subject: WebhookSubject,
  ports: Pick<FilterPorts, "valuesIn">,
): string | undefined {
  const context = { subject, ports: { ...ports, warn: () => {} }, depth: 0 };
  const entries = entriesOf(filters);
  if (!entries) return "filters must be a list";
  const at = entries.findIndex((entry) => matchEntry(entry, context) !== true);
  return at === -1 ? undefined : explainEntry(entries[at], `filters[${at}]`, context);
}

function explainEntry(entry: unknown, where: string, context: Context): string {
  const inner = { ...context, depth: context.depth + 1 };
  const clauses = isRecord(entry) && context.depth <= MAX_DEPTH ? clausesOf(entry) : [];
  const clause = clauses.find((each) => matchClause(each, entry as Entry, context) !== true);
  if (!isRecord(entry) || clause === undefined) return `${where} has no operator`;
  const problem = clauseProblem(clause, entry);
  if (problem !== undefined) return `${where}.${clause} ${problem}`;
  const operand = entry[clause];
  if (clause === "any") return `${where}.any: none of its entries matches`;
  if (clause === "not") return `${where}.not: its entry matches, or is invalid`;
  if (clause === "all") {
    const nested = operand as readonly unknown[];
    const at = nested.findIndex((each) => matchEntry(each, inner) !== true);
    return explainEntry(nested[at], `${where}.all[${at}]`, inner);
  }
  const field = entry["field"] as string;
  const value = fieldOf(context.subject, field);
  const isHeader = /^\.*headers(\.|$)/.test(field);
  const wanted = clause === "missing" || isHeader ? clause : `${clause} ${shown(operand)}`;
  const found = value === MISSING ? "missing" : isHeader ? "another value" : shown(value);
  return `${where}: ${field} ${wanted}, but it is ${found}`;
}

/** Redacts before it cuts: half a secret is not recognized. */
function shown(value: unknown): string {
  const text = redact(jsonExcerpt(value, MAX_READ_CHARACTERS)).replaceAll(/\s+/g, " ");
  return shorten(text, MAX_SHOWN_CHARACTERS);
}

/** Returns the files that the result of {@link passesFilters} may depend on. */
export function filterFiles(filters: unknown, depth = 0): readonly string[] {
  const entries = depth > MAX_DEPTH ? [] : (entriesOf(filters) ?? []).filter(isRecord);
  return entries.flatMap(({ in_file: file, all, any, not }) => [
    ...(typeof file === "string" ? [file] : []),
    ...[all, any, not].flatMap((nested) => filterFiles(nested, depth + 1)),
  ]);
}

/** Undefined: the entry has a problem. Neither it nor its negation matches. */
type Match = boolean | undefined;

interface Context {
  readonly subject: WebhookSubject;
  readonly ports: FilterPorts;
  readonly depth: number;
}

function matchEntry(entry: unknown, context: Context): Match {
  const clauses = isRecord(entry) && context.depth <= MAX_DEPTH ? clausesOf(entry) : [];
  if (!isRecord(entry) || clauses.length === 0) {
    context.ports.warn("a filter has no operator");
    return undefined;
  }
  return every(clauses, (clause) => matchClause(clause, entry, context));
}

function matchClause(clause: Clause, entry: Entry, context: Context): Match {
  const { subject, ports } = context;
  const operand = entry[clause];
  const problem = clauseProblem(clause, entry);
  if (problem !== undefined) {
    ports.warn(`${clause} ${problem}`);
    return undefined;
  }
  const nested = (each: unknown) => matchEntry(each, { ...context, depth: context.depth + 1 });
  if (clause === "all") return every(operand as readonly unknown[], nested);
  if (clause === "any") return some(operand as readonly unknown[], nested);
  if (clause === "not") return negate(nested(operand));
  return TESTS[clause](fieldOf(subject, entry["field"] as string), operand, ports);
}

type Test = (value: unknown, operand: unknown, ports: FilterPorts) => Match;

/** {@link clauseProblem} has checked the operands. */
const TESTS: Readonly<Record<Operator, Test>> = {
  exists: (value, operand) => (value !== MISSING) === operand,
  missing: (value) => value === MISSING,
  equals: (value, operand) => value !== MISSING && isSameJson(value, operand),
  not_equals: (value, operand) => value === MISSING || !isSameJson(value, operand),
  contains: (value, operand) => {
    if (value === MISSING) return false;
    if (Array.isArray(value)) return isMember(value, operand);
    if (isRecord(value) && !isExactNumber(value)) return Object.hasOwn(value, textOf(operand));
    return textOf(value).includes(textOf(operand));
  },
  in: (value, operand) => value !== MISSING && isMember(operand as readonly unknown[], value),
  in_file: (value, operand, ports) => {
    const values = ports.valuesIn(operand as string);
    if (values === undefined) ports.warn(`in_file names ${JSON.stringify(operand)}, which cannot be read`);
    return value !== MISSING && values !== undefined && isMember(values, value);
  },
  regex: (value, operand, ports) => {
    if (value === MISSING) return false;
    const isFound = patternOf(operand)?.(textOf(value));
    if (isFound === undefined) ports.warn(`regex ${JSON.stringify(operand)}: the text is too long for it`);
    return isFound;
  },
};

function findProblems(entry: unknown, where: string, depth: number): readonly string[] {
  if (!isRecord(entry)) return [`${where} must be an object`];
  if (depth > MAX_DEPTH) return [`${where} is nested too deeply; the limit is ${MAX_DEPTH}`];
  const known = `the operators are: ${[...OPERATORS, ...COMBINATORS].join(", ")}`;
  const unknown = Object.keys(entry).find((name) => !isClause(name) && !OTHER_KEYS.includes(name));
  if (unknown !== undefined)
    return [`${where} has the unknown operator ${JSON.stringify(unknown)}; ${known}`];
  const [clause, second] = clausesOf(entry);
  if (clause === undefined) return [`${where} has no operator; ${known}`];
  if (second !== undefined) return [`${where} has more than one operator: ${clause}, ${second}`];
  const problem = clauseProblem(clause, entry);
  if (problem !== undefined) return [`${where}.${clause} ${problem}`];
  const value = entry[clause];
  if (clause === "not") return findProblems(value, `${where}.not`, depth + 1);
  if (clause !== "all" && clause !== "any") return [];
  const nested = value as readonly unknown[];
  return nested.flatMap((each, index) => findProblems(each, `${where}.${clause}[${index}]`, depth + 1));
}

/** Returns the problem of a clause, without those of nested entries. */
function clauseProblem(clause: Clause, entry: Entry): string | undefined {
  const value = entry[clause];
  switch (clause) {
    case "all":
    case "any":
      return Array.isArray(value) && value.length <= MAX_ENTRIES
        ? undefined
        : `must be a list of at most ${MAX_ENTRIES} entries`;
    case "not":
      return isRecord(value) ? undefined : "must be one entry";
    default:
      return typeof entry["field"] === "string" && entry["field"] !== ""
        ? operandProblem(clause, value)
        : "needs a field";
  }
}

function operandProblem(operator: Operator, value: unknown): string | undefined {
  switch (operator) {
    case "exists":
      return typeof value === "boolean" ? undefined : "must be true or false";
    case "missing":
      return value === true ? undefined : "must be true; for its opposite use exists";
    case "in":
      return Array.isArray(value) ? undefined : "must be a list";
    case "in_file":
      return typeof value === "string" && value !== "" ? undefined : "must be the path of a file";
    case "regex":
      return patternOf(value) ? undefined : "is not a valid pattern (RE2 syntax), or is too large";
    default:
      return undefined;
  }
}

/** False when one item is false; otherwise undefined when one is undefined. */
function every<T>(items: readonly T[], match: (item: T) => Match): Match {
  let all: Match = true;
  for (const item of items) {
    const result = match(item);
    if (result === false) return false;
    if (result === undefined) all = undefined;
  }
  return all;
}

function some<T>(items: readonly T[], match: (item: T) => Match): Match {
  return negate(every(items, (item) => negate(match(item))));
}

function negate(match: Match): Match {
  return match === undefined ? undefined : !match;
}

function clausesOf(entry: Entry): readonly Clause[] {
  return CLAUSES.filter((name) => Object.hasOwn(entry, name));
}

function isClause(name: string): name is Clause {
  return CLAUSES.some((clause) => clause === name);
}

function entriesOf(filters: unknown): readonly unknown[] | undefined {
  if (filters === undefined || filters === null) return [];
  if (Array.isArray(filters)) return filters;
  return isRecord(filters) ? [filters] : undefined;
}

function isMember(list: readonly unknown[], value: unknown): boolean {
  return list.some((each) => isSameJson(each, value));
}

/** Returns a value as the text that patterns see: objects and lists as JSON with sorted names. */
function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return JSON.stringify(sorted(value)) ?? "null";
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null || isExactNumber(value)) return value;
  const names = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(names.map(([name, each]) => [name, sorted(each)]));
}

/**
 * Whether two JSON values are equal: types count, the order of names does not. An exact number equals a JavaScript number
 * when both convert to the same double.
 */
export function isSameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (isExactNumber(a)) return isExactNumber(b) ? isSameNumber(a, b) : Number(a.rawJSON) === b;
  if (isExactNumber(b)) return a === Number(b.rawJSON);
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every(
    (name) => Object.hasOwn(b, name) && isSameJson(a[name as keyof typeof a], b[name as keyof typeof b]),
  );
}

/** 1.0 and 1.00 are the same; two integers beyond 2^53 are when they have the same digits. */
function isSameNumber(a: ExactNumber, b: ExactNumber): boolean {
  const [one, other] = [Number(a.rawJSON), Number(b.rawJSON)];
  const isHeld = Number.isFinite(one) && (!Number.isInteger(one) || Number.isSafeInteger(one));
  return a.rawJSON === b.rawJSON || (isHeld && one === other);
}

/** Whether a text contains a match, in linear time. Undefined: the text is too long. */
export type Pattern = (text: string) => boolean | undefined;

const MAX_PATTERN_CHARACTERS = 1_000;
/** Steps of a compiled pattern; a repetition counts once for each time it may repeat. */
const MAX_STEPS = 1_000;
/**
 * Steps times characters of one match: a few tenths of a second at worst. Searching only a part could miss the match.
 */
const MAX_WORK = 2_000_000;
/** A pattern this small compiles to few states and searches a megabyte quickly. */
const FEW_STEPS = 12;
const MAX_CACHED_PATTERNS = 1_000;

const patterns = new Map<string, Pattern | undefined>();

/** Returns a pattern in RE2 syntax, from a cache. Undefined when it is invalid or too large. */
export function patternOf(source: unknown): Pattern | undefined {
  if (typeof source !== "string" || source.length > MAX_PATTERN_CHARACTERS) return undefined;
  if (!patterns.has(source)) {
    const [oldest] = patterns.size >= MAX_CACHED_PATTERNS ? patterns.keys() : [];
    if (oldest !== undefined) patterns.delete(oldest);
    patterns.set(source, compile(source));
  }
  return patterns.get(source);
}

function compile(source: string): Pattern | undefined {
  try {
    const pattern = RE2JS.compile(source);
    const steps = pattern.programSize();
    if (steps > MAX_STEPS) return undefined;
    const max = steps <= FEW_STEPS ? Number.POSITIVE_INFINITY : MAX_WORK / steps;
    // `find` would track groups that nothing reads, and take a hundred times as long.
    return (text) => (text.length > max ? undefined : pattern.test(text));
  } catch {
    return undefined;
  }
}
