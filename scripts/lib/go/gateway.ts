/** Prints the typed methods, questions and events of the Go gateway client. */
import { readEvents } from "../emit-host.ts";
import { readRequests, type RpcRequest } from "../emit-rpc.ts";
import type { BundledDocument } from "../document.ts";
import { REPEATABLE } from "../../../src/client/gateway/calls.ts";
import { alignRows, exportedName, goComment, goString, takeGoName } from "./text.ts";
import type { GoType, GoTypes } from "./types.ts";

/** Members of the runtime's Client. */
const RESERVED = ["Call", "Close", "Closed", "Cursor", "Events", "Ready", "State"];

/** The declarations of all methods, and of what the gateway asks the host. */
export function printGoGateway(
  gateway: BundledDocument,
  host: BundledDocument | undefined,
  types: GoTypes,
): string {
  const taken = new Set(RESERVED);
  const methods = readRequests(gateway);
  const questions = host === undefined ? [] : readRequests(host);
  return [
    ...methods.map((method) => printMethod(method, types, takeGoName(exportedName(method.name), taken))),
    printRepeatable(methods),
    ...(host === undefined ? [] : [printQuestions(questions), printEventTypes(host, types)]),
  ].join("\n");
}

function printMethod(method: RpcRequest, types: GoTypes, name: string): string {
  const { params, paramsName, summary = "", scope } = method;
  const result = types.of({ $ref: `#/components/schemas/${method.result.name}` }, method.result.name);
  const text = summary.trim();
  const doc = [
    `${name}: ${text === "" ? `calls ${method.name}` : text}${/[.?!]$/.test(text) ? "" : "."}`,
    `It calls \`${method.name}\`.${scope === undefined ? "" : ` It needs a key with the scope \`${scope}\`.`}`,
  ];
  const argument = params.length === 0 ? "" : `params ${exportedName(paramsName)}, `;
  const value = params.length === 0 ? "struct{}{}" : "params";
  return `${goComment(doc)}func (c *Client) ${name}(ctx context.Context, ${argument}options ...CallOption) ${returns(result)} {
	return ${result.isStruct ? "call" : "callValue"}[${result.text}](ctx, c, ${goString(method.name)}, ${value}, options)
}
`;
}

function returns(result: GoType): string {
  return `(${result.isStruct ? "*" : ""}${result.text}, error)`;
}

function printRepeatable(methods: readonly RpcRequest[]): string {
  const names = methods.map(({ name }) => name).filter((name) => REPEATABLE.test(name));
  return `// isRepeatable returns whether a call may be sent again after a cut: it only reads, or is done once however often it is sent.
func isRepeatable(method string) bool {
	switch method {
	case ${names.map(goString).join(",\n\t\t")}:
		return true
	}
	return false
}
`;
}

function printQuestions(questions: readonly RpcRequest[]): string {
  const fields = questions.map(({ name, summary, paramsName, result }) => {
    const field = exportedName(name);
    return `${goComment([`${field} answers: ${summary ?? name}`], "\t")}\t${field} func(ctx context.Context, question *${exportedName(paramsName)}) (*${exportedName(result.name)}, error)\n`;
  });
  const cases = questions.map(
    ({ name }) => `\tcase ${goString(name)}:\n\t\treturn ask(ctx, q.${exportedName(name)}, params)\n`,
  );
  return `${goComment([
    "Questions are functions that answer what the agent asks. A nil answer, an error and a nil function decline the question.",
    "The context ends when the question is no longer open: it was answered elsewhere, it timed out, or its turn ended. A cut connection does not end it.",
  ])}type Questions struct {
${fields.join("\n")}}

func (q *Questions) answer(ctx context.Context, method string, params []byte) (any, error) {
	switch method {
${cases.join("")}	}
	return nil, nil
}
`;
}

function printEventTypes(host: BundledDocument, types: GoTypes): string {
  const rows = readEvents(host).map(({ type }) => {
    return [types.takeName(`Event${exportedName(type)}`), `= ${goString(type)}`];
  });
  return `// Types of the events of the gateway.\nconst (\n${alignRows(rows)})\n`;
}
