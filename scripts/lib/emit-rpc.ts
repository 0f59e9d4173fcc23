/** Prints the typed contract of the requests that a bundled OpenRPC document offers. */
import { componentReference, type BundledDocument } from "./document.ts";
import { HEADER, pascalCase, printDoc, printKey, printLiteral, printRows } from "./print.ts";
import { readMethods, type RpcMethod, type RpcResult } from "./rpc-method.ts";

/** Where the printed file finds its imports. */
export interface RpcImports {
  readonly types: string;
  readonly contract: string;
}

/** Who offers the methods. */
export type RpcSide = "gateway" | "host";

export type RpcRequest = RpcMethod & { readonly result: RpcResult };

const ASKS: Readonly<Record<RpcSide, string>> = {
  gateway: "What the host may ask of the gateway.",
  host: "What the gateway may ask of the host.",
};

/** `GatewayRequests` and its table, from specs/gateway.openrpc.yaml. */
export function emitRpc(gateway: BundledDocument, imports: RpcImports): string {
  const requests = readRequests(gateway);
  const { title, version } = gateway.info;
  return `${printImports(requests, imports, ["RequestMeta"])}
${printRequests("gateway", requests)}
export const info = ${printLiteral({ title, version })} as const;
`;
}

/** The methods that are answered. */
export function readRequests(document: BundledDocument): readonly RpcRequest[] {
  return readMethods(document).filter((method): method is RpcRequest => method.result !== undefined);
}

export function printImports(
  requests: readonly RpcRequest[],
  { types, contract }: RpcImports,
  metas: readonly string[],
): string {
  const names = [...metas, ...(requests.some(({ params }) => hasDefaults(params)) ? ["WithDefaults"] : [])];
  return `${HEADER}
import type { ${names.join(", ")} } from "${contract}";
import type * as T from "${types}";
`;
}

/** `GatewayRequests`, `GatewayMethod` and `gatewayRequests`, or the same of the host. */
export function printRequests(side: RpcSide, requests: readonly RpcRequest[]): string {
  const name = pascalCase(side);
  return `/** ${ASKS[side]} */
export interface ${name}Requests {
${requests.map(printRequest).join("")}}

export type ${name}Method = keyof ${name}Requests;

export const ${side}Requests: { readonly [K in ${name}Method]: RequestMeta } = {
${printRows(
  requests.map((request) => [request.name, printLiteral(describe(request), "  ")]),
  ",",
)}};
`;
}

function hasDefaults(params: RpcMethod["params"]): boolean {
  return params.some((param) => param.default !== undefined);
}

function printRequest({ name, summary, params, paramsName, result, errors }: RpcRequest): string {
  const filled = params
    .filter((param) => param.default !== undefined)
    .map((param) => JSON.stringify(param.name));
  const type =
    filled.length === 0 ? `T.${paramsName}` : `WithDefaults<T.${paramsName}, ${filled.join(" | ")}>`;
  return [
    printDoc(summary, "  "),
    `  ${printKey(name)}: {\n`,
    `    readonly params: ${type};\n`,
    `    /** As it may be sent: what has a default may be left out. */\n`,
    `    readonly sent: T.${paramsName};\n`,
    `    readonly result: T.${result.name};\n`,
    `    readonly error: ${errors.length === 0 ? "never" : errors.join(" | ")};\n`,
    "  };\n",
  ].join("");
}

function describe({ params, paramsName, result, errors, scope }: RpcRequest): object {
  const filled = params.filter((param) => param.default !== undefined);
  return {
    params: componentReference(paramsName),
    names: params.map(({ name }) => name),
    defaults: Object.fromEntries(filled.map((param) => [param.name, param.default])),
    result: componentReference(result.name),
    errors,
    scope,
  };
}
