/** Looking up what the schema of the configuration says about a key. Pure. */
import { configSchema } from "../../generated/config/schema.gen.ts";
import type { DotPath } from "../base/json/dotpath.ts";
import { isRecord, resolveReference, type JsonSchema } from "../base/json/schema.ts";

/** The schema of the value at `path`; undefined when the configuration has no such key. */
export function schemaAt(path: DotPath): JsonSchema | undefined {
  return path.reduce<JsonSchema | undefined>((schema, segment) => {
    if (!schema) return undefined;
    if (typeof segment === "number") return asSchema(schema["items"]);
    const { properties, additionalProperties } = schema;
    const known =
      isRecord(properties) && Object.hasOwn(properties, segment) ? properties[segment] : undefined;
    return asSchema(known ?? additionalProperties);
  }, configSchema);
}

/** The names that the schema knows below `path`; none where names are free. */
export function namesAt(path: DotPath): readonly string[] {
  const properties = schemaAt(path)?.["properties"];
  return isRecord(properties) ? Object.keys(properties) : [];
}

/** References in the configuration are never chained with other constraints that matter here. */
function asSchema(value: unknown): JsonSchema | undefined {
  if (!isRecord(value)) return undefined;
  const { $ref, ...beside } = value;
  return typeof $ref === "string" ? { ...resolveReference(configSchema, $ref), ...beside } : value;
}
