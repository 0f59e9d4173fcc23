/** What a spec must keep to beyond OpenAPI, because a generator or the binding relies on it. */
import { errorTable, type ErrorRow } from "../../src/base/errors.ts";
import { componentName, componentSchemas, listAt, type BundledDocument } from "./document.ts";
import type { Operation, Response } from "./operation.ts";
import { listSchemas } from "./schema.ts";

/** Every broken rule, with the place and what to write instead; empty when the document is fine. */
export function checkHttpRules(
  document: BundledDocument,
  operations: readonly Operation[],
): readonly string[] {
  return [
    ...operations.flatMap(checkId),
    ...findRepeated(operations),
    ...operations.flatMap((operation) => checkBody(operation)),
    ...operations.flatMap((operation) => checkResponses(operation)),
    ...checkSchemaRules(document),
  ];
}

/** The rules of the component schemas, shared with the RPC documents and the configuration. */
export function checkSchemaRules(document: BundledDocument): readonly string[] {
  const names = Object.keys(componentSchemas(document))
    .filter((name) => !/^[A-Z][A-Za-z0-9]*$/.test(name))
    .map(
      (name) =>
        `schema ${name}: names are PascalCase letters and digits` +
        (/-\d+$/.test(name)
          ? "; this one was made because two different schemas share a name: rename one"
          : ""),
    );
  const unions = ["paths", "methods", "components"]
    .flatMap((part) => listSchemas(document[part], part))
    .filter(({ schema }) => "anyOf" in schema);
  return [
    ...names,
    ...unions.map(({ at }) => `${at}: write anyOf as oneOf, with a const tag in each branch`),
  ];
}

/**
 * Compares the codes and types of `ErrorEnvelope` with the error table, in both directions: what one of them lacks is a
 * problem. A document without an envelope has none.
 */
export function checkErrorCodes(
  document: BundledDocument,
  table: Readonly<Record<string, ErrorRow>> = errorTable,
): readonly string[] {
  const schemas = componentSchemas(document);
  if (!("ErrorEnvelope" in schemas)) return [];
  const rows = Object.entries(table).filter(([, { only }]) => only !== "rpc");
  const codes = new Set(rows.map(([code, { wire = code }]) => wire));
  const types = new Set(rows.map(([, { type }]) => type));
  return [...compareEnum(schemas, "ErrorCode", codes), ...compareEnum(schemas, "ErrorType", types)];
}

function compareEnum(
  schemas: ReturnType<typeof componentSchemas>,
  name: string,
  known: ReadonlySet<string>,
): readonly string[] {
  const listed = new Set(listAt(schemas[name], "enum").map(String));
  return [
    ...[...known]
      .filter((value) => !listed.has(value))
      .map((value) => `schema ${name}: ${value} is in src/base/errors.ts and not in the enum`),
    ...[...listed]
      .filter((value) => !known.has(value))
      .map((value) => `schema ${name}: ${value} is in the enum, and src/base/errors.ts has no such row`),
  ];
}

function checkId({ id, method, route }: Operation): readonly string[] {
  if (id === "") return [`${method} ${route}: operationId is required`];
  // Runs of capitals would be renamed by the type printer (getURL becomes GetUrl).
  if (/^[a-z][a-z0-9]*(?:[A-Z][a-z0-9]+)*$/.test(id)) return [];
  return [`${method} ${route}: operationId "${id}" must be camelCase, without runs of capitals`];
}

function findRepeated(operations: readonly Operation[]): readonly string[] {
  return operations.flatMap(({ id, method, route }, index) => {
    const first = operations.findIndex((other) => other.id === id);
    const { method: firstMethod, route: firstRoute } = operations[first] ?? { method, route };
    if (id === "" || first === index) return [];
    return [
      `${method} ${route}: operationId "${id}" is taken by ${firstMethod} ${firstRoute}; it must be unique`,
    ];
  });
}

function checkBody({ id, body }: Operation): readonly string[] {
  if (body === undefined || body.raw || body.json !== undefined) return [];
  return [`${id}: the request body must be application/json, or the operation must say x-raw-body: true`];
}

function checkResponses({ id, responses }: Operation): readonly string[] {
  const success = responses.some(({ status }) => /^[123]\d\d$/.test(status));
  return [
    ...(success ? [] : [`${id}: at least one response below 400 is required`]),
    ...responses.flatMap((response) => checkResponse(id, response)),
  ];
}

function checkResponse(id: string, { status, media }: Response): readonly string[] {
  if (status !== "default" && !/^[1-5]\d\d$/.test(status)) {
    return [`${id} ${status}: a status is three digits or default; ranges are not supported`];
  }
  const json = media.findIndex(({ type }) => type === "application/json");
  const events = media.find(({ type }) => type === "text/event-stream");
  const problems: string[] = [];
  if (json > 0) {
    problems.push(`${id} ${status}: list application/json first; clients are typed by the first media type`);
  }
  if (events !== undefined && componentName(events.schema["$ref"]) === undefined) {
    problems.push(`${id} ${status}: the text/event-stream schema must be a $ref to the schema of one event`);
  }
  return problems;
}
