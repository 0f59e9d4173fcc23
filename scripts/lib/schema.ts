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

/** What the server validates instead of the schema that carries it; a handler checks the rest, with error codes of its own. */
const SERVER_SCHEMA = "x-server-schema";

/** The schema as a validator needs it: no prose, no defaults, no extensions. */
export function stripAnnotations(schema: Schema): Schema {
  return mapSchema(schema, (each) => {
    const { [SERVER_SCHEMA]: server } = each;
    if (isObject(server)) return server;
    return Object.fromEntries(
      Object.entries(each).filter(
        ([keyword, value]) =>
          !ANNOTATIONS.has(keyword) &&
          !keyword.startsWith("x-") &&
          // What makeExplicit adds.
          !(keyword === "format" && NUMBER_FORMATS.has(String(value))) &&
          !(keyword === "type" && "const" in each),
      ),
    );
  }) as Schema;
}

const FORMATS: Readonly<Record<string, string>> = { number: "double", integer: "int64" };
const NUMBER_FORMATS = new Set(Object.values(FORMATS));

/**
 * Returns the document with what JSON Schema leaves implied: the type of each `const`, and the format of each number.
 * Without them generators for typed languages choose `any` and 32 bits.
 */
export function makeExplicit<T>(document: T): T {
  return mapSchema(document, (schema) => {
    const typed =
      "const" in schema && !("type" in schema) ? { type: typeOf(schema["const"]), ...schema } : schema;
    const types = Array.isArray(typed["type"]) ? typed["type"] : [typed["type"]];
    const format = types.map((type) => FORMATS[String(type)]).find((each) => each !== undefined);
    return format === undefined || "format" in typed ? typed : { ...typed, format };
  }) as T;
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
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

export interface Place {
  /** Keywords and names from the start, with `/` before each. */
  readonly at: string;
  readonly schema: Schema;
}

/** `schema` and every schema inside it. */
export function listSchemas(schema: unknown, at: string): readonly Place[] {
  if (Array.isArray(schema)) return schema.flatMap((item, index) => listSchemas(item, `${at}/${index}`));
  if (!isObject(schema)) return [];
  const inner = Object.entries(schema).flatMap(([keyword, value]) => {
    if (DATA.has(keyword)) return [];
    if (!NAME_MAPS.has(keyword) || !isObject(value)) return listSchemas(value, `${at}/${keyword}`);
    return Object.entries(value).flatMap(([name, item]) => listSchemas(item, `${at}/${keyword}/${name}`));
  });
  return [{ at, schema }, ...inner];
}

function mapKeyword(keyword: string, value: unknown, visit: (schema: Schema) => Schema): unknown {
  if (DATA.has(keyword)) return value;
  if (!NAME_MAPS.has(keyword) || !isObject(value)) return mapSchema(value, visit);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, mapSchema(item, visit)]));
}
