/**
 * The components that @open-rpc/generator runs: each prints the contract of one side from the document that the
 * generator validated, dereferenced and handed over.
 */
import type { JsonObject } from "./lib/document.ts";
import { emitHost } from "./lib/emit-host.ts";
import { emitRpc, type RpcImports, type RpcSide } from "./lib/emit-rpc.ts";
import { restoreReferences } from "./lib/openrpc-outline.ts";

interface Template {
  readonly path: string;
  readonly template: (input: { readonly openrpcDocument: JsonObject }) => string;
}

interface Component {
  readonly staticPath: () => undefined;
  readonly hooks: { readonly templateFiles: { readonly typescript: readonly Template[] } };
}

const IMPORTS: RpcImports = { types: "./types/types.gen.ts", contract: "./contract.gen.ts" };

/** Returns the component of one of the two documents. */
export function component(side: RpcSide): Component {
  const [path, emit] =
    side === "gateway" ? (["rpc.gen.ts", emitRpc] as const) : (["host.gen.ts", emitHost] as const);
  const template: Template["template"] = ({ openrpcDocument }) =>
    emit(restoreReferences(openrpcDocument), IMPORTS);
  return { staticPath: () => undefined, hooks: { templateFiles: { typescript: [{ path, template }] } } };
}

export default component("gateway");
