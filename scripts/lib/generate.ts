/** The pipeline: specs -> bundles -> types, client, tables. Touches the machine. */
import { createRequire } from "node:module";
import { access, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createClient, type UserConfig } from "@hey-api/openapi-ts";
import { BUNDLE_EXTENSION } from "../openrpc-component.ts";
import {
  emitConfigSchema,
  requireDefaults,
  toJsonSchema,
  unwrapConfig,
  wrapConfig,
  wrapSchemas,
} from "./config-document.ts";
import { componentSchemas, SpecError, type BundledDocument } from "./document.ts";
import { emitHttp } from "./emit-http.ts";
import { emitSchemas } from "./emit-schemas.ts";
import { isMissing, readJson, removeFolder, writeJson, writeText } from "./files.ts";
import { checkHttpRules, checkSchemaRules } from "./http-rules.ts";
import { readOperations } from "./operation.ts";
import { HEADER } from "./print.ts";
import { repository, runRedocly } from "./redocly.ts";
import { checkRpcRules, collectRpcSchemas } from "./rpc-method.ts";
import { dropDiscriminators } from "./schema.ts";

export interface GenerateOptions {
  readonly specsFolder: string;
  /** Emptied first. */
  readonly outFolder: string;
}

interface Bundles {
  readonly http: BundledDocument;
  readonly gateway: BundledDocument;
  readonly config: BundledDocument;
  readonly host: BundledDocument | undefined;
  readonly webhook: BundledDocument | undefined;
}

/** Writes all of generated/ into `outFolder`. The same specs always give the same bytes. Throws SpecError. */
export async function generate({ specsFolder, outFolder }: GenerateOptions): Promise<void> {
  const specs = resolve(specsFolder);
  const out = resolve(outFolder);
  await requireSpecs(specs);
  await removeFolder(out);
  const bundles = await bundleAll(specs, out);
  checkRules(bundles);
  const rpcSchemas = collectRpcSchemas([bundles.gateway]);
  await printTypes(out, bundles, wrapSchemas(rpcSchemas));
  const rpcImports = { types: "./types/types.gen.ts", contract: "./contract.gen.ts" };
  await Promise.all([
    writeHttp(out, "http", bundles.http),
    bundles.webhook && writeHttp(out, "webhook", bundles.webhook),
    copyContract("http", join(out, "http/contract.gen.ts")),
    copyContract("rpc", join(out, "gateway/contract.gen.ts")),
    writeText(join(out, "gateway/schemas.gen.ts"), emitSchemas(rpcSchemas, rpcImports)),
    writeText(join(out, "config/schema.gen.ts"), emitConfigSchema(toJsonSchema(bundles.config))),
    runOpenRpcGenerator(out, bundles.gateway),
  ]);
}

async function requireSpecs(specs: string): Promise<void> {
  const required = ["http.openapi.yaml", "gateway.openrpc.yaml", "config.schema.yaml"];
  const there = await Promise.all(required.map((name) => exists(join(specs, name))));
  const missing = required.filter((_, index) => !there[index]);
  if (missing.length > 0) throw new SpecError(missing.map((name) => `${join(specs, name)} is missing`));
}

async function bundleAll(specs: string, out: string): Promise<Bundles> {
  const wrapper = join(out, "config.openapi.json");
  await writeJson(wrapper, wrapConfig(join(specs, "config.schema.yaml")));
  const target = (name: string) => join(out, "specs", name);
  const optional = async (source: string, name: string) =>
    (await exists(join(specs, source))) ? bundle(join(specs, source), target(name)) : undefined;
  const [http, gateway, config, host, webhook] = await Promise.all([
    bundle(join(specs, "http.openapi.yaml"), target("http.openapi.json")),
    bundle(join(specs, "gateway.openrpc.yaml"), target("gateway.openrpc.json")),
    bundle(wrapper, wrapper).then(unwrapConfig),
    optional("host.openrpc.yaml", "host.openrpc.json"),
    optional("webhook.openapi.yaml", "webhook.openapi.json"),
  ]);
  await removeFolder(wrapper);
  await writeJson(target("config.schema.json"), toJsonSchema(config));
  return { http, gateway, config, host, webhook };
}

/** Bundles `source` into `target`, with every shared schema hoisted into the components under its own name. */
async function bundle(source: string, target: string): Promise<BundledDocument> {
  const { status, output } = await runRedocly(["bundle", source, "--lint-config=off", "-o", target]);
  if (status !== 0) throw new SpecError([`${source} cannot be bundled:`, output]);
  const document = (await readJson(target)) as BundledDocument;
  const clean = "openrpc" in document ? dropDiscriminators(document) : document;
  await writeJson(target, clean);
  return clean;
}

function checkRules({ http, gateway, config, host, webhook }: Bundles): void {
  const label = (file: string, problems: readonly string[]) =>
    problems.map((problem) => `${file}: ${problem}`);
  const openApi = (file: string, document: BundledDocument | undefined) =>
    document === undefined ? [] : label(file, checkHttpRules(document, readOperations(document)));
  const openRpc = (file: string, document: BundledDocument | undefined) =>
    document === undefined ? [] : label(file, [...checkRpcRules(document), ...checkSchemaRules(document)]);
  const problems = [
    ...openApi("http.openapi.yaml", http),
    ...openApi("webhook.openapi.yaml", webhook),
    ...openRpc("gateway.openrpc.yaml", gateway),
    ...openRpc("host.openrpc.yaml", host),
    ...label("config.schema.yaml", checkSchemaRules(config)),
  ];
  if (problems.length > 0) throw new SpecError(problems);
}

/** All TypeScript types come from one printer; what is not OpenAPI is wrapped in an empty OpenAPI document. */
async function printTypes(out: string, bundles: Bundles, rpc: BundledDocument): Promise<void> {
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
  const client: UserConfig["plugins"] = [
    types,
    {
      name: "@hey-api/sdk",
      // Flat functions take the client as an option, and then every call throws on Deno.
      operations: { strategy: "single", containerName: "AgentClient", nesting: "operationId" },
    },
    "@hey-api/client-fetch",
  ];
  await createClient([
    job(bundles.http, "http/client", client),
    job(rpc, "gateway/types"),
    job(requireDefaults(bundles.config), "config"),
    ...(bundles.webhook ? [job(bundles.webhook, "webhook/types")] : []),
  ]);
}

async function writeHttp(out: string, room: "http" | "webhook", document: BundledDocument): Promise<void> {
  const printed = room === "http" ? "client/types.gen.ts" : "types/types.gen.ts";
  const imports = {
    types: `./${printed}`,
    contract: room === "http" ? "./contract.gen.ts" : "../http/contract.gen.ts",
  };
  const server = emitHttp(document, readOperations(document), imports);
  const schemas = emitSchemas(componentSchemas(document), imports);
  checkPrinted(await readFile(join(out, room, printed), "utf8"), `${server}${schemas}`);
  await writeText(join(out, room, "server.gen.ts"), server);
  await writeText(join(out, room, "schemas.gen.ts"), schemas);
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

async function copyContract(name: "http" | "rpc", target: string): Promise<void> {
  await writeText(
    target,
    `${HEADER}\n${await readFile(join(repository, `scripts/contract/${name}.ts`), "utf8")}`,
  );
}

interface OpenRpcRun {
  readonly openrpcDocument: object;
  readonly outDir: string;
  readonly components: readonly object[];
}

/** Runs our component; the generator itself only validates the document. */
async function runOpenRpcGenerator(out: string, gateway: BundledDocument): Promise<void> {
  const run = createRequire(import.meta.url)("@open-rpc/generator").default as (
    options: OpenRpcRun,
  ) => Promise<void>;
  await run({
    openrpcDocument: {
      ...structuredClone(gateway),
      [BUNDLE_EXTENSION]: join(out, "specs/gateway.openrpc.json"),
    },
    outDir: out,
    components: [
      {
        type: "custom",
        name: "gateway",
        language: "typescript",
        customComponent: join(repository, "scripts/openrpc-component.ts"),
        customType: "contract",
        openRPCPath: null,
        outPath: join(out, "gateway"),
      },
    ],
  });
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    (error: unknown) => {
      if (isMissing(error)) return false;
      throw error;
    },
  );
}
