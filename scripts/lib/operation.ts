/** Reads the operations of a bundled OpenAPI document into the model that rules and emitters share. */
import {
  componentReference,
  dereference,
  isObject,
  listAt,
  objectAt,
  stringAt,
  type BundledDocument,
  type JsonObject,
  type Schema,
} from "./document.ts";

export interface Operation {
  readonly id: string;
  readonly method: string;
  readonly route: string;
  readonly summary: string | undefined;
  readonly tags: readonly unknown[];
  readonly security: readonly unknown[];
  readonly scope: string | undefined;
  /** `x-strict-query`: an unknown query parameter is refused. */
  readonly strict: boolean;
  /** `x-sse` without `data`. */
  readonly sse: JsonObject | undefined;
  /** `x-sse.data`: the schema of one event of an answer that is JSON or a stream, as the request asks. */
  readonly streamed: string | undefined;
  readonly groups: readonly ParameterGroup[];
  readonly body: Body | undefined;
  readonly responses: readonly Response[];
}

export interface ParameterGroup {
  readonly field: "path" | "query" | "headers";
  readonly parameters: readonly Parameter[];
}

export interface Parameter {
  /** Lower-cased for headers. */
  readonly name: string;
  readonly required: boolean;
  readonly schema: Schema;
  /** The schema with its reference followed: what coercion and defaults are read from. */
  readonly resolved: Schema;
}

export interface Body {
  readonly required: boolean;
  /** `x-raw-body`: the handler gets bytes. */
  readonly raw: boolean;
  readonly json: Schema | undefined;
}

export interface Response {
  /** Three digits, `default`, or whatever else the spec says. */
  readonly status: string;
  readonly headers: readonly ResponseHeader[];
  readonly media: readonly Media[];
}

export interface ResponseHeader {
  /** Lower-cased. */
  readonly name: string;
  readonly required: boolean;
  /** `x-common`: every response carries it. The binding sets it, not the handler. */
  readonly isCommon: boolean;
}

export interface Media {
  readonly type: string;
  readonly schema: Schema;
}

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch"] as const;
const PLACES = { path: "path", query: "query", header: "headers" } as const;

/** In the order of the document. An operation without an id has the id "". */
export function readOperations(document: BundledDocument): readonly Operation[] {
  return Object.entries(objectAt(document, "paths")).flatMap(([route, item]) =>
    METHODS.flatMap((method) => {
      const operation = objectAt(item, method);
      if (Object.keys(operation).length === 0) return [];
      return [readOperation(document, operation, { route, method, shared: listAt(item, "parameters") })];
    }),
  );
}

interface Place {
  readonly route: string;
  readonly method: string;
  readonly shared: readonly unknown[];
}

function readOperation(document: BundledDocument, operation: JsonObject, place: Place): Operation {
  const parameters = [...place.shared, ...listAt(operation, "parameters")].map((each) =>
    dereference(document, each),
  );
  return {
    id: stringAt(operation, "operationId") ?? "",
    method: place.method.toUpperCase(),
    route: place.route,
    summary: stringAt(operation, "summary"),
    tags: listAt(operation, "tags"),
    security: listAt("security" in operation ? operation : document, "security"),
    scope: stringAt(operation, "x-required-scope"),
    strict: operation["x-strict-query"] === true,
    sse: readSse(operation),
    streamed: stringAt(objectAt(operation, "x-sse"), "data"),
    groups: Object.keys(PLACES).flatMap((place) =>
      readGroup(document, parameters, place as keyof typeof PLACES),
    ),
    body: readBody(document, operation),
    responses: Object.entries(objectAt(operation, "responses")).map(([status, response]) =>
      readResponse(document, status, { operation, response: dereference(document, response) }),
    ),
  };
}

function readGroup(
  document: BundledDocument,
  parameters: readonly JsonObject[],
  place: keyof typeof PLACES,
): readonly ParameterGroup[] {
  // The operation's own parameter comes later and replaces the path item's of the same name.
  const byName = new Map<string, Parameter>();
  for (const parameter of parameters.filter((each) => each["in"] === place)) {
    const written = stringAt(parameter, "name") ?? "";
    const name = place === "header" ? written.toLowerCase() : written;
    const schema = objectAt(parameter, "schema");
    byName.set(name, {
      name,
      required: parameter["required"] === true,
      schema,
      resolved: dereference(document, schema),
    });
  }
  return byName.size === 0 ? [] : [{ field: PLACES[place], parameters: [...byName.values()] }];
}

function readBody(document: BundledDocument, operation: JsonObject): Body | undefined {
  const raw = operation["x-raw-body"] === true;
  if (operation["requestBody"] === undefined)
    return raw ? { required: false, raw, json: undefined } : undefined;
  const body = dereference(document, operation["requestBody"]);
  const json = objectAt(body, "content")["application/json"];
  return {
    required: body["required"] === true,
    raw,
    json: isObject(json) ? objectAt(json, "schema") : undefined,
  };
}

function readSse(operation: JsonObject): JsonObject | undefined {
  if (!isObject(operation["x-sse"])) return undefined;
  const { data: _data, ...sse } = operation["x-sse"];
  return sse;
}

function readResponse(
  document: BundledDocument,
  status: string,
  { operation, response }: { readonly operation: JsonObject; readonly response: JsonObject },
): Response {
  const media = Object.entries(objectAt(response, "content")).map(([type, each]) => ({
    type,
    schema: objectAt(each, "schema"),
  }));
  const event = status === "200" ? stringAt(objectAt(operation, "x-sse"), "data") : undefined;
  return {
    status,
    headers: Object.entries(objectAt(response, "headers")).map(([name, header]) => {
      const { required, "x-common": isCommon } = dereference(document, header);
      return { name: name.toLowerCase(), required: required === true, isCommon: isCommon === true };
    }),
    media:
      event === undefined
        ? media
        : [...media, { type: "text/event-stream", schema: componentReference(event) }],
  };
}
