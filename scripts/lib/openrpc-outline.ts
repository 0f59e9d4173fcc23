/**
 * The form in which a bundle goes through @open-rpc/generator. The generator replaces every reference by what it points
 * to: a schema that contains itself would never end, and the names of all others would be lost. So the outline cuts
 * each component off after its own level and marks it with its name.
 */
import {
  componentName,
  componentReference,
  componentSchemas,
  isObject,
  objectAt,
  stringAt,
  type BundledDocument,
  type JsonObject,
  type Schema,
} from "./document.ts";
import { mapSchema } from "./schema.ts";

/** Names the component that a schema is, or stands for. */
const COMPONENT = "x-component";

/**
 * Returns the bundle with components that contain no references; methods keep theirs, for the generator to resolve. Of
 * a list of types the first one stays: the generator warns of lists, and no contract prints types.
 */
export function outlineOf(bundle: BundledDocument): BundledDocument {
  const outline = mapSchema(bundle, takeFirstType) as BundledDocument;
  const schemas = Object.entries(componentSchemas(outline)).map(([name, schema]) => [
    name,
    { ...cutReferences(schema), title: name, [COMPONENT]: name },
  ]);
  return { ...outline, components: { ...outline.components, schemas: Object.fromEntries(schemas) } };
}

/** Returns the document that the generator handed over with the references of the bundle in place of marked schemas. */
export function restoreReferences(handedOver: JsonObject): BundledDocument {
  const schemas = Object.entries(objectAt(objectAt(handedOver, "components"), "schemas")).map(
    ([name, schema]) => {
      const { [COMPONENT]: _name, ...own } = isObject(schema) ? schema : {};
      return [name, restore(own)];
    },
  );
  return {
    ...(restore(handedOver) as BundledDocument),
    components: { schemas: Object.fromEntries(schemas) },
  };
}

function takeFirstType(schema: Schema): Schema {
  const { type } = schema;
  return Array.isArray(type) ? { ...schema, type: type[0] as unknown } : schema;
}

function cutReferences(schema: Schema): Schema {
  return mapSchema(schema, (each) => {
    const name = componentName(each["$ref"]);
    return name === undefined ? each : { title: name, [COMPONENT]: name };
  }) as Schema;
}

function restore(node: unknown): unknown {
  return mapSchema(node, (each) => {
    const name = stringAt(each, COMPONENT);
    return name === undefined ? each : componentReference(name);
  });
}
