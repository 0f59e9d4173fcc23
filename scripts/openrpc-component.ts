/**
 * The component that the OpenRPC generator runs. The generator hands over a dereferenced document with rewritten
 * titles, so the template reads the bundle itself; `x-bundle` says where it is.
 */
import { readFileSync } from "node:fs";
import { SpecError, stringAt, type BundledDocument, type JsonObject } from "./lib/document.ts";
import { emitRpc } from "./lib/emit-rpc.ts";

/** Name of the document-level extension that carries the path of the bundle. */
export const BUNDLE_EXTENSION = "x-bundle";

export default {
  staticPath: (): undefined => undefined,
  hooks: {
    templateFiles: {
      typescript: [{ path: "rpc.gen.ts", template: printContract }],
    },
  },
};

function printContract({ openrpcDocument }: { readonly openrpcDocument: JsonObject }): string {
  const file = stringAt(openrpcDocument, BUNDLE_EXTENSION);
  if (file === undefined) throw new SpecError([`the OpenRPC document carries no ${BUNDLE_EXTENSION}`]);
  const bundle = JSON.parse(readFileSync(file, "utf8")) as BundledDocument;
  return emitRpc(bundle, { types: "./types/types.gen.ts", contract: "./contract.gen.ts" });
}
