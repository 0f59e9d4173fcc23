/**
 * The component that the OpenRPC generator runs. The generator hands over a dereferenced document with rewritten
 * titles, so the template reads the bundle itself; `x-bundle` says where it is.
 */
import { readFileSync } from "node:fs";
import { SpecError, stringAt, type BundledDocument, type JsonObject } from "./lib/document.ts";
import { emitHost } from "./lib/emit-host.ts";
import { emitRpc, type RpcImports, type RpcSide } from "./lib/emit-rpc.ts";

/** Name of the document-level extension that carries the path of the bundle. */
export const BUNDLE_EXTENSION = "x-bundle";

interface Template {
  readonly path: string;
  readonly template: (input: { readonly openrpcDocument: JsonObject }) => string;
}

interface Component {
  readonly staticPath: () => undefined;
  readonly hooks: { readonly templateFiles: { readonly typescript: readonly Template[] } };
}

/** Prints the contract of one of the two documents. */
export function component(side: RpcSide): Component {
  const [path, emit] =
    side === "gateway" ? (["rpc.gen.ts", emitRpc] as const) : (["host.gen.ts", emitHost] as const);
  return {
    staticPath: () => undefined,
    hooks: { templateFiles: { typescript: [{ path, template: (input) => print(input, emit) }] } },
  };
}

export default component("gateway");

function print(
  { openrpcDocument }: { readonly openrpcDocument: JsonObject },
  emit: (bundle: BundledDocument, imports: RpcImports) => string,
): string {
  const file = stringAt(openrpcDocument, BUNDLE_EXTENSION);
  if (file === undefined) throw new SpecError([`the OpenRPC document carries no ${BUNDLE_EXTENSION}`]);
  const bundle = JSON.parse(readFileSync(file, "utf8")) as BundledDocument;
  return emit(bundle, { types: "./types/types.gen.ts", contract: "./contract.gen.ts" });
}
