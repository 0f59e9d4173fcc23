/** Reads from the operations what methods a generated client has: one for the whole answer, one for its stream. */
import {
  componentName,
  dereference,
  isObject,
  listAt,
  objectAt,
  stringAt,
  type BundledDocument,
  type JsonObject,
  type Schema,
} from "./document.ts";
import type { Media, Operation, Parameter } from "./operation.ts";

/** How the language of a client writes names and types. */
export interface ClientLanguage<T> {
  readonly none: T;
  readonly text: T;
  readonly bytes: T;
  /** Names that no argument may hide. */
  readonly reserved: readonly string[];
  /** The type of a schema; inline objects are declared under a name that begins with `hint`. */
  of(schema: unknown, hint: string): T;
  /** The type of a parameter, which is left out rather than null. */
  ofParameter(schema: unknown, hint: string): T;
  /** The name of a method from words such as `followResponse`. */
  nameMethod(words: string, taken: Set<string>): string;
  nameArgument(name: string, taken: Set<string>): string;
}

export interface Method<T> {
  readonly name: string;
  readonly operation: Operation;
  /** From the spec, one entry a paragraph. */
  readonly doc: readonly string[];
  readonly args: readonly Argument<T>[];
  readonly body: MethodBody<T> | undefined;
  /** What a call returns, or what one event of the stream is. */
  readonly result: T;
  /** Media type of the answer; "" when it has no body. */
  readonly accept: string;
  readonly stream: StreamKind | undefined;
  /** Query parameters that make the answer a stream. */
  readonly fixedQuery: readonly string[];
}

export interface Argument<T> {
  readonly name: string;
  readonly parameter: Parameter;
  readonly place: "path" | "query" | "headers";
  readonly type: T;
  readonly doc: string | undefined;
}

export interface MethodBody<T> {
  readonly type: T;
  readonly required: boolean;
  readonly raw: boolean;
  /** `stream` is a member that this method sets, or refuses. */
  readonly streams: boolean;
}

/** How streams of an operation end and are resumed. */
export interface StreamKind {
  /** Data of the frame that ends it; undefined when it ends by closing. */
  readonly terminator: string | undefined;
  /** Whether it continues until its reader leaves. */
  readonly isEndless: boolean;
  readonly tag: string;
  readonly final: readonly string[];
  readonly cursorHeader: string;
  readonly cursorQuery: string;
  readonly cursorMember: string;
}

const EVENTS = "text/event-stream";
/** How a stream can be taken up again: the parameter, and the member of an event that it takes (else the frame's id). */
const CURSORS = [
  { place: "headers", name: "last-event-id", member: "" },
  { place: "query", name: "starting_after", member: "sequence_number" },
] as const;

/** In the order of the document, without the aliases of other operations. */
export function readMethods<T>(
  document: BundledDocument,
  operations: readonly Operation[],
  language: ClientLanguage<T>,
): readonly Method<T>[] {
  const taken = new Set<string>();
  return operations.flatMap((operation) => {
    const source = sourceOf(document, operation);
    if (source["x-alias"] !== undefined) return [];
    const success = operation.responses.filter(({ status }) => status.startsWith("2"));
    const media = success.flatMap((response) => response.media);
    const events = media.find(({ type }) => type === EVENTS);
    const whole = media.filter(({ type }) => type !== EVENTS);
    const base = { document, operation, source, language, both: events !== undefined && whole.length > 0 };
    const methods: Method<T>[] = [];
    if (events === undefined || whole.length > 0) {
      const empty = success.some((response) => response.media.length === 0);
      methods.push({
        ...readShared(base, false),
        name: language.nameMethod(base.both ? wholeName(operation.id) : operation.id, taken),
        ...readResult(base, whole, empty),
      });
    }
    if (events !== undefined) {
      const named = base.both ? streamName(operation) : operation.id;
      methods.push({
        ...readShared(base, true),
        name: language.nameMethod(named, taken),
        result: readEvent(base, events),
        accept: EVENTS,
        stream: readStream(base, events),
      });
    }
    return methods;
  });
}

interface Base<T> {
  readonly document: BundledDocument;
  readonly operation: Operation;
  /** The operation as the document has it. */
  readonly source: JsonObject;
  readonly language: ClientLanguage<T>;
  /** The operation answers whole or as a stream, as it is asked. */
  readonly both: boolean;
}

/** `streamEvents` also lists: then its stream has that name. */
function wholeName(id: string): string {
  return id.replace(/^stream(?=[A-Z])/, "list");
}

/** `createResponse` begins what it streams; `getResponse` follows what has begun. */
function streamName({ id, method }: Operation): string {
  if (/^stream[A-Z]/.test(id)) return id;
  const noun = id.replace(/^(create|get|list)(?=[A-Z])/, "");
  return `${method === "GET" ? "follow" : "stream"}${noun.slice(0, 1).toUpperCase()}${noun.slice(1)}`;
}

function sourceOf(document: BundledDocument, { route, method }: Operation): JsonObject {
  return objectAt(objectAt(objectAt(document, "paths"), route), method.toLowerCase());
}

function readShared<T>(
  base: Base<T>,
  asStream: boolean,
): Pick<Method<T>, "operation" | "doc" | "args" | "body" | "fixedQuery" | "stream"> {
  const { operation, source, both } = base;
  // What makes the answer a stream is decided by the method; what takes a stream up again is for streams alone.
  const cursors = both && !asStream ? CURSORS.map(({ name }) => name as string) : [];
  const choice = both && queryOf(operation).some(({ name }) => name === "stream");
  return {
    operation,
    doc: [operation.summary ?? operation.id, stringAt(source, "description") ?? ""],
    args: readArguments(base, [...cursors, ...(choice ? ["stream"] : [])]),
    body: readBody(base),
    fixedQuery: choice && asStream ? ["stream"] : [],
    stream: undefined,
  };
}

function readArguments<T>(
  { document, operation, source, language }: Base<T>,
  without: readonly string[],
): readonly Argument<T>[] {
  const taken = new Set(language.reserved);
  const item = objectAt(objectAt(document, "paths"), operation.route);
  const written = [...listAt(source, "parameters"), ...listAt(item, "parameters")].map((each) =>
    dereference(document, each),
  );
  return operation.groups.flatMap(({ field, parameters }) =>
    parameters
      .filter(({ name }) => !without.includes(name))
      .map((parameter): Argument<T> => {
        const same = (each: JsonObject) =>
          stringAt(each, "name")?.toLowerCase() === parameter.name.toLowerCase();
        const name = language.nameArgument(parameter.name.replace(/^x-/, ""), taken);
        const type = language.ofParameter(parameter.schema, `${operation.id}-${parameter.name}`);
        const doc =
          stringAt(written.find(same) ?? {}, "description") ?? stringAt(parameter.resolved, "description");
        return { name, parameter, place: field, type, doc };
      }),
  );
}

function readBody<T>({ document, operation, language, both }: Base<T>): MethodBody<T> | undefined {
  const { body, id } = operation;
  if (body === undefined) return undefined;
  const { raw, required, json } = body;
  if (raw) return { type: language.bytes, required: true, raw, streams: false };
  const resolved = dereference(document, json);
  const streams = both && "stream" in objectAt(resolved, "properties");
  return { type: language.of(json, `${id}-body`), required, raw, streams };
}

function readResult<T>(
  { operation, language }: Base<T>,
  media: readonly Media[],
  empty: boolean,
): Pick<Method<T>, "result" | "accept"> {
  const json = media.filter(({ type }) => isJson(type)).map(({ schema }) => schema);
  const [other] = media;
  if (json.length > 0) {
    const branches = [...json, ...(empty ? [{ type: "null" }] : [])];
    return { result: language.of(oneOf(branches), `${operation.id}-result`), accept: "application/json" };
  }
  if (other === undefined) return { result: language.none, accept: "" };
  const result = other.type.startsWith("text/") ? language.text : language.bytes;
  return { result, accept: other.type.replace(/;.*/, "") };
}

function isJson(type: string): boolean {
  return /^application\/([\w.-]+\+)?json\b/.test(type);
}

/** The union of the schemas, each once; the schema itself when it is the only one. */
function oneOf(schemas: readonly Schema[]): Schema {
  const [first = {}, ...others] = [
    ...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values(),
  ];
  return others.length === 0 ? first : { oneOf: [first, ...others] };
}

/** The type of an event. An error frame is an error of the client, so it is none. */
function readEvent<T>({ document, operation, language }: Base<T>, { schema }: Media): T {
  const errors = operation.responses
    .filter(({ status }) => !/^[123]/.test(status))
    .flatMap(({ media }) => media.map((each) => componentName(each.schema["$ref"])));
  const branches = listAt(dereference(document, schema), "oneOf").filter(isObject);
  const others = branches.filter((branch) => {
    const name = componentName(branch["$ref"]);
    return name === undefined || !errors.includes(name);
  });
  const whole = others.length === branches.length || others.length === 0;
  return language.of(whole ? schema : oneOf(others), `${operation.id}-event`);
}

function readStream<T>({ document, operation }: Base<T>, { schema }: Media): StreamKind {
  const terminator = stringAt(operation.sse ?? {}, "terminator");
  const parameters = operation.groups.flatMap(({ field, parameters: own }) =>
    own.map(({ name }) => `${field} ${name}`),
  );
  const follows = operation.method === "GET";
  const cursor = CURSORS.find(({ place, name }) => follows && parameters.includes(`${place} ${name}`));
  return {
    terminator: terminator === "close" || terminator === "none" ? undefined : terminator,
    isEndless: terminator === "none",
    ...readFinal(document, dereference(document, schema)),
    cursorHeader: cursor?.place === "headers" ? cursor.name : "",
    cursorQuery: cursor?.place === "query" ? cursor.name : "",
    cursorMember: cursor?.member ?? "",
  };
}

/** The events marked `x-final`, by the member that names the kind of an event. */
function readFinal(document: BundledDocument, union: Schema): Pick<StreamKind, "tag" | "final"> {
  const tag = stringAt(objectAt(union, "discriminator"), "propertyName") ?? "";
  const final = listAt(union, "oneOf")
    .map((branch) => dereference(document, branch))
    .filter((branch) => branch["x-final"] === true)
    .map((branch) => objectAt(objectAt(branch, "properties"), tag)["const"])
    .filter((kind) => typeof kind === "string");
  return final.length === 0 ? { tag: "", final: [] } : { tag, final };
}

function queryOf(operation: Operation): readonly Parameter[] {
  return operation.groups.find(({ field }) => field === "query")?.parameters ?? [];
}
