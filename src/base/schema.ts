/**
 * JSON Schema 2020-12: validators over the specs' own schemas with issues that a person can act on; references, union
 * branches and defaults. Pure.
 */
import { shorten } from "./text.ts";
import { Check, Compile, Errors, type Validator } from "typebox/schema";
import { isRecord } from "./data.ts";

// References, branches, defaults

export type JsonSchema = Readonly<Record<string, unknown>>;
export type SchemaMap = Readonly<Record<string, JsonSchema>>;

/** Deeper values are taken as they are: recursion over what a client sends must end. */
const MAX_DEPTH = 64;

/** Keywords that say nothing about validity: beside a reference they replace what they find. */
const OVERRIDING = new Set(["title", "description", "default", "examples", "deprecated"]);

/**
 * The schema that `reference` (`#`, `#/$defs/X`, `#/components/schemas/X`) names within `root`.
 * A reference that leads nowhere is a bug of the specs: it throws.
 */
export function resolveReference(root: JsonSchema, reference: string): JsonSchema {
  const segments = reference.replace(/^#\/?/, "").split("/");
  const target = reference === "#" ? root : segments.reduce<unknown>(descend, root);
  if (!isRecord(target)) throw new Error(`schema reference ${reference} leads nowhere`);
  return target;
}

/**
 * `value` with every absent property that has a default filled in, at any depth. Neither argument is changed.
 * Values are not validated: what does not fit the schema is left as it is.
 */
export function applyDefaults(schema: JsonSchema, value: unknown, root: JsonSchema = schema): unknown {
  return fill(schema, value, { root, depth: 0 });
}

/**
 * `schema` cut down to what concerns `value`: references followed, and of each union only the branches that `value`
 * can have meant, determined by const tags and by JSON types. Whatever `schema` refuses, the result refuses too.
 */
export function narrowSchema(schema: JsonSchema, value: unknown, root: JsonSchema = schema): JsonSchema {
  return narrow(schema, value, { root, depth: 0 });
}

interface Walk {
  readonly root: JsonSchema;
  readonly depth: number;
}

function fill(schema: JsonSchema, value: unknown, walk: Walk): unknown {
  if (walk.depth > MAX_DEPTH) return value;
  const inner = { root: walk.root, depth: walk.depth + 1 };
  const flat = follow(schema, walk);
  const branches = chooseBranches(flat, value, walk);
  const base = branches?.length === 1 && branches[0] ? fill(branches[0], value, inner) : value;
  const merged = asList(flat["allOf"]).reduce<unknown>((sofar, part) => fill(part, sofar, inner), base);
  const items = flat["items"];
  if (Array.isArray(merged)) return isRecord(items) ? merged.map((item) => fill(items, item, inner)) : merged;
  return isRecord(merged) ? fillObject(flat, merged, inner) : merged;
}

function fillObject(schema: JsonSchema, value: JsonSchema, walk: Walk): JsonSchema {
  const properties = isRecord(schema["properties"]) ? schema["properties"] : {};
  const present = Object.entries(value).map(([name, member]) => {
    const known = propertyOf(schema, name);
    return [name, known === undefined ? member : fill(known, member, walk)] as const;
  });
  const absent = Object.entries(properties).flatMap(([name, property]) => {
    if (!isRecord(property) || (Object.hasOwn(value, name) && value[name] !== undefined)) return [];
    const flat = follow(property, walk);
    return "default" in flat ? [[name, fill(property, structuredClone(flat["default"]), walk)] as const] : [];
  });
  return Object.fromEntries([...present, ...absent]);
}

function narrow(schema: JsonSchema, value: unknown, walk: Walk): JsonSchema {
  if (walk.depth > MAX_DEPTH) return schema;
  const inner = { root: walk.root, depth: walk.depth + 1 };
  const { oneOf: _oneOf, ...flat } = follow(schema, walk);
  const narrowed = { ...flat, ...narrowMembers(flat, value, inner) };
  const parts = asList(flat["allOf"]).map((part) => narrow(part, value, inner));
  const union = narrowUnion(schema, value, inner);
  if (union === undefined && parts.length === 0) return narrowed;
  return { ...narrowed, allOf: [...parts, ...(union === undefined ? [] : [union])] };
}

function narrowUnion(schema: JsonSchema, value: unknown, walk: Walk): JsonSchema | undefined {
  const flat = follow(schema, walk);
  const chosen = chooseBranches(flat, value, walk);
  if (chosen === undefined) return undefined;
  const [only, second] = chosen;
  if (only === undefined) return expectation(asList(flat["oneOf"]), value, walk);
  if (second === undefined) return narrow(only, value, walk);
  return { oneOf: chosen.map((branch) => narrow(branch, value, walk)) };
}

function narrowMembers(schema: JsonSchema, value: unknown, walk: Walk): JsonSchema {
  if (Array.isArray(value)) {
    const items = schema["items"];
    if (!isRecord(items) || "prefixItems" in schema) return {};
    return { prefixItems: value.map((item) => narrow(items, item, walk)) };
  }
  if (!isRecord(value)) return {};
  const members = Object.entries(value).flatMap(([name, member]) => {
    const known = propertyOf(schema, name);
    return known === undefined ? [] : [[name, narrow(known, member, walk)] as const];
  });
  const properties = isRecord(schema["properties"]) ? schema["properties"] : {};
  return members.length === 0 ? {} : { properties: { ...properties, ...Object.fromEntries(members) } };
}

/** What every branch asks for, when the value fits none: one of the tags, or one of the types. */
function expectation(branches: readonly JsonSchema[], value: unknown, walk: Walk): JsonSchema {
  const flat = branches.flatMap((branch) => leavesOf(branch, walk));
  const tags = [...new Set(flat.flatMap((branch) => [...tagsOf(branch).keys()]))];
  const shared = tags.find((tag) =>
    flat.filter((branch) => isObjectSchema(branch)).every((each) => tagsOf(each).has(tag)),
  );
  if (!isRecord(value) || shared === undefined) return { type: [...new Set(flat.flatMap(typesOf))] };
  const allowed = [
    ...new Set(flat.flatMap((branch) => (tagsOf(branch).has(shared) ? [tagsOf(branch).get(shared)] : []))),
  ];
  return { type: "object", required: [shared], properties: { [shared]: { enum: allowed } } };
}

/** The branches of a union and of the unions in it. */
function leavesOf(branch: JsonSchema, { root, depth }: Walk): readonly JsonSchema[] {
  const flat = follow(branch, { root });
  const inner = asList(flat["oneOf"]);
  if (inner.length === 0 || depth > MAX_DEPTH) return [flat];
  return inner.flatMap((each) => leavesOf(each, { root, depth: depth + 1 }));
}

/** The branches of a union that `value` can have meant; undefined when `schema` is not a union. */
function chooseBranches(schema: JsonSchema, value: unknown, walk: Walk): readonly JsonSchema[] | undefined {
  const branches = asList(schema["oneOf"]);
  if (branches.length === 0) return undefined;
  return branches.filter((branch) => {
    const flat = follow(branch, walk);
    if (
      walk.depth < MAX_DEPTH &&
      chooseBranches(flat, value, { ...walk, depth: walk.depth + 1 })?.length === 0
    ) {
      return false;
    }
    const types = typesOf(flat);
    if (types.length > 0 && !types.some((type) => hasType(type, value))) return false;
    return !isRecord(value) || [...tagsOf(flat)].every(([name, tag]) => value[name] === tag);
  });
}

/** The const properties that a branch requires: what distinguishes it from the others. */
function tagsOf(branch: JsonSchema): ReadonlyMap<string, unknown> {
  const required = Array.isArray(branch["required"]) ? branch["required"] : [];
  const properties = isRecord(branch["properties"]) ? branch["properties"] : {};
  const tags = Object.entries(properties).flatMap(([name, property]) =>
    isRecord(property) && "const" in property && required.includes(name)
      ? [[name, property["const"]] as const]
      : [],
  );
  return new Map(tags);
}

function typesOf(schema: JsonSchema): readonly string[] {
  const { type } = schema;
  return typeof type === "string" ? [type] : Array.isArray(type) ? type.map(String) : [];
}

function hasType(type: string, value: unknown): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isRecord(value);
  return typeof value === (type === "integer" ? "number" : type);
}

function isObjectSchema(schema: JsonSchema): boolean {
  return typesOf(schema).includes("object") || isRecord(schema["properties"]);
}

function propertyOf(schema: JsonSchema, name: string): JsonSchema | undefined {
  const { properties, additionalProperties } = schema;
  if (isRecord(properties) && Object.hasOwn(properties, name)) {
    return isRecord(properties[name]) ? properties[name] : undefined;
  }
  return isRecord(additionalProperties) ? additionalProperties : undefined;
}

/** The schema behind `$ref`, with the keywords beside the reference added: both hold. */
function follow(schema: JsonSchema, { root }: Pick<Walk, "root">): JsonSchema {
  let current = schema;
  for (let hops = 0; typeof current["$ref"] === "string" && hops < MAX_DEPTH; hops += 1) {
    const { $ref, ...beside } = current;
    const target = resolveReference(root, String($ref));
    const clash = Object.keys(beside).some((keyword) => keyword in target && !OVERRIDING.has(keyword));
    current = clash ? { ...target, allOf: [...asList(target["allOf"]), beside] } : { ...target, ...beside };
  }
  return current;
}

function asList(value: unknown): readonly JsonSchema[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

function descend(parent: unknown, segment: string): unknown {
  const key = segment.replaceAll("~1", "/").replaceAll("~0", "~");
  return isRecord(parent) && Object.hasOwn(parent, key) ? parent[key] : undefined;
}

// Validators

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

  /** Checks as {@link check}, without compiling: faster for a schema that is used once. */
  checkOnce(schema: JsonSchema, value: unknown): readonly Issue[] | undefined {
    return checkOnce(this.#root(schema), value);
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

/** Returns `; valid names: a, b` from the schema that rejected the value. */
function listKnown({ schemaPath }: Finding, schema: JsonSchema): string {
  const owner = segmentsOf(schemaPath).reduce<unknown>(
    (parent, key) =>
      typeof parent === "object" && parent !== null ? (parent as JsonSchema)[key] : undefined,
    schema,
  );
  const properties = isRecord(owner) && isRecord(owner["properties"]) ? Object.keys(owner["properties"]) : [];
  return properties.length === 0 || properties.length > MAX_LISTED
    ? ""
    : `; valid names: ${properties.join(", ")}`;
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
  const short = shorten(name, MAX_NAME_LENGTH);
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
