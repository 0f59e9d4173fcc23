/** The configuration schema on its way through the bundler and the type printer, which read only OpenAPI. */
import {
  componentName,
  componentReference,
  componentSchemas,
  dereference,
  isObject,
  type BundledDocument,
  type Schema,
  type Schemas,
} from "./document.ts";
import { HEADER, printLiteral } from "./print.ts";
import { mapReferences, mapSchema } from "./schema.ts";

/** Name of the type that the whole file has. */
const ROOT = "Config";
/** The component that the bundler makes of the file, named after it. */
const HOISTED = "config.schema";

/** An OpenAPI document that holds nothing but components. */
export function wrapSchemas(schemas: Schemas): BundledDocument {
  return { openapi: "3.1.1", info: { title: "schemas", version: "0" }, paths: {}, components: { schemas } };
}

/** What the bundler is given for the schema in `file` (absolute). */
export function wrapConfig(file: string): BundledDocument {
  return wrapSchemas({ [ROOT]: { $ref: file } });
}

/** The bundled wrapper with the file itself as component `Config` and its definitions beside it. */
export function unwrapConfig(bundle: BundledDocument): BundledDocument {
  const { [HOISTED]: file = {}, [ROOT]: _alias, ...definitions } = componentSchemas(bundle);
  // The bundler hoists the file's own `$defs` and leaves a second copy inside.
  const { $schema: _schema, $id: _id, $defs: _defs, ...root } = file;
  const sorted = Object.entries(definitions).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const schemas: Schemas = { [ROOT]: root, ...Object.fromEntries(sorted) };
  const renamed = Object.entries(schemas).map(([name, schema]) => [
    name,
    mapReferences(schema, (reference) => (componentName(reference) === HOISTED ? pointer(ROOT) : reference)),
  ]);
  return wrapSchemas(Object.fromEntries(renamed));
}

/** One self-contained JSON Schema 2020-12 with `$defs`, for editors and for the validator. */
export function toJsonSchema(config: BundledDocument): Schema {
  const local = (schema: Schema) =>
    mapReferences(schema, (reference) => {
      const name = componentName(reference);
      return name === undefined ? reference : name === ROOT ? "#" : `#/$defs/${name}`;
    });
  const { [ROOT]: root = {}, ...definitions } = componentSchemas(config);
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    ...local(root),
    $defs: Object.fromEntries(Object.entries(definitions).map(([name, schema]) => [name, local(schema)])),
  };
}

/** The same schemas as they hold once defaults were filled in: a property with a default is always there. */
export function requireDefaults(config: BundledDocument): BundledDocument {
  const filled = Object.entries(componentSchemas(config)).map(([name, schema]) => [
    name,
    mapSchema(schema, (each) => requireOwnDefaults(config, each)),
  ]);
  return wrapSchemas(Object.fromEntries(filled));
}

/** The constant that `config check` and the filling of defaults read: descriptions and defaults are kept. */
export function emitConfigSchema(schema: Schema): string {
  return `${HEADER}
/** JSON Schema 2020-12 of the configuration file. */
export const configSchema: Readonly<Record<string, unknown>> = ${printLiteral(schema)};
`;
}

function requireOwnDefaults(config: BundledDocument, schema: Schema): Schema {
  const { properties, required } = schema;
  if (!isObject(properties)) return schema;
  const filled = Object.keys(properties).filter((name) => {
    const property = properties[name];
    return isObject(property) && ("default" in property || "default" in dereference(config, property));
  });
  const names = new Set([...(Array.isArray(required) ? required : []), ...filled]);
  return names.size === 0 ? schema : { ...schema, required: [...names] };
}

function pointer(name: string): string {
  return String(componentReference(name)["$ref"]);
}
