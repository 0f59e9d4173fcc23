/** Whether a request is one that a route wants. Pure, but for the lists in files, which the caller reads. */
import { RE2JS } from "re2js";
import { isSameJson } from "./same.ts";
import { fieldOf, MISSING, type WebhookSubject } from "./field.ts";

/** A test of a field, or a combination of others; checked by {@link checkFilters}. */
export type FilterEntry = Readonly<Record<string, unknown>>;

export interface FilterPorts {
  /** The values that a file lists; undefined when it cannot be read. */
  readonly valuesIn: (path: string) => readonly unknown[] | undefined;
  /** Told of what keeps an entry from ever matching. */
  readonly warn: (flaw: string) => void;
}

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

/** Entries inside entries. */
const MAX_DEPTH = 16;
const MAX_ENTRIES = 200;
const MAX_PATTERN_CHARACTERS = 1_000;
/** What a pattern is looked for in. */
const MAX_TEXT_CHARACTERS = 100_000;

/** What is wrong with the filters of a route, a clause each; none when they can be used. */
export function checkFilters(filters: unknown): readonly string[] {
  const entries = listOf(filters);
  if (entries === undefined) return ["filters must be a list"];
  if (entries.length > MAX_ENTRIES) return [`filters may have ${MAX_ENTRIES} entries`];
  return entries.flatMap((entry, index) => flawsOf(entry, `filters[${index}]`, 0));
}

/** True when every entry matches; without entries everything does. */
export function passesFilters(filters: unknown, subject: WebhookSubject, ports: FilterPorts): boolean {
  const entries = listOf(filters);
  if (!entries) {
    ports.warn("filters must be a list");
    return false;
  }
  return entries.every((entry) => matches(entry, subject, { ...ports, depth: 0 }));
}

type Judging = FilterPorts & { readonly depth: number };

function matches(entry: unknown, subject: WebhookSubject, judging: Judging): boolean {
  if (!isEntry(entry) || judging.depth > MAX_DEPTH) {
    judging.warn("a filter must be an object");
    return false;
  }
  const inner = { ...judging, depth: judging.depth + 1 };
  const each = (value: unknown) => (nested: unknown) =>
    matches(nested, subject, inner) && value !== undefined;
  if ("all" in entry) return Array.isArray(entry["all"]) && entry["all"].every(each(entry["all"]));
  if ("any" in entry) return Array.isArray(entry["any"]) && entry["any"].some(each(entry["any"]));
  if ("not" in entry) return isEntry(entry["not"]) && !matches(entry["not"], subject, inner);
  const asked = OPERATORS.filter((operator) => operator in entry);
  if (asked.length === 0 || typeof entry["field"] !== "string") {
    judging.warn("a filter needs a field and an operator");
    return false;
  }
  const value = fieldOf(subject, entry["field"]);
  return asked.every((operator) => TESTS[operator](value, entry[operator], judging));
}

const TESTS: Readonly<Record<Operator, (value: unknown, wanted: unknown, ports: FilterPorts) => boolean>> = {
  exists: (value, wanted) => (value !== MISSING) === (wanted === true),
  missing: (value, wanted) => (value === MISSING) === (wanted === true),
  equals: (value, wanted) => value !== MISSING && isSameJson(value, wanted),
  not_equals: (value, wanted) => value === MISSING || !isSameJson(value, wanted),
  contains: (value, wanted) => {
    if (value === MISSING) return false;
    if (Array.isArray(value)) return isMember(value, wanted);
    if (typeof value === "object" && value !== null) return Object.hasOwn(value, String(wanted));
    return textOf(value).includes(String(wanted));
  },
  in: (value, wanted) => value !== MISSING && Array.isArray(wanted) && isMember(wanted, value),
  in_file: (value, wanted, ports) => {
    const values = typeof wanted === "string" ? ports.valuesIn(wanted) : undefined;
    return value !== MISSING && values !== undefined && isMember(values, value);
  },
  regex: (value, wanted, ports) => {
    if (value === MISSING) return false;
    const pattern = patternOf(wanted);
    if (!pattern) {
      ports.warn(`the pattern ${JSON.stringify(wanted)} cannot be used`);
      return false;
    }
    return pattern.matcher(textOf(value).slice(0, MAX_TEXT_CHARACTERS)).find();
  },
};

const compiled = new Map<string, RE2JS | undefined>();
const MAX_COMPILED = 1_000;

/** Patterns run in time linear to the text, whatever they are. Undefined for one that cannot be used. */
function patternOf(source: unknown): RE2JS | undefined {
  if (typeof source !== "string" || source.length > MAX_PATTERN_CHARACTERS) return undefined;
  if (!compiled.has(source)) {
    const [oldest] = compiled.size >= MAX_COMPILED ? compiled.keys() : [];
    if (oldest !== undefined) compiled.delete(oldest);
    compiled.set(source, compile(source));
  }
  return compiled.get(source);
}

function compile(source: string): RE2JS | undefined {
  try {
    return RE2JS.compile(source);
  } catch {
    return undefined;
  }
}

function flawsOf(entry: unknown, where: string, depth: number): readonly string[] {
  if (!isEntry(entry)) return [`${where} must be an object`];
  if (depth > MAX_DEPTH) return [`${where} is nested too deep; the limit is ${MAX_DEPTH}`];
  const used = [...COMBINATORS, ...OPERATORS].filter((name) => name in entry);
  const [name] = used;
  if (name === undefined)
    return [`${where} has no operator; those are: ${[...OPERATORS, ...COMBINATORS].join(", ")}`];
  if (used.length > 1) return [`${where} has more than one operator: ${used.join(", ")}`];
  const value = entry[name];
  if (name === "not") return flawsOf(value, `${where}.not`, depth + 1);
  if (name === "all" || name === "any") {
    if (!Array.isArray(value)) return [`${where}.${name} must be a list`];
    return value.flatMap((each: unknown, index) => flawsOf(each, `${where}.${name}[${index}]`, depth + 1));
  }
  if (typeof entry["field"] !== "string" || entry["field"] === "") return [`${where} needs a field`];
  return operandFlaw(name, value).map((flaw) => `${where}.${name} ${flaw}`);
}

function operandFlaw(name: Operator, value: unknown): readonly string[] {
  switch (name) {
    case "exists":
      return typeof value === "boolean" ? [] : ["must be true or false"];
    case "missing":
      return value === true ? [] : ["must be true; for its opposite use exists"];
    case "in":
      return Array.isArray(value) ? [] : ["must be a list"];
    case "in_file":
      return typeof value === "string" && value !== "" ? [] : ["must be the path of a file"];
    case "regex":
      return patternOf(value) ? [] : ["is no pattern that can be used (RE2 syntax)"];
    default:
      return [];
  }
}

function listOf(filters: unknown): readonly unknown[] | undefined {
  if (filters === undefined || filters === null) return [];
  if (Array.isArray(filters)) return filters;
  return isEntry(filters) ? [filters] : undefined;
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
  if (typeof value !== "object" || value === null) return value;
  const names = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(names.map(([name, each]) => [name, sorted(each)]));
}

function isEntry(value: unknown): value is FilterEntry {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
