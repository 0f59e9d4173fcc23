/** Reads from the operations what methods the Python clients have: one for the whole answer, one for its stream. */
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
import { NONE, unionOf, withoutNone, type PyType } from "./python-type.ts";
import { snakeCase, takeName } from "./python-text.ts";
import type { PythonTypes } from "./python-types.ts";

export interface Method {
  readonly name: string;
  readonly operation: Operation;
  /** From the spec, one entry a paragraph. */
  readonly doc: readonly string[];
  readonly args: readonly Argument[];
  readonly body: MethodBody | undefined;
  /** What a call returns, or what one event of the stream is. */
  readonly result: PyType;
  /** Media type of the answer; "" when it has no body. */
  readonly accept: string;
  readonly stream: StreamKind | undefined;
  /** Query parameters that make the answer a stream. */
  readonly fixedQuery: readonly string[];
}

export interface Argument {
  readonly name: string;
  readonly parameter: Parameter;
  readonly place: "path" | "query" | "headers";
  readonly type: PyType;
  readonly doc: string | undefined;
}

export interface MethodBody {
  readonly type: PyType;
  readonly required: boolean;
  readonly raw: boolean;
  /** `stream` is a member that this method sets, or refuses. */
  readonly streams: boolean;
}

/** As `StreamKind` of the Python package. */
export interface StreamKind {
  readonly terminator: string | undefined;
  readonly tag: string;
  readonly final: readonly string[];
  readonly cursorHeader: string;
  readonly cursorQuery: string;
  readonly cursorMember: string;
}

const EVENTS = "text/event-stream";
/** What methods use by name, so that no argument may hide it. */
const RESERVED = ["self", "body", "extra_headers", "timeout", "types", "cast", "segment", "unstreamed"];
/** How a stream can be taken up again: the parameter, and the member of an event that it takes (else the frame's id). */
const CURSORS = [
  { place: "headers", name: "last-event-id", member: "" },
  { place: "query", name: "starting_after", member: "sequence_number" },
] as const;

/** In the order of the document. */
export function readMethods(
  document: BundledDocument,
  operations: readonly Operation[],
  types: PythonTypes,
): readonly Method[] {
  const taken = new Set<string>();
  return operations.flatMap((operation) => {
    const success = operation.responses.filter(({ status }) => status.startsWith("2"));
    const media = success.flatMap((response) => response.media);
    const events = media.find(({ type }) => type === EVENTS);
    const whole = media.filter(({ type }) => type !== EVENTS);
    const base = { document, operation, types, both: events !== undefined && whole.length > 0 };
    const name = snakeCase(operation.id);
    const methods: Method[] = [];
    if (events === undefined || whole.length > 0) {
      const empty = success.some((response) => response.media.length === 0);
      methods.push({
        ...readShared(base, false),
        name: takeName(name, taken),
        ...readResult(base, whole, empty),
      });
    }
    if (events !== undefined) {
      const named = whole.length === 0 ? name : streamName(name, operation.method);
      methods.push({
        ...readShared(base, true),
        name: takeName(named, taken),
        result: readEvent(base, events),
        accept: EVENTS,
        stream: readStream(base, events),
      });
    }
    return methods;
  });
}

interface Base {
  readonly document: BundledDocument;
  readonly operation: Operation;
  readonly types: PythonTypes;
  /** The operation answers whole or as a stream, as it is asked. */
  readonly both: boolean;
}

/** `create_response` begins what it streams; `get_response` follows what has begun. */
function streamName(name: string, method: string): string {
  return `${method === "GET" ? "follow" : "stream"}_${name.replace(/^(create|get)_/, "")}`;
}

function readShared(
  base: Base,
  asStream: boolean,
): Pick<Method, "operation" | "doc" | "args" | "body" | "fixedQuery" | "stream"> {
  const { document, operation, both } = base;
  const source = objectAt(
    objectAt(objectAt(document, "paths"), operation.route),
    operation.method.toLowerCase(),
  );
  // What makes the answer a stream is decided by the method; what takes a stream up again is for streams alone.
  const cursors = both && !asStream ? CURSORS.map(({ name }) => name as string) : [];
  const choice = both && queryOf(operation).some(({ name }) => name === "stream");
  return {
    operation,
    doc: [operation.summary ?? operation.id, stringAt(source, "description") ?? ""],
    args: readArguments(base, source, [...cursors, ...(choice ? ["stream"] : [])]),
    body: readBody(base),
    fixedQuery: choice && asStream ? ["stream"] : [],
    stream: undefined,
  };
}

function readArguments(
  { document, operation, types }: Base,
  source: JsonObject,
  without: readonly string[],
): readonly Argument[] {
  const taken = new Set(RESERVED);
  const item = objectAt(objectAt(document, "paths"), operation.route);
  const written = [...listAt(source, "parameters"), ...listAt(item, "parameters")].map((each) =>
    dereference(document, each),
  );
  return operation.groups.flatMap(({ field, parameters }) =>
    parameters
      .filter(({ name }) => !without.includes(name))
      .map((parameter): Argument => {
        const same = (each: JsonObject) =>
          stringAt(each, "name")?.toLowerCase() === parameter.name.toLowerCase();
        const name = takeName(snakeCase(parameter.name.replace(/^x-/, "")), taken);
        const type = types.of(parameter.schema, `${operation.id}-${parameter.name}`);
        const doc =
          stringAt(written.find(same) ?? {}, "description") ?? stringAt(parameter.resolved, "description");
        return { name, parameter, place: field, type: withoutNone(type), doc };
      }),
  );
}

function readBody({ document, operation, types, both }: Base): MethodBody | undefined {
  const { body, id } = operation;
  if (body === undefined) return undefined;
  const { raw, required, json } = body;
  if (raw) return { type: { kind: "plain", text: "bytes" }, required: true, raw, streams: false };
  const resolved = dereference(document, json);
  const streams = both && "stream" in objectAt(resolved, "properties");
  return { type: types.of(json, `${id}-body`), required, raw, streams };
}

function readResult(
  { operation, types }: Base,
  media: readonly Media[],
  empty: boolean,
): Pick<Method, "result" | "accept"> {
  const json = media.filter(({ type }) => type === "application/json");
  const [other] = media;
  if (json.length > 0) {
    const results = json.map(({ schema }) => types.of(schema, `${operation.id}-result`));
    return { result: unionOf([...results, ...(empty ? [NONE] : [])]), accept: "application/json" };
  }
  if (other === undefined) return { result: NONE, accept: "" };
  const text = other.type.startsWith("text/") ? "str" : "bytes";
  return { result: { kind: "plain", text }, accept: other.type.replace(/;.*/, "") };
}

/** The type of an event. An error frame is raised, so it is none. */
function readEvent({ document, operation, types }: Base, { schema }: Media): PyType {
  const errors = operation.responses
    .filter(({ status }) => !/^[123]/.test(status))
    .flatMap(({ media }) => media.map((each) => componentName(each.schema["$ref"])));
  const branches = listAt(dereference(document, schema), "oneOf").filter(isObject);
  const others = branches.filter((branch) => {
    const name = componentName(branch["$ref"]);
    return name === undefined || !errors.includes(name);
  });
  const whole = others.length === branches.length || others.length === 0;
  return whole
    ? types.of(schema, `${operation.id}-event`)
    : unionOf(others.map((branch) => types.of(branch, `${operation.id}-event`)));
}

function readStream({ document, operation }: Base, { schema }: Media): StreamKind {
  const terminator = stringAt(operation.sse ?? {}, "terminator");
  const parameters = operation.groups.flatMap(({ field, parameters: own }) =>
    own.map(({ name }) => `${field} ${name}`),
  );
  const follows = operation.method === "GET";
  const cursor = CURSORS.find(({ place, name }) => follows && parameters.includes(`${place} ${name}`));
  return {
    terminator: terminator === "close" ? undefined : terminator,
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
