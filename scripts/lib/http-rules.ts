/** What a spec must keep to beyond OpenAPI, because a generator or the binding relies on it. */
import { errorTable, type ErrorRow } from "../../src/base/errors.ts";
import {
  componentName,
  componentSchemas,
  dereference,
  isObject,
  listAt,
  type BundledDocument,
  type Schema,
} from "./document.ts";
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
    ...operations.flatMap((operation) => checkBody(document, operation)),
    ...operations.flatMap((operation) => checkResponses(operation)),
    ...operations.flatMap((operation) => checkStream(document, operation)),
    ...checkSchemaRules(document),
    ...checkForeign(document),
  ];
}

/** Names that generators need for themselves. */
const RESERVED = new Set(
  "Any ApiError ApiException ApiResponse AuthenticatedClient Client Configuration Error Exception File List Map Object Request Response String Unset".split(
    " ",
  ),
);

/** What common generators of clients cannot read, print as a type that does not compile, or make required. */
function checkForeign(document: BundledDocument): readonly string[] {
  const names = Object.keys(componentSchemas(document)).filter((name) => RESERVED.has(name));
  const schemas = listSchemas(document["components"], "components").flatMap(({ at, schema }) => {
    const values = schema["additionalProperties"];
    const problems = [
      isObject(values) && Array.isArray(values["type"]) && values["type"].length > 1
        ? "additionalProperties of several types: write true, and the types in the description"
        : "",
      typeof schema["const"] === "boolean" ? "a constant true or false: write type: boolean" : "",
      schema["type"] === "null" && !/\/(?:oneOf|anyOf)\/\d+$/.test(at)
        ? "null alone is not a type: write a union with what it may be"
        : "",
      "default" in schema && at.includes("/properties/")
        ? "a default makes the property required for clients: write it in the description"
        : "",
    ];
    return problems.filter((problem) => problem !== "").map((problem) => `${at}: ${problem}`);
  });
  return [
    ...names.map((name) => `schema ${name}: generators use this name themselves; choose another`),
    ...schemas,
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

function checkBody(document: BundledDocument, { id, body }: Operation): readonly string[] {
  if (body === undefined || body.raw) return [];
  if (body.json === undefined)
    return [`${id}: the request body must be application/json, or the operation must say x-raw-body: true`];
  if (body.required || acceptsEmpty(dereference(document, body.json))) return [];
  return [
    `${id}: an absent body stands for {}, which the schema refuses: make the body required, or its members optional`,
  ];
}

function acceptsEmpty(schema: Schema): boolean {
  const asks = ["required", "minProperties", "oneOf", "anyOf", "allOf"].some((keyword) => keyword in schema);
  return schema["type"] === "object" && !asks;
}

function checkResponses({ id, responses, streamed }: Operation): readonly string[] {
  const success = responses.some(({ status }) => /^[123]\d\d$/.test(status));
  return [
    ...(success ? [] : [`${id}: at least one response below 400 is required`]),
    ...responses.flatMap((response) => checkResponse(id, response, streamed !== undefined)),
  ];
}

function checkStream(document: BundledDocument, { id, streamed }: Operation): readonly string[] {
  if (streamed === undefined || streamed in componentSchemas(document)) return [];
  return [`${id}: x-sse.data names ${streamed}, which is not in components.schemas`];
}

function checkResponse(id: string, { status, media }: Response, isStreamed: boolean): readonly string[] {
  if (status !== "default" && !/^[1-5]\d\d$/.test(status)) {
    return [`${id} ${status}: a status is three digits or default; ranges are not supported`];
  }
  const isJson = media.some(({ type }) => type === "application/json");
  const events = media.find(({ type }) => type === "text/event-stream");
  const problems: string[] = [];
  // `x-sse.data` was read as the last media type.
  if (isJson && events !== undefined && events !== (isStreamed ? media.at(-1) : undefined)) {
    problems.push(
      `${id} ${status}: name the schema of an event in x-sse.data, not beside application/json; clients would take an answer for the union of both`,
    );
  }
  if (events !== undefined && componentName(events.schema["$ref"]) === undefined) {
    problems.push(`${id} ${status}: the text/event-stream schema must be a $ref to the schema of one event`);
  }
  return problems;
}
