/** What a schema says of one value, in a line: its type, and its limits. */
import { componentName, isObject, listAt, objectAt, stringAt, type Schema } from "./document.ts";
import { anchor, code, data, join, link, text, type Line } from "./reference-model.ts";

/** Alternatives of a schema, `oneOf` or `anyOf`; none when it is not a union. */
export function variantsOf(schema: Schema): readonly Schema[] {
  return [...listAt(schema, "oneOf"), ...listAt(schema, "anyOf")].filter(isObject);
}

export function schemaAnchor(name: string): string {
  return anchor("schema", name);
}

/** The type of a value; schemas with a name are linked, never opened, so recursion ends here. */
export function typeLine(schema: unknown): Line {
  if (schema === false) return [text("nothing")];
  if (!isObject(schema)) return [text("any")];
  const name = componentName(schema["$ref"]);
  if (name !== undefined) return [link(name, schemaAnchor(name))];
  if (schema["const"] !== undefined) return [data(schema["const"])];
  if (Array.isArray(schema["enum"])) return alternatives(schema["enum"].map((value) => [data(value)]));
  const variants = variantsOf(schema);
  if (variants.length > 0) return alternatives(variants.map(typeLine));
  const parts = listAt(schema, "allOf");
  if (parts.length > 0) return join(parts.map(typeLine), " and ");
  return plainType(schema);
}

/** Limits and notes of a value, besides its type: `1 to 64 characters`, `default 20`. */
export function factLines(schema: unknown): readonly Line[] {
  if (!isObject(schema)) return [];
  return [
    ...(schema["deprecated"] === true ? [[text("deprecated")]] : []),
    ...(schema["readOnly"] === true ? [[text("only in answers")]] : []),
    ...(schema["writeOnly"] === true ? [[text("only in requests")]] : []),
    ...range(schema, ["minimum", "maximum"], ""),
    ...range(schema, ["minLength", "maxLength"], "characters"),
    ...range(schema, ["minItems", "maxItems"], "items"),
    ...range(schema, ["minProperties", "maxProperties"], "fields"),
    ...fact(schema, "exclusiveMinimum", "more than"),
    ...fact(schema, "exclusiveMaximum", "less than"),
    ...fact(schema, "multipleOf", "a multiple of"),
    ...(schema["uniqueItems"] === true ? [[text("no duplicates")]] : []),
    ...(stringAt(schema, "pattern") === undefined
      ? []
      : [[text("matches "), code(String(schema["pattern"]))]]),
    ...(isObject(schema["not"]) ? [[text("not "), ...describeNot(schema["not"])]] : []),
    ...innerFacts(schema),
    ...defaultFact(schema),
    ...(schema["example"] === undefined ? [] : [[text("for example "), data(schema["example"])]]),
    ...(listAt(schema, "examples").length === 0
      ? []
      : [[text("for example "), ...alternatives(listAt(schema, "examples").map((value) => [data(value)]))]]),
  ];
}

/** Several types as one line, each once. */
function alternatives(lines: readonly Line[]): Line {
  const seen = new Set<string>();
  const once = lines.filter((line) => {
    const key = JSON.stringify(line);
    return seen.has(key) ? false : seen.add(key);
  });
  return join(once, " or ");
}

function plainType(schema: Schema): Line {
  const declared = schema["type"];
  const names: readonly unknown[] = Array.isArray(declared) ? declared : [declared ?? guess(schema)];
  return alternatives(names.map((name) => typeNamed(String(name), schema)));
}

/** What a schema without `type` must mean by its other keywords. */
function guess(schema: Schema): string {
  if ("properties" in schema || "additionalProperties" in schema) return "object";
  if ("items" in schema || "prefixItems" in schema) return "array";
  return "any";
}

function typeNamed(name: string, schema: Schema): Line {
  if (name === "array") {
    const prefix = listAt(schema, "prefixItems");
    if (prefix.length > 0) return [text("array of "), ...join(prefix.map(typeLine), ", then ")];
    return schema["items"] === undefined
      ? [text("array")]
      : [text("array of "), ...typeLine(schema["items"])];
  }
  if (name === "object") {
    const values = schema["additionalProperties"];
    const isMap = Object.keys(objectAt(schema, "properties")).length === 0 && isObject(values);
    return isMap ? [text("map of "), ...typeLine(values)] : [text("object")];
  }
  const format = stringAt(schema, "format");
  return [text(format === undefined || name !== "string" ? name : `${name} (${format})`)];
}

function range(schema: Schema, [low, high]: readonly [string, string], unit: string): readonly Line[] {
  const [least, most] = [schema[low], schema[high]];
  if (least === 1 && most === undefined && unit !== "") return [[text("not empty")]];
  const words =
    least !== undefined && most !== undefined
      ? least === most
        ? `exactly ${String(least)}`
        : `${String(least)} to ${String(most)}`
      : least !== undefined
        ? `at least ${String(least)}`
        : most !== undefined
          ? `at most ${String(most)}`
          : undefined;
  return words === undefined ? [] : [[text(`${words} ${most === 1 ? unit.replace(/s$/, "") : unit}`.trim())]];
}

function fact(schema: Schema, keyword: string, words: string): readonly Line[] {
  return schema[keyword] === undefined ? [] : [[text(`${words} ${String(schema[keyword])}`)]];
}

function describeNot(schema: Schema): Line {
  const required = listAt(schema, "required");
  if (required.length === 0) return typeLine(schema);
  return [
    text("with "),
    ...join(
      required.map((name) => [code(String(name))]),
      " and ",
    ),
  ];
}

/** An empty object says nothing: the fields inside have defaults of their own. */
function defaultFact(schema: Schema): readonly Line[] {
  const value = schema["default"];
  const isEmpty = isObject(value) && Object.keys(value).length === 0;
  return value === undefined || isEmpty ? [] : [[text("default "), data(value)]];
}

/** The limits of items, of values and names of a map, and of the alternatives that have no name. */
function innerFacts(schema: Schema): readonly Line[] {
  const inside = (words: string, inner: unknown): readonly Line[] =>
    isObject(inner) && inner["$ref"] === undefined
      ? factLines(inner).map((line) => [text(`${words} `), ...line])
      : [];
  const variants = [...variantsOf(schema), ...listAt(schema, "allOf").filter(isObject)].filter(
    (each) => each["$ref"] === undefined && each["type"] !== "null",
  );
  return [
    ...inside("each", schema["items"]),
    ...inside("each value", schema["additionalProperties"]),
    ...inside("each name", schema["propertyNames"]),
    ...variants.flatMap((each) =>
      variants.length === 1
        ? factLines(each)
        : factLines(each).map((line) => [...typeLine(each), text(": "), ...line]),
    ),
  ];
}
