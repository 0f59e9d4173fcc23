/** Prints the typed contract of the methods that a bundled OpenRPC document offers. */
import { componentReference, type BundledDocument } from "./document.ts";
import { HEADER, printDoc, printKey, printLiteral, printRows } from "./print.ts";
import { readMethods, type RpcMethod, type RpcResult } from "./rpc-method.ts";

/** Where the printed file finds its imports. */
export interface RpcImports {
  readonly types: string;
  readonly contract: string;
}

type Request = RpcMethod & { readonly result: RpcResult };

/** `GatewayRequests` and its table, from specs/gateway.openrpc.yaml. */
export function emitRpc(gateway: BundledDocument, imports: RpcImports): string {
  const requests = readMethods(gateway).filter((method): method is Request => method.result !== undefined);
  const { title, version } = gateway.info;
  const members = requests.map(printRequest).join("");
  const helpers = members.includes("WithDefaults") ? "RequestMeta, WithDefaults" : "RequestMeta";
  return `${HEADER}
import type { ${helpers} } from "${imports.contract}";
import type * as T from "${imports.types}";

/** What the host may ask of the gateway. */
export interface GatewayRequests {
${members}}

export type GatewayMethod = keyof GatewayRequests;

export const gatewayRequests: { readonly [K in GatewayMethod]: RequestMeta } = {
${printRows(
  requests.map((request) => [request.name, printLiteral(describe(request), "  ")]),
  ",",
)}};

export const info = ${printLiteral({ title, version })} as const;
`;
}

function printRequest({ name, summary, params, paramsName, result, errors }: Request): string {
  const filled = params
    .filter((param) => param.default !== undefined)
    .map((param) => JSON.stringify(param.name));
  const type =
    filled.length === 0 ? `T.${paramsName}` : `WithDefaults<T.${paramsName}, ${filled.join(" | ")}>`;
  return [
    printDoc(summary, "  "),
    `  ${printKey(name)}: {\n`,
    `    readonly params: ${type};\n`,
    `    readonly result: T.${result.name};\n`,
    `    readonly error: ${errors.length === 0 ? "never" : errors.join(" | ")};\n`,
    "  };\n",
  ].join("");
}

function describe({ params, paramsName, result, errors, scope }: Request): object {
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
