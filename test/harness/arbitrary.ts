/** Values that fit a JSON Schema, and values that miss it in exactly one place. For property tests. */
import fc, { type Arbitrary } from "fast-check";
import { schemas } from "../../generated/http/schemas.gen.ts";
import type { JsonSchema } from "../../src/base/schema.ts";
import { specSchemas } from "../../src/http/edge/input.ts";

/** By name of a component or of a property: what to make instead of just anything that fits. */
export type Tastes = Readonly<Record<string, Arbitrary<unknown>>>;

const MAX_DEPTH = 5;
const MAX_ITEMS = 3;
const MAX_TEXT = 40;

/** Text that some layer may stumble over; of every length that a schema asks for. */
const NASTY = [
  "\u0000",
  "a\u0000b",
  "\ud800",
  "__proto__",
  "constructor",
  "' or 1=1 --",
  "%00",
  "\r\nx: y",
  "x".repeat(40),
];

/** Mostly text as people write it; now and then any code unit at all. */
const text = (minLength = 0, maxLength = MAX_TEXT): Arbitrary<string> =>
  fc.oneof(
    { weight: 4, arbitrary: fc.string({ minLength, maxLength, unit: "grapheme-ascii" }) },
    { weight: 2, arbitrary: fc.string({ minLength, maxLength, unit: "grapheme" }) },
    {
      weight: 1,
      arbitrary: fc
        .array(fc.integer({ min: 0, max: 0xff_ff }), { minLength, maxLength })
        .map((units) => String.fromCharCode(...units)),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(...NASTY.filter(({ length }) => length >= minLength && length <= maxLength)),
    },
  );

const anything = fc.oneof(
  text(),
  fc.jsonValue({ maxDepth: 2 }) as Arbitrary<unknown>,
  fc.constantFrom<unknown>(null, true, 0, -1, "", [], {}),
);

/** What fits `schema`. Whatever `tastes` make is sieved, so it may also miss. */
export function fitting(schema: JsonSchema, tastes: Tastes = {}, depth = 0): Arbitrary<unknown> {
  const reference = schema["$ref"];
  if (typeof reference === "string") {
    const name = nameOf(reference);
    const made = fitting(schemas[name] ?? {}, tastes, depth);
    return tastes[name] ? mixed(schemas[name] ?? {}, tastes[name], made) : made;
  }
  if ("const" in schema) return fc.constant(schema["const"]);
  if (Array.isArray(schema["enum"])) return fc.constantFrom(...(schema["enum"] as unknown[]));
  const branches = (schema["oneOf"] ?? schema["anyOf"]) as readonly JsonSchema[] | undefined;
  if (branches) {
    const fits = (value: unknown) => specSchemas.check(schema, value) === undefined;
    return fc.oneof(...branches.map((branch) => fitting(branch, tastes, depth))).filter(fits);
  }
  const types = typesOf(schema);
  if (types.length === 0) return anything;
  return fc.oneof(...types.map((type) => ofType(type, schema, tastes, depth)));
}

// oxlint-disable-next-line max-params -- one step of a walk
function ofType(type: string, schema: JsonSchema, tastes: Tastes, depth: number): Arbitrary<unknown> {
  const limit = (name: string, usual: number) => Number(schema[name] ?? usual);
  switch (type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer":
      return fc.oneof(
        fc.integer({ min: limit("minimum", -100), max: Math.min(limit("maximum", 100), 1e9) }),
        fc.constantFrom(limit("minimum", -1), limit("maximum", Number.MAX_SAFE_INTEGER)),
      );
    case "number": {
      const above = limit("exclusiveMinimum", -1e6) + (schema["exclusiveMinimum"] === undefined ? 0 : 1e-3);
      const range = { min: limit("minimum", above), max: limit("maximum", 1e6) };
      return fc.double({ ...range, noNaN: true, noDefaultInfinity: true });
    }
    case "string": {
      const { pattern } = schema;
      if (typeof pattern === "string") return fc.stringMatching(new RegExp(pattern));
      const shortest = limit("minLength", 0);
      return text(shortest, Math.max(shortest, Math.min(limit("maxLength", MAX_TEXT), MAX_TEXT)));
    }
    case "array": {
      const shortest = limit("minItems", 0);
      const longest = depth > MAX_DEPTH ? shortest : Math.min(limit("maxItems", MAX_ITEMS), MAX_ITEMS);
      const items = fitting((schema["items"] ?? {}) as JsonSchema, tastes, depth + 1);
      return fc.array(items, { minLength: shortest, maxLength: Math.max(shortest, longest) });
    }
    default:
      return object(schema, tastes, depth);
  }
}

function object(schema: JsonSchema, tastes: Tastes, depth: number): Arbitrary<unknown> {
  const required = (schema["required"] ?? []) as string[];
  const all = Object.entries((schema["properties"] ?? {}) as Record<string, JsonSchema>);
  const kept = all.filter(([name]) => depth <= MAX_DEPTH || required.includes(name));
  const model = Object.fromEntries(
    kept.map(([name, member]) => {
      const made = fitting(member, tastes, depth + 1);
      return [name, tastes[name] ? mixed(member, tastes[name], made) : made];
    }),
  );
  const optional = kept.map(([name]) => name).filter((name) => !required.includes(name));
  // All of many at once hardly ever go together; a few do.
  const chosen = fc.oneof(
    { weight: 5, arbitrary: fc.subarray(optional, { maxLength: Math.min(2, optional.length) }) },
    { weight: 1, arbitrary: fc.subarray(optional) },
  );
  const known = chosen.chain((names) =>
    fc.record(Object.fromEntries([...required, ...names].map((name) => [name, model[name] ?? anything])), {
      noNullPrototype: true,
    }),
  );
  const extra = schema["additionalProperties"];
  if (extra === false || extra === undefined || depth > MAX_DEPTH) return known;
  const value = extra === true ? anything : fitting(extra as JsonSchema, tastes, depth + 1);
  const others = fc.dictionary(text(1, 20), value, { maxKeys: 2, noNullPrototype: true });
  const few = fc.oneof({ weight: 4, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: others });
  return fc.tuple(few, known).map(([more, named]) => ({ ...more, ...named }));
}

function mixed(schema: JsonSchema, taste: Arbitrary<unknown>, other: Arbitrary<unknown>): Arbitrary<unknown> {
  const fits = (value: unknown) => specSchemas.check(schema, value) === undefined;
  // The same name may mean something else here, and then a filter would search without end.
  if (!fc.sample(taste, { seed: 1, numRuns: 20 }).some(fits)) return other;
  return fc.oneof({ weight: 5, arbitrary: taste.filter(fits) }, { weight: 1, arbitrary: other });
}

/** A value with one thing wrong in it. */
export interface Spoiled {
  /** Where and what, for people. */
  readonly what: string;
  readonly value: unknown;
}

/**
 * `value`, which fits `schema`, with one change after which it no longer does; `dice` chooses which. Undefined when
 * nothing can be wrong. `survives` tells whether a change is still one on the way it travels.
 */
export function spoil(
  schema: JsonSchema,
  value: unknown,
  { dice, survives = () => true }: { readonly dice: number; readonly survives?: (value: unknown) => boolean },
): Spoiled | undefined {
  const all = changes(schema, value, "");
  const start = all.length === 0 ? 0 : dice % all.length;
  return [...all.slice(start), ...all.slice(0, start)].find(
    (each) => survives(each.value) && specSchemas.check(schema, each.value) !== undefined,
  );
}

function changes(schema: JsonSchema, value: unknown, path: string): readonly Spoiled[] {
  const reference = schema["$ref"];
  if (typeof reference === "string") return changes(schemas[nameOf(reference)] ?? {}, value, path);
  const branches = (schema["oneOf"] ?? schema["anyOf"]) as readonly JsonSchema[] | undefined;
  if (branches) {
    const own = branches.filter((branch) => specSchemas.check(branch, value) === undefined);
    return [...wrongTypes(path), ...own.flatMap((branch) => changes(branch, value, path))];
  }
  const here = { path, schema };
  if (Array.isArray(value)) return [...wrongTypes(path), ...ofArray(here, value)];
  if (typeof value === "object" && value !== null) {
    return [...wrongTypes(path), ...ofObject(here, value as Record<string, unknown>)];
  }
  return [...wrongTypes(path), ...ofScalar(here, value)];
}

interface Place {
  readonly path: string;
  readonly schema: JsonSchema;
}

const wrongTypes = (path: string): readonly Spoiled[] =>
  [null, true, 1.5, "no-such-value", [[]], { surprise: 1 }].map((value) => ({
    what: `${path || "all"} is ${JSON.stringify(value)}`,
    value,
  }));

function ofScalar({ path, schema }: Place, value: unknown): readonly Spoiled[] {
  const all: Spoiled[] = [];
  const put = (what: string, wrong: unknown) => all.push({ what: `${path || "all"} ${what}`, value: wrong });
  const { minimum, maximum, exclusiveMinimum, minLength, maxLength, pattern } = schema;
  if (typeof value === "number") {
    if (minimum !== undefined) put("is too small", Number(minimum) - 1);
    if (maximum !== undefined) put("is too large", Number(maximum) + 1);
    if (exclusiveMinimum !== undefined) put("is too small", exclusiveMinimum);
  }
  if (typeof value === "string") {
    if (maxLength !== undefined) put("is too long", "x".repeat(Number(maxLength) + 1));
    if (Number(minLength) > 0) put("is too short", "x".repeat(Number(minLength) - 1));
    if (pattern !== undefined) put("has another form", "\u0000 ~");
  }
  return all;
}

function ofArray({ path, schema }: Place, value: readonly unknown[]): readonly Spoiled[] {
  const { minItems, maxItems, items = {} } = schema;
  const all: Spoiled[] = [];
  if (Number(minItems) > 0)
    all.push({ what: `${path} has too few`, value: value.slice(0, Number(minItems) - 1) });
  if (maxItems !== undefined && value.length > 0) {
    const many = Array.from({ length: Number(maxItems) + 1 }, () => value[0]);
    all.push({ what: `${path} has too many`, value: many });
  }
  const inside = value.flatMap((item, index) =>
    changes(items as JsonSchema, item, `${path}[${index}]`).map((change) => ({
      what: change.what,
      value: value.with(index, change.value),
    })),
  );
  return [...all, ...inside];
}

function ofObject({ path, schema }: Place, value: Record<string, unknown>): readonly Spoiled[] {
  const properties = (schema["properties"] ?? {}) as Record<string, JsonSchema>;
  const at = (name: string) => (path === "" ? name : `${path}.${name}`);
  const missing = ((schema["required"] ?? []) as string[]).map((name) => ({
    what: `${at(name)} is missing`,
    value: Object.fromEntries(Object.entries(value).filter(([other]) => other !== name)),
  }));
  const more: Spoiled[] = [];
  if (schema["additionalProperties"] === false)
    more.push({ what: `${at("surprise")} is not known`, value: { ...value, surprise: 1 } });
  if (schema["maxProperties"] !== undefined) {
    const count = Number(schema["maxProperties"]) + 1;
    const many = Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, "x"]));
    more.push({ what: `${path} has too many members`, value: many });
  }
  const inside = Object.entries(properties).flatMap(([name, member]) =>
    Object.hasOwn(value, name)
      ? changes(member, value[name], at(name)).map((change) => ({
          what: change.what,
          value: { ...value, [name]: change.value },
        }))
      : [],
  );
  return [...missing, ...more, ...inside];
}

function typesOf(schema: JsonSchema): readonly string[] {
  const { type } = schema;
  if (Array.isArray(type)) return type as string[];
  if (typeof type === "string") return [type];
  return schema["properties"] === undefined ? [] : ["object"];
}

const nameOf = (reference: string) => reference.slice(reference.lastIndexOf("/") + 1);
