/** A schema as tables: its fields with those of nested objects, its alternatives, its values. */
import {
  componentName,
  dereference,
  isObject,
  listAt,
  objectAt,
  stringAt,
  type BundledDocument,
  type Schema,
} from "./document.ts";
import {
  code,
  data,
  join,
  paragraph,
  paragraphs,
  prose,
  table,
  text,
  type Block,
  type Line,
} from "./reference-model.ts";
import { factLines, typeLine, variantsOf } from "./reference-type.ts";

const FIELDS = ["Field", "Type", "Description"];

/** Everything there is to say of a schema, its own description first. */
export function schemaBlocks(document: BundledDocument, schema: Schema): readonly Block[] {
  return [...paragraphs(stringAt(schema, "description")), ...shapeBlocks(document, schema)];
}

/** The shape alone. A schema that is only a name becomes a link and the shape behind it. */
export function shapeBlocks(document: BundledDocument, schema: Schema): readonly Block[] {
  const variants = variantsOf(schema);
  const rows = fieldRows(schema);
  const facts = sentence(factLines({ ...schema, oneOf: undefined, anyOf: undefined, allOf: undefined }));
  const parts = listAt(schema, "allOf").filter((part) => isObject(part) && part["$ref"] !== undefined);
  const isBare = variants.length === 0 && rows.length === 0 && parts.length === 0;
  return [
    ...(isBare ? [paragraph(text("Type: "), ...typeLine(schema), ...after(facts))] : []),
    ...(parts.length > 0
      ? [paragraph(text("All fields of "), ...join(parts.map(typeLine), " and "), text("."))]
      : []),
    ...(variants.length > 0 ? unionBlocks(document, schema, variants) : []),
    ...table(FIELDS, rows),
    ...(isBare || facts.length === 0 ? [] : [paragraph(...facts)]),
    ...(rows.length > 0 && schema["additionalProperties"] === false
      ? [paragraph(text("Other fields are refused."))]
      : []),
  ];
}

/** One row a field: its path, its type, what it is and may be. */
export function fieldRows(schema: Schema, path = "", condition: Line = []): readonly (readonly Line[])[] {
  const required = new Set(listAt(schema, "required"));
  const own = Object.entries(objectAt(schema, "properties")).flatMap(([name, field]) =>
    fieldRow({ path: `${path}${name}`, field, required: required.has(name), condition }),
  );
  const patterned = Object.entries(objectAt(schema, "patternProperties")).flatMap(([pattern, field]) =>
    fieldRow({ path: `${path}/${pattern}/`, field, required: false, condition }),
  );
  const merged = listAt(schema, "allOf")
    .filter(isObject)
    .flatMap((part) => fieldRows(part, path, condition));
  return [...own, ...patterned, ...merged];
}

interface Field {
  readonly path: string;
  readonly field: unknown;
  readonly required: boolean;
  readonly condition: Line;
}

function fieldRow({ path, field, required, condition }: Field): readonly (readonly Line[])[] {
  const schema = isObject(field) ? field : {};
  const about = join(
    [
      condition,
      required ? [text("Required.")] : [],
      prose(stringAt(schema, "description") ?? ""),
      sentence(factLines(schema)),
    ],
    " ",
  );
  return [[[code(path)], typeLine(field), about], ...nestedRows(schema, path)];
}

/** The rows of what a field holds, as long as that has no name of its own. */
function nestedRows(schema: Schema, path: string): readonly (readonly Line[])[] {
  const variants = variantsOf(schema);
  const objects = variants.filter((each) => fieldRows(each).length > 0);
  return [
    ...fieldRows(schema, `${path}.`),
    ...objects.flatMap((each) => fieldRows(each, `${path}.`, objects.length > 1 ? conditionOf(each) : [])),
    ...variants.flatMap((each) => containerRows(each, path)),
    ...containerRows(schema, path),
  ];
}

function containerRows(schema: Schema, path: string): readonly (readonly Line[])[] {
  const { items, additionalProperties: values } = schema;
  return [
    ...(isObject(items) ? nestedRows(items, `${path}[]`) : []),
    ...(isObject(values) ? nestedRows(values, `${path}.*`) : []),
  ];
}

/** Of which alternative a field is: by the constants of that alternative. */
function conditionOf(schema: Schema): Line {
  const marks = Object.entries(objectAt(schema, "properties")).flatMap(([name, field]) =>
    isObject(field) && field["const"] !== undefined ? [[code(name), text(" is "), data(field["const"])]] : [],
  );
  const title = stringAt(schema, "title");
  if (marks.length > 0) return [text("If "), ...join(marks, " and "), text(".")];
  return title === undefined ? [] : [text(`In ${title}.`)];
}

/** The alternatives as a table: the value that distinguishes them, the schema, what it is. */
function unionBlocks(
  document: BundledDocument,
  schema: Schema,
  variants: readonly Schema[],
): readonly Block[] {
  const property =
    stringAt(objectAt(schema, "discriminator"), "propertyName") ?? commonConstant(document, variants);
  const mapping = objectAt(objectAt(schema, "discriminator"), "mapping");
  const rows = variants.map((variant) => {
    const resolved = dereference(document, variant);
    const mapped = Object.entries(mapping).filter(([, target]) => target === variant["$ref"]);
    const values = mapped.length > 0 ? mapped.map(([value]) => value) : constants(resolved, property);
    return [
      ...(property === undefined
        ? []
        : [
            join(
              values.map((value) => [code(String(value))]),
              ", ",
            ),
          ]),
      typeLine(variant),
      join(
        [prose(stringAt(resolved, "description") ?? ""), finality(resolved), sentence(factLines(variant))],
        " ",
      ),
    ];
  });
  const unnamed = variants.filter(
    (variant) => variant["$ref"] === undefined && fieldRows(variant).length > 0,
  );
  return [
    paragraph(
      text("One of"),
      ...(property === undefined ? [text(":")] : [text(", distinguished by "), code(property), text(":")]),
    ),
    ...table([...(property === undefined ? [] : [property]), "Type", "Description"], rows),
    ...table(
      FIELDS,
      unnamed.flatMap((each) => fieldRows(each, "", unnamed.length > 1 ? conditionOf(each) : [])),
    ),
  ];
}

/** The first field that is a constant or a list of values in every alternative. */
function commonConstant(document: BundledDocument, variants: readonly Schema[]): string | undefined {
  const resolved = variants.map((variant) => dereference(document, variant));
  const names = Object.keys(objectAt(resolved[0], "properties"));
  return names.find((name) => resolved.every((each) => constants(each, name).length > 0));
}

function constants(schema: Schema, property: string | undefined): readonly unknown[] {
  const field = property === undefined ? {} : objectAt(objectAt(schema, "properties"), property);
  return field["const"] === undefined ? listAt(field, "enum") : [field["const"]];
}

function finality(schema: Schema): Line {
  return schema["x-final"] === true ? [text("The last event.")] : [];
}

/** `At most 20; default 5.` */
export function sentence(facts: readonly Line[]): Line {
  const line = join(facts, "; ");
  const [first, ...rest] = line;
  if (first === undefined) return [];
  const words = { ...first, text: first.kind === "text" ? capitalize(first.text) : first.text };
  return [words, ...rest, text(".")];
}

/** The name of a body's schema and its shape, so that the fields are readable without following the link. */
export function openSchema(document: BundledDocument, schema: Schema): readonly Block[] {
  if (componentName(schema["$ref"]) === undefined) return schemaBlocks(document, schema);
  return [paragraph(...typeLine(schema)), ...schemaBlocks(document, dereference(document, schema))];
}

function after(facts: Line): Line {
  return facts.length === 0 ? [] : [text(". "), ...facts];
}

function capitalize(words: string): string {
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}
