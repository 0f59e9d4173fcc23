/** Prints the server contract of an OpenAPI document: the typed operations and their tables. */
import { componentName, isObject, listAt, type BundledDocument, type Schema } from "./document.ts";
import type { Media, Operation, Parameter, ParameterGroup, Response } from "./operation.ts";
import { HEADER, pascalCase, printDoc, printKey, printLiteral, printRows } from "./print.ts";
import { stripAnnotations } from "./schema.ts";

/** Where the printed file finds its imports. */
export interface HttpImports {
  readonly types: string;
  readonly contract: string;
}

/** The helper types of the contract that only some documents use. */
const HELPERS = ["ErrorStatus", "LowercaseKeys", "SseMessage", "WithDefaults"];

export function emitHttp(
  document: BundledDocument,
  operations: readonly Operation[],
  imports: HttpImports,
): string {
  const { title, version } = document.info;
  const members = operations.map(printOperation).join("");
  const helpers = HELPERS.filter((name) => members.includes(name));
  return `${HEADER}
import type { ${["OperationMeta", ...helpers].toSorted().join(", ")} } from "${imports.contract}";
import type * as T from "${imports.types}";

/** What each operation is asked and may answer. */
export interface Operations {
${members}}

export type OperationId = keyof Operations;

export const operations: { readonly [K in OperationId]: OperationMeta } = {
${printRows(
  operations.map((operation) => [operation.id, printLiteral(describe(operation), "  ")]),
  ",",
)}};

export const info = ${printLiteral({ title, version })} as const;
${printAliases(document, operations)}`;
}

/** Prints the other paths of operations, `x-aliases`. Throws for one without an operation. */
function printAliases(document: BundledDocument, operations: readonly Operation[]): string {
  const aliases = listAt(document, "x-aliases").filter(isObject);
  const stray = aliases.find(({ operation }) => !operations.some(({ id }) => id === operation));
  if (stray) throw new Error(`x-aliases: ${String(stray["operation"])} is not an operation of this document`);
  return aliases.length === 0
    ? ""
    : `
/** Other paths of operations, which answer in the format of other agents. */
export const aliases = ${printLiteral(aliases)} as const satisfies readonly {
  readonly name: string;
  readonly method: string;
  readonly route: string;
  readonly operation: OperationId;
}[];
`;
}

function printOperation(operation: Operation): string {
  const request = [...operation.groups.map((group) => printGroup(operation, group)), ...printBody(operation)];
  const answers = operation.responses.flatMap((response) => printResponse(operation, response));
  return [
    printDoc(operation.summary, "  "),
    `  ${printKey(operation.id)}: {\n`,
    `    request: ${request.length === 0 ? "{}" : `{ ${request.join("; ")} }`};\n`,
    `    response:\n${answers.map((answer) => `      | ${answer}\n`).join("")}`,
    "  };\n",
  ].join("");
}

function printGroup({ id }: Operation, { field, parameters }: ParameterGroup): string {
  const printed = `NonNullable<T.${pascalCase(id)}Data["${field}"]>`;
  const cased = field === "headers" ? `LowercaseKeys<${printed}>` : printed;
  const filled = parameters.filter(hasDefault).map(({ name }) => JSON.stringify(name));
  const type = filled.length === 0 ? cased : `WithDefaults<${cased}, ${filled.join(" | ")}>`;
  return `readonly ${field}: ${type}`;
}

function printBody({ id, body }: Operation): readonly string[] {
  if (body === undefined) return [];
  if (body.raw) return ["readonly rawBody: Uint8Array"];
  // The binding passes {} for an absent body.
  return [`readonly body: NonNullable<T.${pascalCase(id)}Data["body"]>`];
}

function printResponse(operation: Operation, response: Response): readonly string[] {
  const { media } = response;
  const headers = response.headers.filter(({ isCommon }) => !isCommon);
  const names = headers.map(
    ({ name, required }) => `readonly ${printKey(name)}${required ? "" : "?"}: string`,
  );
  const optional = headers.every(({ required }) => !required);
  const start = [
    `readonly status: ${printStatus(operation, response)}`,
    ...(names.length === 0 ? [] : [`readonly headers${optional ? "?" : ""}: { ${names.join("; ")} }`]),
  ];
  const contents = media.length === 0 ? [[]] : media.map((each) => printContent(operation, response, each));
  return contents.map((content) => `{ ${[...start, ...content].join("; ")} }`);
}

function printStatus({ responses }: Operation, { status }: Response): string {
  if (status !== "default") return status;
  const listed = responses.filter((each) => /^[45]/.test(each.status)).map((each) => each.status);
  return listed.length === 0 ? "ErrorStatus" : `Exclude<ErrorStatus, ${listed.join(" | ")}>`;
}

function printContent({ id }: Operation, { status }: Response, { type, schema }: Media): readonly string[] {
  if (type === "text/event-stream") {
    return [`readonly stream: AsyncIterable<SseMessage<T.${componentName(schema["$ref"])}>>`];
  }
  if (type !== "application/json") {
    return [
      `readonly raw: string | AsyncIterable<string | Uint8Array>`,
      `readonly contentType: ${JSON.stringify(type)}`,
    ];
  }
  const group = status === "default" || Number(status) >= 400 ? "Errors" : "Responses";
  return [`readonly body: T.${pascalCase(id)}${group}[${status === "default" ? '"default"' : status}]`];
}

/** The row of the operation table. Undefined members are not printed. */
function describe(operation: Operation): object {
  const { method, route, tags, security, scope, strict, groups, body, sse, responses } = operation;
  return {
    method,
    route,
    tags,
    security,
    scope,
    strict: strict || undefined,
    ...Object.fromEntries(groups.map((group) => [group.field, describeGroup(group)])),
    body:
      body &&
      (body.raw ? { required: body.required, raw: true } : describeBody(body.required, body.json ?? {})),
    sse,
    responses: Object.fromEntries(responses.map((response) => [response.status, describeResponse(response)])),
  };
}

function describeGroup({ parameters }: ParameterGroup): object {
  return {
    coerce: Object.fromEntries(parameters.map(({ name, resolved }) => [name, coercionOf(resolved)])),
    defaults: Object.fromEntries(
      parameters.filter(hasDefault).map(({ name, resolved }) => [name, resolved["default"]]),
    ),
    schema: {
      type: "object",
      required: parameters.filter(({ required }) => required).map(({ name }) => name),
      properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, stripAnnotations(schema)])),
    },
  };
}

function describeBody(required: boolean, schema: Schema): object {
  return { required, schema: stripAnnotations(schema) };
}

function describeResponse({ headers, media }: Response): object {
  const schemaOf = (wanted: string) => media.find(({ type }) => type === wanted)?.schema;
  const json = schemaOf("application/json");
  return {
    json: json && stripAnnotations(json),
    sse: schemaOf("text/event-stream"),
    raw: media.find(({ type }) => type !== "application/json" && type !== "text/event-stream")?.type,
    headers: headers.map(({ name }) => name),
  };
}

function coercionOf(schema: Schema): string {
  const listed = Array.isArray(schema["type"]) ? schema["type"] : [schema["type"]];
  const type: unknown = listed.find((name) => name !== "null");
  if (type === "array") return `${coercionOf((schema["items"] as Schema | undefined) ?? {})}[]`;
  return type === "integer" || type === "number" || type === "boolean" ? type : "string";
}

function hasDefault({ resolved }: Parameter): boolean {
  return resolved["default"] !== undefined;
}
