/** Walks over JSON Schemas: what is a keyword, what is a name, what is data. */
import { isObject, type Schema } from "./document.ts";

/** Keywords that only document; validators are built without them. */
const ANNOTATIONS = new Set([
  "title",
  "description",
  "examples",
  "example",
  "deprecated",
  "externalDocs",
  "discriminator",
  "xml",
  "default",
  "readOnly",
  "writeOnly",
  "$comment",
]);
/** Keywords whose members are named by the author, not by the standard. */
const NAME_MAPS = new Set(["properties", "patternProperties", "$defs", "dependentSchemas", "schemas"]);
/** Keywords whose value is data, even where it looks like a schema. */
const DATA = new Set([
  "const",
  "enum",
  "default",
  "examples",
  "example",
  "required",
  "dependentRequired",
  "mapping",
]);

/** A copy of `schema` in which `visit` rewrote every schema, the inner ones first. */
export function mapSchema(schema: unknown, visit: (schema: Schema) => Schema): unknown {
  if (Array.isArray(schema)) return schema.map((item) => mapSchema(item, visit));
  if (!isObject(schema)) return schema;
  const keywords = Object.entries(schema).map(([keyword, value]) => [
    keyword,
    mapKeyword(keyword, value, visit),
  ]);
  return visit(Object.fromEntries(keywords));
}

/** The schema as a validator needs it: no prose, no defaults, no extensions. */
export function stripAnnotations(schema: Schema): Schema {
  return mapSchema(schema, (each) =>
    Object.fromEntries(
      Object.entries(each).filter(([keyword]) => !ANNOTATIONS.has(keyword) && !keyword.startsWith("x-")),
    ),
  ) as Schema;
}

/** `discriminator` is OpenAPI's own, and the bundler does not rewrite its mapping elsewhere. */
export function dropDiscriminators<T>(document: T): T {
  return mapSchema(document, ({ discriminator: _discriminator, ...rest }) => rest) as T;
}

/** Rewrites every `$ref` of `schema`. */
export function mapReferences(schema: Schema, rewrite: (reference: string) => string): Schema {
  return mapSchema(schema, (each) => {
    const reference = each["$ref"];
    return typeof reference === "string" ? { ...each, $ref: rewrite(reference) } : each;
  }) as Schema;
}

/** Every place that uses `keyword`, as a path below `at`. */
export function findKeyword(schema: unknown, keyword: string, at: string): readonly string[] {
  if (Array.isArray(schema))
    return schema.flatMap((item, index) => findKeyword(item, keyword, `${at}/${index}`));
  if (!isObject(schema)) return [];
  return Object.entries(schema).flatMap(([key, value]) => {
    if (DATA.has(key)) return [];
    const here = key === keyword ? [`${at}/${key}`] : [];
    if (!NAME_MAPS.has(key) || !isObject(value))
      return [...here, ...findKeyword(value, keyword, `${at}/${key}`)];
    return [
      ...here,
      ...Object.entries(value).flatMap(([name, item]) => findKeyword(item, keyword, `${at}/${key}/${name}`)),
    ];
  });
}

function mapKeyword(keyword: string, value: unknown, visit: (schema: Schema) => Schema): unknown {
  if (DATA.has(keyword)) return value;
  if (!NAME_MAPS.has(keyword) || !isObject(value)) return mapSchema(value, visit);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, mapSchema(item, visit)]));
}
