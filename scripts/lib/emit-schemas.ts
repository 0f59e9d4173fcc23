/** Prints the component schemas of a document, and which TypeScript type each of them has. */
import type { Schemas } from "./document.ts";
import { HEADER, printLiteral, printRows } from "./print.ts";
import { stripAnnotations } from "./schema.ts";

/** Only what validators need: annotations are dropped. */
export function emitSchemas(
  schemas: Schemas,
  imports: { readonly types: string; readonly contract: string },
): string {
  const rows = Object.entries(schemas);
  return `${HEADER}
import type { SchemaMap } from "${imports.contract}";
import type * as T from "${imports.types}";

/** JSON Schema 2020-12, by component name; \`#/components/schemas/X\` points into this map. */
export const schemas: SchemaMap = {
${printRows(
  rows.map(([name, schema]) => [name, printLiteral(stripAnnotations(schema), "  ")]),
  ",",
)}};

/** Component name -> TypeScript type. */
export interface SchemaTypes {
${printRows(
  rows.map(([name]) => [name, `T.${name}`]),
  ";",
)}}
`;
}
