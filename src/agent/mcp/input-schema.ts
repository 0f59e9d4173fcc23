import { SchemaSet } from "../../base/json/validate.ts";
import { isRecord } from "../../base/json/schema.ts";

type Schema = Readonly<Record<string, unknown>>;

/**
 * A server's schema as one of type object that can be checked. What cannot be, such as a pattern that is none or a
 * reference that leads nowhere, must not fail at each call: it becomes any object, and the server checks for itself.
 */
export function inputSchema(given: Schema): Schema {
  const schema = { ...given, type: "object" };
  try {
    new SchemaSet({}).check(schema, {});
    assertSound(schema, schema);
    return schema;
  } catch {
    return { type: "object" };
  }
}

/** Checking finds these only once some input leads there. */
function assertSound(value: unknown, root: Schema): void {
  if (Array.isArray(value)) return value.forEach((each) => assertSound(each, root));
  if (!isRecord(value)) return;
  if (typeof value["$ref"] === "string" && !leads(value["$ref"], root))
    throw new Error("a reference to nothing");
  if (typeof value["pattern"] === "string") new RegExp(value["pattern"], "u");
  for (const each of Object.values(value)) assertSound(each, root);
}

function leads(reference: string, root: Schema): boolean {
  if (reference === "#") return true;
  if (!reference.startsWith("#/")) return false;
  let at: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    const key = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return false;
    at = (at as Schema)[key];
  }
  return true;
}
