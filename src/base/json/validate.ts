/** Validators over the specs' own JSON Schemas, with issues that a person can act on. */
import { Check, Compile, Errors, type Validator } from "typebox/schema";
import { isRecord, narrowSchema, type JsonSchema, type SchemaMap } from "./schema.ts";

/** An issue with a value. Never holds the value itself, which may be secret. */
export interface Issue {
  /** The path, such as `messages[0].content`; "" for the value as a whole. */
  readonly path: string;
  /** What the value must be, such as `must be one of "low", "high"`. */
  readonly message: string;
  /** The keyword of JSON Schema that rejected the value. */
  readonly keyword: string;
}

/** A larger rejected value gets no details: finding them runs interpreted code and would block the event loop. */
const MAX_EXPLAINED_BYTES = 65_536;
const MAX_ISSUES = 8;
const MAX_LISTED = 24;
const MAX_NAME_LENGTH = 64;

interface Finding {
  readonly keyword: string;
  readonly schemaPath: string;
  readonly instancePath: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/**
 * Validators for the schemas of one document, compiled at first use and kept as long as their schema. References
 * `#/components/schemas/X` resolve to `schemas`; a schema's own `$defs` work as well.
 */
export class SchemaSet {
  readonly #schemas: SchemaMap;
  readonly #named = new Map<string, JsonSchema>();
  readonly #compiled = new WeakMap<JsonSchema, Validator>();

  constructor(schemas: SchemaMap) {
    this.#schemas = schemas;
  }

  /**
   * Returns undefined when `value` fits `schema`; otherwise 1 to 8 issues, the most specific first. `sizeBytes` is the
   * size of the JSON that `value` was read from; above 64 kB the result is one issue without details.
   */
  check(schema: JsonSchema, value: unknown, sizeBytes = 0): readonly Issue[] | undefined {
    try {
      if (this.#compile(schema).Check(value)) return undefined;
      return sizeBytes > MAX_EXPLAINED_BYTES ? [tooLargeToExplain] : explain(this.#root(schema), value);
    } catch (error) {
      // Recursive schemas recurse on the stack, and the client controls the depth.
      if (error instanceof RangeError) return [tooDeep];
      throw error;
    }
  }

  /** Checks against the component `name`, as {@link check}. Throws for a name that is not in the set. */
  checkNamed(name: string, value: unknown, sizeBytes = 0): readonly Issue[] | undefined {
    const known = this.#named.get(name);
    if (known !== undefined) return this.check(known, value, sizeBytes);
    if (!Object.hasOwn(this.#schemas, name)) throw new Error(`no schema is named ${name}`);
    const reference = { $ref: `#/components/schemas/${name}` };
    this.#named.set(name, reference);
    return this.check(reference, value, sizeBytes);
  }

  #compile(schema: JsonSchema): Validator {
    const known = this.#compiled.get(schema);
    if (known !== undefined) return known;
    const compiled = Compile(this.#root(schema));
    this.#compiled.set(schema, compiled);
    return compiled;
  }

  #root(schema: JsonSchema): JsonSchema {
    return { components: { schemas: this.#schemas }, ...schema };
  }
}

/** Checks like {@link SchemaSet.check} for a schema that is used once: interpreting it is faster than compiling it. */
export function checkOnce(schema: JsonSchema, value: unknown): readonly Issue[] | undefined {
  return Check(schema, value) ? undefined : explain(schema, value);
}

/** `messages[0].role must be one of "user", "assistant"`; `whole` names the value when the path is empty. */
export function formatIssue({ path, message }: Issue, whole = "the value"): string {
  return `${path === "" ? whole : path} ${message}`;
}

/** Keywords whose findings repeat or summarise other findings. */
const SUMMARIES = new Set(["boolean", "oneOf", "propertyNames"]);

const tooLargeToExplain: Issue = {
  path: "",
  message: "does not match the schema; no details are given above 64 kB",
  keyword: "schema",
};
const tooDeep: Issue = { path: "", message: "is nested too deeply", keyword: "depth" };

function explain(root: JsonSchema, value: unknown): readonly Issue[] {
  const narrowed = { ...narrowSchema(root, value), components: root["components"] };
  const findings = (Errors(narrowed, value) as [boolean, Finding[]])[1];
  const specific = findings.filter(({ keyword }) => !SUMMARIES.has(keyword));
  const kept = specific.length > 0 ? specific : findings;
  const union = findings.some(({ keyword }) => keyword === "oneOf");
  // The branch of a union that matched furthest is probably the intended one.
  const ordered = union ? kept.toSorted((a, b) => depthOf(b) - depthOf(a)) : kept;
  const issues = ordered.flatMap((finding) => toIssues(finding, narrowed, value));
  return issues.length > 0 ? issues.slice(0, MAX_ISSUES) : [unexplained];
}

const unexplained: Issue = { path: "", message: "does not match the schema", keyword: "schema" };

function depthOf({ instancePath }: Finding): number {
  return instancePath.split("/").length;
}

function toIssues(finding: Finding, schema: JsonSchema, value: unknown): readonly Issue[] {
  const { keyword, params } = finding;
  const path = toPath(finding.instancePath, value);
  const each = (names: unknown, message: string) =>
    asStrings(names).map((name) => ({ path: joinName(path, name), message, keyword }));
  if (keyword === "required") return each(params["requiredProperties"], "is required");
  if (keyword === "additionalProperties") {
    return each(params["additionalProperties"], `is not known here${listKnown(finding, schema)}`);
  }
  const named = /(?<!\/properties)\/propertyNames/.test(finding.schemaPath);
  return [{ path, message: `${named ? "is not an allowed name: it " : ""}${describe(finding)}`, keyword }];
}

function describe({ keyword, params, message }: Finding): string {
  const limit = String(params["limit"]);
  const count = (unit: string) => `${limit} ${unit}${limit === "1" ? "" : "s"}`;
  const texts: Readonly<Record<string, () => string>> = {
    type: () => `must be ${typeNames(params["type"])}`,
    enum: () => `must be one of ${listValues(params["allowedValues"])}`,
    const: () => `must be ${JSON.stringify(params["allowedValue"])}`,
    minimum: () => `must be at least ${limit}`,
    maximum: () => `must be at most ${limit}`,
    exclusiveMinimum: () => `must be greater than ${limit}`,
    exclusiveMaximum: () => `must be less than ${limit}`,
    multipleOf: () => `must be a multiple of ${String(params["multipleOf"])}`,
    minLength: () => `must have at least ${count("character")}`,
    maxLength: () => `must have at most ${count("character")}`,
    minItems: () => `must have at least ${count("item")}`,
    maxItems: () => `must have at most ${count("item")}`,
    minProperties: () => `must have at least ${limit} ${limit === "1" ? "property" : "properties"}`,
    maxProperties: () => `must have at most ${limit} ${limit === "1" ? "property" : "properties"}`,
    uniqueItems: () => "must not hold the same item twice",
    pattern: () => `must match ${String(params["pattern"])}`,
    format: () => `must be a valid ${String(params["format"])}`,
    oneOf: () =>
      asStrings(params["passingSchemas"]).length > 0
        ? "matches more than one of the allowed forms"
        : "matches none of the allowed forms",
    not: () => "is not allowed",
  };
  return texts[keyword]?.() ?? message;
}

/** Returns `; known are: a, b` from the schema that rejected the value. */
function listKnown({ schemaPath }: Finding, schema: JsonSchema): string {
  const owner = segmentsOf(schemaPath).reduce<unknown>(
    (parent, key) =>
      typeof parent === "object" && parent !== null ? (parent as JsonSchema)[key] : undefined,
    schema,
  );
  const properties = isRecord(owner) && isRecord(owner["properties"]) ? Object.keys(owner["properties"]) : [];
  return properties.length === 0 || properties.length > MAX_LISTED
    ? ""
    : `; known are: ${properties.join(", ")}`;
}

function typeNames(type: unknown): string {
  const names = (Array.isArray(type) ? type : [type]).map((name) => {
    if (name === "null") return "null";
    return /^[aeiou]/.test(String(name)) ? `an ${String(name)}` : `a ${String(name)}`;
  });
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

function listValues(values: unknown): string {
  const list = Array.isArray(values) ? values : [];
  const shown = list.slice(0, MAX_LISTED).map((value) => JSON.stringify(value));
  return list.length > MAX_LISTED
    ? `${shown.join(", ")} and ${list.length - MAX_LISTED} more`
    : shown.join(", ");
}

/** Returns `messages[0].content` for `/messages/0/content`. A number is an index only where the value has a list. */
function toPath(instancePath: string, value: unknown): string {
  let path = "";
  let parent: unknown = value;
  for (const segment of segmentsOf(instancePath)) {
    path = Array.isArray(parent) ? `${path}[${segment}]` : joinName(path, segment);
    parent = isRecord(parent) || Array.isArray(parent) ? (parent as JsonSchema)[segment] : undefined;
  }
  return path;
}

function joinName(path: string, name: string): string {
  const short = name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH)}...` : name;
  if (!/^[\w$-]+$/.test(short)) return `${path}[${JSON.stringify(short)}]`;
  return path === "" ? short : `${path}.${short}`;
}

function segmentsOf(pointer: string): readonly string[] {
  const segments = pointer.split("/").slice(1);
  return segments.map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function asStrings(values: unknown): readonly string[] {
  return Array.isArray(values) ? values.map(String) : [];
}
