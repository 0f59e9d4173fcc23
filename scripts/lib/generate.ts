/** The pipeline: specs -> bundles -> types, client, tables. Touches the machine. */
import { createRequire } from "node:module";
import { readdir, readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { createClient, type UserConfig } from "@hey-api/openapi-ts";
import { bundleSpecs, type Bundles } from "./bundle.ts";
import { emitAcp, readAcpSpec } from "./emit-acp.ts";
import { emitConfigSchema, requireDefaults, toJsonSchema, wrapSchemas } from "./config-document.ts";
import { readDeliverySpecs } from "./delivery-document.ts";
import { componentSchemas, SpecError, type BundledDocument } from "./document.ts";
import { emitHttp } from "./emit-http.ts";
import type { RpcSide } from "./emit-rpc.ts";
import { writePython } from "./emit-python.ts";
import { writeGo } from "./go/emit.ts";
import { writeReference } from "./emit-reference.ts";
import { emitSchemas } from "./emit-schemas.ts";
import { removeFolder, writeText } from "./files.ts";
import { checkErrorCodes, checkHttpRules, checkSchemaRules } from "./http-rules.ts";
import { readOperations } from "./operation.ts";
import { outlineOf } from "./openrpc-outline.ts";
import { HEADER } from "./print.ts";
import { repository } from "./redocly.ts";
import { checkRpcRules, collectRpcSchemas } from "./rpc-method.ts";
import { specs } from "./specs.ts";

export interface GenerateOptions {
  readonly specsFolder: string;
  /** Emptied first. */
  readonly outFolder: string;
}

/** Writes all of generated/ into `outFolder`. The same specs always give the same bytes. Throws SpecError. */
export async function generate({ specsFolder, outFolder }: GenerateOptions): Promise<void> {
  const out = resolve(outFolder);
  await removeFolder(out);
  const bundles = await bundleSpecs(resolve(specsFolder), join(out, "specs"));
  const acp = await readAcpSpec(join(resolve(specsFolder), "acp.yaml"));
  const delivery = await readDeliverySpecs(resolve(specsFolder));
  checkRules(bundles);
  const rpcSchemas = collectRpcSchemas([bundles.gateway, ...(bundles.host ? [bundles.host] : [])]);
  await printTypes(out, bundles, { rpc: wrapSchemas(rpcSchemas), delivery });
  const rpcImports = { types: "./types/types.gen.ts", contract: "./contract.gen.ts" };
  const jobs = [
    writeHttp(out, "http", bundles.http),
    bundles.webhook && writeHttp(out, "webhook", bundles.webhook),
    delivery && writeDelivery(out, delivery),
    writePython(join(out, "sdk/python"), bundles),
    writeGo(join(out, "sdk/go"), bundles),
    writeReference(join(out, "reference"), bundles, acp),
    copyContract("http", join(out, "http/contract.gen.ts")),
    hasChats(bundles.http) && copyContract("chat", join(out, "http/chat.gen.ts")),
    copyContract("rpc", join(out, "gateway/contract.gen.ts")),
    writeText(join(out, "gateway/schemas.gen.ts"), emitSchemas(rpcSchemas, rpcImports)),
    acp && writeText(join(out, "acp/claims.gen.ts"), emitAcp(acp)),
    writeText(join(out, "config/schema.gen.ts"), emitConfigSchema(toJsonSchema(bundles.config))),
    runOpenRpcGenerator(out, bundles.gateway, "gateway"),
    bundles.host && runOpenRpcGenerator(out, bundles.host, "host"),
  ];
  // Nothing writes into the folder any more when a failure is reported.
  await Promise.allSettled(jobs);
  await Promise.all(jobs);
}

function hasChats(document: BundledDocument): boolean {
  return readOperations(document).some(({ id }) => id === "createChatCompletion");
}

/** All broken rules of all specs at once: one run shows everything there is to mend. */
function checkRules({ http, gateway, config, host, webhook }: Bundles): void {
  const label = (file: string, problems: readonly string[]) =>
    problems.map((problem) => `${file}: ${problem}`);
  const openApi = (file: string, document: BundledDocument | undefined) =>
    document === undefined ? [] : label(file, checkHttpRules(document, readOperations(document)));
  const openRpc = (file: string, document: BundledDocument | undefined) =>
    document === undefined ? [] : label(file, [...checkRpcRules(document), ...checkSchemaRules(document)]);
  const problems = [
    ...openApi(specs.http.source, http),
    ...label(specs.http.source, checkErrorCodes(http)),
    ...openApi(specs.webhook.source, webhook),
    ...openRpc(specs.gateway.source, gateway),
    ...openRpc(specs.host.source, host),
    ...label(specs.config.source, checkSchemaRules(config)),
  ];
  if (problems.length > 0) throw new SpecError(problems);
}

/** All TypeScript types come from one printer; what is not OpenAPI is wrapped in an empty OpenAPI document. */
async function printTypes(
  out: string,
  bundles: Bundles,
  { rpc, delivery }: { readonly rpc: BundledDocument; readonly delivery: BundledDocument | undefined },
): Promise<void> {
  const types = { name: "@hey-api/typescript", definitions: { case: "preserve", name: "{{name}}" } } as const;
  const job = (
    document: BundledDocument,
    folder: string,
    plugins: UserConfig["plugins"] = [types],
  ): UserConfig => ({
    input: document as Record<string, unknown>,
    logs: { level: "silent", file: false },
    output: {
      path: join(out, folder),
      module: { extension: ".ts" },
      tsConfigPath: null,
      entryFile: plugins?.length !== 1,
    },
    plugins,
  });
  const client = (containerName: string): UserConfig["plugins"] => [
    types,
    {
      name: "@hey-api/sdk",
      // Flat functions take the client as an option, and then every call throws on Deno.
      operations: { strategy: "single", containerName, nesting: "operationId" },
    },
    // One way to fail: what is not an answer is thrown.
    { name: "@hey-api/client-fetch", throwOnError: containerName === "AgentClient" },
  ];
  await createClient([
    job(bundles.http, "http/client", client("AgentClient")),
    job(rpc, "gateway/types"),
    job(requireDefaults(bundles.config), "config"),
    ...(bundles.webhook ? [job(bundles.webhook, "webhook/types")] : []),
    ...(delivery ? [job(delivery, "delivery/client", client("DeliveryClient"))] : []),
  ]);
  if (delivery) await shareRuntime(join(out, "delivery/client"), join(out, "http/client"));
}

/** Folders of the runtime that the client printer writes beside each client. */
const RUNTIME = ["client", "core"];

/**
 * Makes the client in `folder` import the runtime of the client in `owner`, and removes its own copy. Throws SpecError when the
 * two runtimes differ.
 */
async function shareRuntime(folder: string, owner: string): Promise<void> {
  for (const part of RUNTIME) {
    const names = await readdir(join(folder, part));
    const contents = (root: string) =>
      Promise.all(names.map((name) => readFile(join(root, part, name), "utf8")));
    const [own, shared] = await Promise.all([contents(folder), contents(owner)]);
    if (own.join() !== shared.join()) throw new SpecError([`the client runtimes differ in ${part}/`]);
    await removeFolder(join(folder, part));
  }
  const runtime = new RegExp(`(?<= from ')\\./(?=(?:${RUNTIME.join("|")})/)`, "g");
  for (const name of await readdir(folder)) {
    const source = await readFile(join(folder, name), "utf8");
    await writeText(join(folder, name), source.replace(runtime, `${relative(folder, owner)}/`));
  }
}

async function writeHttp(out: string, deps: "http" | "webhook", document: BundledDocument): Promise<void> {
  const printed = deps === "http" ? "client/types.gen.ts" : "types/types.gen.ts";
  const imports = {
    types: `./${printed}`,
    contract: deps === "http" ? "./contract.gen.ts" : "../http/contract.gen.ts",
  };
  const server = emitHttp(document, readOperations(document), imports);
  const schemas = emitSchemas(componentSchemas(document), imports);
  checkPrinted(await readFile(join(out, deps, printed), "utf8"), `${server}${schemas}`);
  await writeText(join(out, deps, "server.gen.ts"), server);
  await writeText(join(out, deps, "schemas.gen.ts"), schemas);
}

async function writeDelivery(out: string, document: BundledDocument): Promise<void> {
  const imports = { types: "./client/types.gen.ts", contract: "../http/contract.gen.ts" };
  const source = emitSchemas(componentSchemas(document), imports);
  checkPrinted(await readFile(join(out, "delivery/client/types.gen.ts"), "utf8"), source);
  await writeText(join(out, "delivery/schemas.gen.ts"), source);
}

/** The type printer renames what it finds badly named; better to say so here than in a type error. */
function checkPrinted(types: string, source: string): void {
  const printed = new Set([...types.matchAll(/^export type (\w+)/gm)].map(([, name]) => name));
  const used = new Set([...source.matchAll(/\bT\.(\w+)/g)].map(([, name]) => name));
  const missing = [...used].filter((name) => !printed.has(name));
  if (missing.length === 0) return;
  throw new SpecError(
    missing.map((name) => `no type ${name} was printed: choose a plainer operationId or schema name`),
  );
}

/** Copies a file of scripts/contract/. In the copy its imports from generated/http/ are relative to that folder. */
async function copyContract(name: "chat" | "http" | "rpc", target: string): Promise<void> {
  const text = await readFile(join(repository, `scripts/contract/${name}.ts`), "utf8");
  await writeText(target, `${HEADER}\n${text.replaceAll('"../../generated/http/', '"./')}`);
}

interface OpenRpcRun {
  readonly openrpcDocument: object;
  readonly outDir: string;
  readonly components: readonly object[];
}

const COMPONENTS = { gateway: "openrpc-component.ts", host: "openrpc-host-component.ts" } as const;

/** Runs @open-rpc/generator with our component on one document. */
async function runOpenRpcGenerator(out: string, document: BundledDocument, side: RpcSide): Promise<void> {
  const run = createRequire(import.meta.url)("@open-rpc/generator").default as (
    options: OpenRpcRun,
  ) => Promise<void>;
  await run({
    // The generator resolves references in place.
    openrpcDocument: structuredClone(outlineOf(document)),
    outDir: out,
    components: [
      {
        type: "custom",
        name: side,
        language: "typescript",
        customComponent: join(repository, "scripts", COMPONENTS[side]),
        customType: "contract",
        openRPCPath: null,
        outPath: join(out, "gateway"),
      },
    ],
  });
}
