/** JSON Schema 2020-12 as plain data: following references, choosing union branches, filling defaults. Pure. */

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

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
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

/** The branches of a union that `value` can have meant; undefined when `schema` is no union. */
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
