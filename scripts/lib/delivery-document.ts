/** What agentd asks of the platforms that messages go through: one small document each, made into one. Touches the machine. */
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { parse } from "yaml";
import {
  componentSchemas,
  isObject,
  objectAt,
  SpecError,
  type BundledDocument,
  type JsonObject,
} from "./document.ts";
import { exists } from "./files.ts";

/** Below specs/. */
export const DELIVERY_FOLDER = "delivery";

/** The files, by name. */
export async function listDeliverySpecs(specsFolder: string): Promise<readonly string[]> {
  const folder = join(specsFolder, DELIVERY_FOLDER);
  if (!(await exists(folder))) return [];
  const names = (await readdir(folder)).filter((name) => name.endsWith(".yaml"));
  return names.toSorted().map((name) => join(folder, name));
}

/**
 * One document with the paths and schemas of all of them; undefined when there are none. Throws SpecError for what would
 * be mistaken for another platform's: an operation or schema that does not bear its platform's name, a path twice.
 */
export async function readDeliverySpecs(specsFolder: string): Promise<BundledDocument | undefined> {
  const files = await listDeliverySpecs(specsFolder);
  if (files.length === 0) return undefined;
  const documents = await Promise.all(
    files.map(async (file) => ({
      name: basename(file, ".yaml"),
      document: parse(await readFile(file, "utf8")) as BundledDocument,
    })),
  );
  const problems = documents.flatMap(({ name, document }) => nameProblems(name, document));
  const paths = documents.flatMap(({ document }) => Object.entries(objectAt(document, "paths")));
  const twice = paths.map(([path]) => path).filter((path, index, all) => all.indexOf(path) < index);
  problems.push(...twice.map((path) => `${DELIVERY_FOLDER}: two platforms have the path ${path}`));
  if (problems.length > 0) throw new SpecError(problems);
  return {
    openapi: "3.1.1",
    info: { title: "Delivery", version: "1" },
    paths: Object.fromEntries(paths),
    components: {
      schemas: Object.assign({}, ...documents.map(({ document }) => componentSchemas(document))),
    },
  };
}

function nameProblems(name: string, document: JsonObject): readonly string[] {
  const [lower, upper] = [camel(name), camel(name).replace(/^./, (letter) => letter.toUpperCase())];
  const operations = Object.values(objectAt(document, "paths"))
    .flatMap((path) => Object.values(path as JsonObject))
    .flatMap((operation) => (isObject(operation) ? [String(operation["operationId"])] : []));
  const schemas = Object.keys(componentSchemas(document as BundledDocument));
  return [
    ...operations
      .filter((id) => !id.startsWith(lower))
      .map((id) => `operation ${id} must begin with ${lower}`),
    ...schemas.filter((id) => !id.startsWith(upper)).map((id) => `schema ${id} must begin with ${upper}`),
  ].map((problem) => `${DELIVERY_FOLDER}/${name}.yaml: ${problem}`);
}

function camel(name: string): string {
  return name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}
