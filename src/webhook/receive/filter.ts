/** Whether a request is one that a route wants. Pure, but for the lists in files, which the caller reads. */
import { isRecord } from "../../base/json/schema.ts";
import { isExactNumber } from "../../base/json/exact-json.ts";
import { fieldOf, MISSING, type WebhookSubject } from "./field.ts";
import { patternOf } from "../routes/pattern.ts";
import { isSameJson } from "./same.ts";

export interface FilterPorts {
  /** The values that a file lists; undefined when it cannot be read. */
  readonly valuesIn: (path: string) => readonly unknown[] | undefined;
  /** Told of what keeps an entry from ever matching. */
  readonly warn: (problem: string) => void;
}

/** A test of a field, or a combination of others. */
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
/** What an entry may have besides its clause; the description is for people. */
const BESIDE = ["field", "description"];

/** Entries inside entries. */
const MAX_DEPTH = 16;
const MAX_ENTRIES = 200;

/** What is wrong with the filters of a route, a clause each; none when they can be used. */
export function checkFilters(filters: unknown): readonly string[] {
  const entries = entriesOf(filters);
  if (entries === undefined) return ["filters must be a list"];
  if (entries.length > MAX_ENTRIES) return [`filters may have ${MAX_ENTRIES} entries`];
  return entries.flatMap((entry, index) => findProblems(entry, `filters[${index}]`, 0));
}

/** True when every entry matches; without entries everything does. What {@link checkFilters} complains of never matches. */
export function passesFilters(filters: unknown, subject: WebhookSubject, ports: FilterPorts): boolean {
  const entries = entriesOf(filters);
  if (!entries) {
    ports.warn("filters must be a list");
    return false;
  }
  return every(entries, (entry) => verdictOf(entry, { subject, ports, depth: 0 })) === true;
}

/** The files whose lists an answer of {@link passesFilters} may depend on. */
export function filterFiles(filters: unknown, depth = 0): readonly string[] {
  const entries = depth > MAX_DEPTH ? [] : (entriesOf(filters) ?? []).filter(isRecord);
  return entries.flatMap(({ in_file: file, all, any, not }) => [
    ...(typeof file === "string" ? [file] : []),
    ...[all, any, not].flatMap((nested) => filterFiles(nested, depth + 1)),
  ]);
}

/** Undefined: there is a flaw, and nobody can say. Its opposite is no match, either. */
type Verdict = boolean | undefined;

interface Judging {
  readonly subject: WebhookSubject;
  readonly ports: FilterPorts;
  readonly depth: number;
}

function verdictOf(entry: unknown, judging: Judging): Verdict {
  const clauses = isRecord(entry) && judging.depth <= MAX_DEPTH ? clausesOf(entry) : [];
  if (!isRecord(entry) || clauses.length === 0) {
    judging.ports.warn("a filter has no operator");
    return undefined;
  }
  return every(clauses, (clause) => verdictOfClause(clause, entry, judging));
}

function verdictOfClause(clause: Clause, entry: Entry, judging: Judging): Verdict {
  const { subject, ports } = judging;
  const wanted = entry[clause];
  const problem = clauseProblem(clause, entry);
  if (problem !== undefined) {
    ports.warn(`${clause} ${problem}`);
    return undefined;
  }
  const nested = (each: unknown) => verdictOf(each, { ...judging, depth: judging.depth + 1 });
  if (clause === "all") return every(wanted as readonly unknown[], nested);
  if (clause === "any") return some(wanted as readonly unknown[], nested);
  if (clause === "not") return opposite(nested(wanted));
  return TESTS[clause](fieldOf(subject, entry["field"] as string), wanted, ports);
}

type Test = (value: unknown, wanted: unknown, ports: FilterPorts) => Verdict;

/** Asked only where {@link clauseProblem} has nothing to say. */
const TESTS: Readonly<Record<Operator, Test>> = {
  exists: (value, wanted) => (value !== MISSING) === wanted,
  missing: (value) => value === MISSING,
  equals: (value, wanted) => value !== MISSING && isSameJson(value, wanted),
  not_equals: (value, wanted) => value === MISSING || !isSameJson(value, wanted),
  contains: (value, wanted) => {
    if (value === MISSING) return false;
    if (Array.isArray(value)) return isMember(value, wanted);
    if (typeof value === "object" && value !== null && !isExactNumber(value)) {
      return Object.hasOwn(value, textOf(wanted));
    }
    return textOf(value).includes(textOf(wanted));
  },
  in: (value, wanted) => value !== MISSING && isMember(wanted as readonly unknown[], value),
  in_file: (value, wanted, ports) => {
    const values = ports.valuesIn(wanted as string);
    if (values === undefined) ports.warn(`in_file names ${JSON.stringify(wanted)}, which cannot be read`);
    return value !== MISSING && values !== undefined && isMember(values, value);
  },
  regex: (value, wanted, ports) => {
    if (value === MISSING) return false;
    const found = patternOf(wanted)?.(textOf(value));
    if (found === undefined) ports.warn(`regex ${JSON.stringify(wanted)} met a text too long for it`);
    return found;
  },
};

function findProblems(entry: unknown, where: string, depth: number): readonly string[] {
  if (!isRecord(entry)) return [`${where} must be an object`];
  if (depth > MAX_DEPTH) return [`${where} is nested too deep; the limit is ${MAX_DEPTH}`];
  const known = `those are: ${[...OPERATORS, ...COMBINATORS].join(", ")}`;
  const unknown = Object.keys(entry).find((name) => !isClause(name) && !BESIDE.includes(name));
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

/** What is wrong with a clause, those nested in it left aside. */
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
      return patternOf(value) ? undefined : "is no pattern that can be used (RE2 syntax), or too large";
    default:
      return undefined;
  }
}

/** The first that is false decides; what cannot be said otherwise leaves the whole open. */
function every<T>(items: readonly T[], verdictOf: (item: T) => Verdict): Verdict {
  let all: Verdict = true;
  for (const item of items) {
    const verdict = verdictOf(item);
    if (verdict === false) return false;
    if (verdict === undefined) all = undefined;
  }
  return all;
}

function some<T>(items: readonly T[], verdictOf: (item: T) => Verdict): Verdict {
  return opposite(every(items, (item) => opposite(verdictOf(item))));
}

function opposite(verdict: Verdict): Verdict {
  return verdict === undefined ? undefined : !verdict;
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

/** Text as patterns see it: objects and lists as JSON with their names in order. */
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
