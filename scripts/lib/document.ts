/** The bundled documents as plain JSON, and the few shapes the emitters read from them. */

export interface JsonObject {
  readonly [key: string]: unknown;
}

/** JSON Schema 2020-12, never boolean at the places the emitters look. */
export type Schema = JsonObject;
export type Schemas = Readonly<Record<string, Schema>>;

export interface BundledDocument extends JsonObject {
  readonly info: { readonly title: string; readonly version: string };
  readonly components?: { readonly schemas?: Schemas };
}

export interface MediaType extends JsonObject {
  readonly schema?: Schema;
}

/** What is wrong with the specs, one line a problem. Its message is all that `codegen` prints. */
export class SpecError extends Error {
  override readonly name = "SpecError";

  constructor(problems: readonly string[]) {
    super(problems.join("\n"));
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object at `key`, or an empty one. */
export function objectAt(parent: unknown, key: string): JsonObject {
  const value = isObject(parent) ? parent[key] : undefined;
  return isObject(value) ? value : {};
}

/** The objects of the list at `key`; none when there is no list. */
export function listAt(parent: unknown, key: string): readonly unknown[] {
  const value = isObject(parent) ? parent[key] : undefined;
  return Array.isArray(value) ? value : [];
}

export function stringAt(parent: JsonObject, key: string): string | undefined {
  const value = parent[key];
  return typeof value === "string" ? value : undefined;
}

/** Follows `$ref` chains inside the bundle; redocly left no other kind. Throws SpecError when a pointer leads nowhere. */
export function dereference(document: JsonObject, node: unknown): JsonObject {
  let current = node;
  for (let hops = 0; isObject(current) && typeof current["$ref"] === "string"; hops += 1) {
    const pointer = current["$ref"];
    if (hops > 32) throw new SpecError([`${pointer}: this reference goes round in a circle`]);
    current = pointer.replace(/^#\//, "").split("/").reduce<unknown>(step, document);
    if (current === undefined) throw new SpecError([`${pointer}: nothing there in the bundle`]);
  }
  return isObject(current) ? current : {};
}

/** `Run` of `#/components/schemas/Run`; undefined for a reference to anything else. */
export function componentName(reference: unknown): string | undefined {
  return typeof reference === "string" ? /^#\/components\/schemas\/([^/]+)$/.exec(reference)?.[1] : undefined;
}

export function componentReference(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}

export function componentSchemas(document: BundledDocument): Schemas {
  return document.components?.schemas ?? {};
}

function step(parent: unknown, segment: string): unknown {
  const key = decodeURIComponent(segment).replaceAll("~1", "/").replaceAll("~0", "~");
  return isObject(parent) || Array.isArray(parent) ? (parent as JsonObject)[key] : undefined;
}
