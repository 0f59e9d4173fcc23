/** Prints client.py and aio.py: the same methods, once blocking and once for asyncio. */
import type { Argument as AnyArgument, Method as AnyMethod, StreamKind } from "./client-method.ts";
import { printAnnotation, type PyType } from "./python-type.ts";
import { printDocstring, printString, PYTHON_HEADER, wrap } from "./python-text.ts";

type Argument = AnyArgument<PyType>;
type Method = AnyMethod<PyType>;

interface Flavour {
  readonly name: string;
  readonly base: string;
  readonly module: string;
  readonly stream: string;
  readonly define: string;
  readonly wait: string;
  readonly doc: string;
}

const BLOCKING: Flavour = {
  name: "AgentClient",
  base: "SyncBase",
  module: "_sync",
  stream: "Stream",
  define: "def",
  wait: "",
  doc: "The blocking client.",
};

const ASYNC: Flavour = {
  name: "AsyncAgentClient",
  base: "AsyncBase",
  module: "_async",
  stream: "AsyncStream",
  define: "async def",
  wait: "await ",
  doc: "The client for asyncio.",
};

export function printClient(methods: readonly Method[]): string {
  return printModule(methods, BLOCKING);
}

export function printAsyncClient(methods: readonly Method[]): string {
  return printModule(methods, ASYNC);
}

function printModule(methods: readonly Method[], flavour: Flavour): string {
  const streams = methods.flatMap(({ name, stream }) =>
    stream === undefined ? [] : [printStreamKind(name, stream)],
  );
  const body = methods.map((method) => printMethod(method, flavour)).join("\n");
  const text = `${streams.join("")}${body}`;
  // Only what is used: linters of other projects complain of the rest.
  const used = (names: readonly string[]) => names.filter((name) => new RegExp(`\\b${name}\\b`).test(text));
  const helpers = used(["ABSENT", "Request", "ResponseInfo", "segment", "unstreamed"]);
  const kinds = streams.length === 0 ? "" : "from ._follow import StreamKind\n";
  return `${PYTHON_HEADER}"""${flavour.doc}"""

from __future__ import annotations

from typing import ${[...used(["Any", "Literal"]), "Mapping", "cast"].join(", ")}

from . import types
${kinds}from ._request import ${helpers.join(", ")}
from .${flavour.module} import ${[...(streams.length === 0 ? [] : [flavour.stream]), flavour.base].toSorted().join(", ")}

${streams.join("")}

class ${flavour.name}(${flavour.base}):
${printDocstring(classDoc(flavour), "    ")}
${body}`;
}

function classDoc({ doc }: Flavour): readonly string[] {
  return [
    doc,
    "Every method takes `extra_headers`, `response`, which gets status and headers of the answer, and `timeout`: the longest silence of the server in seconds. Errors of the server are AgentApiError, failures of the connection AgentConnectionError; both are AgentError. Only GET requests, and requests with an `Idempotency-Key`, are tried again.",
  ];
}

function printStreamKind(name: string, kind: StreamKind): string {
  const rows = [
    ...(kind.terminator === undefined ? [] : [`terminator=${printString(kind.terminator)}`]),
    ...(kind.isEndless ? ["endless=True"] : []),
    ...(kind.final.length === 0 ? [] : [`tag=${printString(kind.tag)}`]),
    ...(kind.final.length === 0 ? [] : [`final=frozenset({${kind.final.map(printString).join(", ")}})`]),
    ...(kind.cursorHeader === "" ? [] : [`cursor_header=${printString(kind.cursorHeader)}`]),
    ...(kind.cursorQuery === "" ? [] : [`cursor_query=${printString(kind.cursorQuery)}`]),
    ...(kind.cursorMember === "" ? [] : [`cursor_member=${printString(kind.cursorMember)}`]),
  ];
  return `${constant(name)} = StreamKind(\n${rows.map((row) => `    ${row},\n`).join("")})\n`;
}

function printMethod(method: Method, flavour: Flavour): string {
  const { stream, name } = method;
  const result = printAnnotation(method.result, "types.");
  const returns = stream === undefined ? result : `${flavour.stream}[${result}]`;
  // A stream is awaited event by event; making it waits for nothing.
  const define = stream === undefined ? flavour.define : "def";
  const args = printArguments(method).map((row) => `        ${row},\n`);
  return `    ${define} ${name}(
        self,
${args.join("")}    ) -> ${returns}:
${printDocstring(methodDoc(method), "        ")}        request = Request(
${requestRows(method)
  .map((row) => `            ${row},\n`)
  .join("")}        )
        ${printReturn(method, flavour, result)}
`;
}

function printReturn({ stream, name, result }: Method, flavour: Flavour, type: string): string {
  if (stream !== undefined) return `return ${flavour.stream}(self, request, ${constant(name)})`;
  const call = `${flavour.wait}self._send(request)`;
  if (result.kind === "plain" && result.text === "None") return call;
  return `return cast(${printString(type)}, ${call})`;
}

function printArguments({ args, body }: Method): readonly string[] {
  const positional = args.filter(({ place }) => place === "path");
  const named = args.filter(({ place }) => place !== "path");
  const required = ({ parameter }: Argument) =>
    parameter.required && parameter.resolved["default"] === undefined;
  const type = (argument: Argument) => printAnnotation(argument.type, "types.");
  return [
    ...positional.map((argument) => `${argument.name}: ${type(argument)}`),
    ...(body === undefined
      ? []
      : [`body: ${printAnnotation(body.type, "types.")}${body.required ? "" : " | None = None"}`]),
    "*",
    ...named.filter(required).map((argument) => `${argument.name}: ${type(argument)}`),
    ...named
      .filter((argument) => !required(argument))
      .map((argument) => `${argument.name}: ${type(argument)} | None = None`),
    "extra_headers: Mapping[str, str] | None = None",
    "response: ResponseInfo | None = None",
    "timeout: float | None = None",
  ];
}

function methodDoc({ operation, doc, args, stream }: Method): readonly string[] {
  const [summary = "", ...others] = doc;
  const scope = operation.scope === undefined ? "" : ` Needs a key with the scope \`${operation.scope}\`.`;
  const described = args.filter(
    ({ doc: text, parameter }) => text !== undefined || parameter.resolved["default"] !== undefined,
  );
  const rows = described.flatMap((argument) => describeArgument(argument));
  return [
    /[.?!]$/.test(summary) ? summary : `${summary}.`,
    ...others,
    ...(stream === undefined ? [] : [streamDoc(stream)]),
    `\`${operation.method} ${operation.route}\`${scope && `.${scope}`}`,
    ...(rows.length === 0 ? [] : ["Args:\n" + rows.join("\n")]),
  ];
}

function streamDoc({ cursorHeader, cursorQuery }: StreamKind): string {
  return cursorHeader === "" && cursorQuery === ""
    ? "Gives the events as they come. The request is never sent twice: after a cut, StreamCutError names the run, which can be followed."
    : "Gives the events as they come. After a cut connection it resumes where it was.";
}

function describeArgument({ name, doc, parameter }: Argument): readonly string[] {
  const preset = parameter.resolved["default"];
  const text = `${name}: ${doc ?? ""}${preset === undefined ? "" : ` Default ${JSON.stringify(preset)}.`}`;
  return wrap(text, 92).map((line, index) => `${" ".repeat(index === 0 ? 4 : 8)}${line}`);
}

function requestRows({ operation, args, body, accept, stream, fixedQuery }: Method): readonly string[] {
  const table = (place: Argument["place"]) =>
    args
      .filter((argument) => argument.place === place)
      .map(({ name, parameter }) => `${printString(parameter.name)}: ${name}`);
  const query = [...fixedQuery.map((name) => `${printString(name)}: True`), ...table("query")];
  const headers = table("headers");
  return [
    printString(operation.method),
    printRoute(operation.route, args),
    ...(accept === "application/json" ? [] : [`accept=${printString(accept)}`]),
    ...printTable("query", query),
    ...printTable("headers", headers),
    ...(body === undefined ? [] : printBody(body, stream !== undefined)),
    "extra_headers=extra_headers",
    "response=response",
    "timeout=timeout",
  ];
}

/** One line where it fits. */
function printTable(name: string, rows: readonly string[]): readonly string[] {
  const flat = `${name}={${rows.join(", ")}}`;
  if (rows.length === 0) return [];
  if (flat.length < 98) return [flat];
  return [`${name}={\n${rows.map((row) => `                ${row},\n`).join("")}            }`];
}

function printBody(body: NonNullable<Method["body"]>, asStream: boolean): readonly string[] {
  const streamed = asStream ? `{**body, "stream": True}` : "unstreamed(body)";
  const value = body.streams ? streamed : "body";
  return [
    `body=${body.required ? value : `ABSENT if body is None else ${value}`}`,
    ...(body.raw ? ['content_type="application/octet-stream"'] : []),
  ];
}

/** The path as an f-string, its parameters escaped. */
function printRoute(route: string, args: readonly Argument[]): string {
  const names = new Map(
    args.filter(({ place }) => place === "path").map(({ name, parameter }) => [parameter.name, name]),
  );
  const text = printString(route).replaceAll(/\{([^}]+)\}/g, (whole, name: string) => {
    const argument = names.get(name);
    return argument === undefined ? whole : `{segment(${argument})}`;
  });
  return names.size === 0 ? text : `f${text}`;
}

function constant(name: string): string {
  return `_${name.toUpperCase()}`;
}
