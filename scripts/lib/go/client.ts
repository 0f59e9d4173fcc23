/** Prints the methods of the Go client: one for each operation, and one for its stream. */
import type { Argument as AnyArgument, Method as AnyMethod, StreamKind } from "../client-method.ts";
import {
  exportedName,
  goComment,
  goString,
  localName,
  printFields,
  takeGoName,
  type GoField,
} from "./text.ts";
import type { GoType, GoTypes } from "./types.ts";

type Argument = AnyArgument<GoType>;
type Method = AnyMethod<GoType>;

/** The declarations of all methods. */
export function printGoMethods(methods: readonly Method[], types: GoTypes): string {
  return methods.map((method) => printMethod(method, types)).join("\n");
}

function printMethod(method: Method, types: GoTypes): string {
  const path = method.args.filter(({ place }) => place === "path");
  const named = method.args.filter(({ place }) => place !== "path");
  const params = named.length === 0 ? undefined : types.takeName(`${method.name}Params`);
  const { stream, result, body } = method;
  const args = [
    "ctx context.Context",
    ...path.map(({ name, type }) => `${name} ${type.text}`),
    ...(body === undefined ? [] : [`body ${bodyType(method)}`]),
    ...(params === undefined ? [] : [`params ${params}`]),
    "options ...RequestOption",
  ];
  const kind = `${localName(method.name)}Stream`;
  const returns = stream === undefined ? returnType(result) : `*Stream[${result.text}]`;
  return `${params === undefined ? "" : printParams(params, named)}${stream === undefined ? "" : printStreamKind(kind, stream)}${goComment(methodDoc(method))}func (c *Client) ${method.name}(${args.join(", ")}) ${returns} {
	request := newRequest(${goString(method.operation.method)}, ${goString(method.accept)}, ${printRoute(method, path)})
${setters(method, named, types).join("")}	${printReturn(method, kind)}
}
`;
}

function bodyType({ body }: Method): string {
  if (body === undefined) return "";
  return body.type.isStruct ? `*${body.type.text}` : body.type.text;
}

function returnType(result: GoType): string {
  if (result.text === "") return "error";
  return `(${result.isStruct ? "*" : ""}${result.text}, error)`;
}

function printReturn({ stream, result, accept }: Method, kind: string): string {
  if (stream !== undefined) return `return newStream[${result.text}](ctx, c, request, ${kind}, options)`;
  if (result.text === "") return "return sendEmpty(ctx, c, request, options)";
  if (!accept.endsWith("json")) return `return sendRaw[${result.text}](ctx, c, request, options)`;
  return result.isStruct
    ? `return send[${result.text}](ctx, c, request, options)`
    : `return sendValue[${result.text}](ctx, c, request, options)`;
}

function methodDoc({ name, doc, operation, stream }: Method): readonly string[] {
  const [summary = "", ...others] = doc;
  const scope = operation.scope === undefined ? "" : ` It needs a key with the scope \`${operation.scope}\`.`;
  const text = summary.trim();
  return [
    `${name}: ${text}${/[.?!]$/.test(text) ? "" : "."}`,
    ...others,
    ...(stream === undefined ? [] : [streamDoc(stream)]),
    `It sends \`${operation.method} ${operation.route}\`.${scope}`,
  ];
}

function streamDoc({ cursorHeader, cursorQuery }: StreamKind): string {
  return cursorHeader === "" && cursorQuery === ""
    ? "It yields the events as they arrive. The request is never sent twice: after a cut, the stream ends with a StreamCutError that names the run to follow."
    : "It yields the events as they arrive. After a cut connection it resumes where it stopped.";
}

function printParams(name: string, named: readonly Argument[]): string {
  const taken = new Set<string>();
  const fields = named.map((argument): GoField => {
    const preset = argument.parameter.resolved["default"];
    const note = preset === undefined ? "" : ` Default: ${JSON.stringify(preset)}.`;
    const doc = `${argument.doc ?? ""}${note}`.trim();
    return { doc, cells: [fieldOf(argument, taken), fieldType(argument)] };
  });
  const method = name.replace(/Params\d*$/, "");
  return `${goComment([`${name} are the parameters of Client.${method}. What is left out is not sent.`])}type ${name} struct {
${printFields(fields)}}

`;
}

function fieldOf({ parameter }: Argument, taken: Set<string>): string {
  return takeGoName(exportedName(parameter.name.replace(/^x-/i, "")), taken);
}

function fieldType({ type, parameter }: Argument): string {
  const isPlain = parameter.required || type.hasNil || type.hasNoZero;
  return isPlain || type.text === "string" ? type.text : `*${type.text}`;
}

function printStreamKind(name: string, kind: StreamKind): string {
  const rows = [
    ...(kind.terminator === undefined ? [] : [`terminator: ${goString(kind.terminator)}`]),
    ...(kind.isEndless ? ["endless: true"] : []),
    ...(kind.final.length === 0
      ? []
      : [`tag: ${goString(kind.tag)}`, `final: []string{${kind.final.map(goString).join(", ")}}`]),
    ...(kind.cursorHeader === "" ? [] : [`cursorHeader: ${goString(kind.cursorHeader)}`]),
    ...(kind.cursorQuery === "" ? [] : [`cursorQuery: ${goString(kind.cursorQuery)}`]),
    ...(kind.cursorMember === "" ? [] : [`cursorMember: ${goString(kind.cursorMember)}`]),
  ];
  return `var ${name} = streamKind{${rows.join(", ")}}\n\n`;
}

/** The path in pieces, its parameters between them. */
function printRoute({ operation }: Method, path: readonly Argument[]): string {
  const names = new Map(path.map(({ name, parameter }) => [parameter.name, name]));
  const pieces = operation.route.split(/(\{[^}]+\})/).filter((piece) => piece !== "");
  return pieces
    .map((piece) => {
      const name = names.get(piece.replaceAll(/[{}]/g, ""));
      return name === undefined ? goString(piece) : `segment(${name})`;
    })
    .join(", ");
}

function setters(method: Method, named: readonly Argument[], types: GoTypes): readonly string[] {
  const { body, stream, fixedQuery, operation } = method;
  const taken = new Set<string>();
  const rows = named.map((argument) => {
    const call = argument.place === "query" ? "query" : "setHeader";
    if (/^(map|\[\](\[|map))/.test(argument.type.text) || argument.type.isStruct)
      types.refuse(operation.id, `the parameter ${argument.parameter.name}, which is an object`);
    return `\trequest.${call}(${goString(argument.parameter.name)}, params.${fieldOf(argument, taken)})\n`;
  });
  const fixed = fixedQuery.map((name) => `\trequest.query(${goString(name)}, true)\n`);
  if (body === undefined) return [...fixed, ...rows];
  const streamed = stream === undefined ? "unstreamed" : "streamed";
  const write = body.raw ? "bytes" : "json";
  return [...fixed, ...rows, `\trequest.${body.streams ? streamed : write}(body)\n`];
}
