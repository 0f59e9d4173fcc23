/** Bundles the specs: one document each, every shared schema hoisted under its own name. Touches the machine. */
import { join } from "node:path";
import { toJsonSchema, unwrapConfig, wrapConfig } from "./config-document.ts";
import { SpecError, type BundledDocument } from "./document.ts";
import { exists, readJson, removeFolder, writeJson } from "./files.ts";
import { runRedocly } from "./redocly.ts";
import { dropDiscriminators, makeExplicit } from "./schema.ts";
import { apiSpecs, specs, type SpecFile } from "./specs.ts";

export interface Bundles {
  readonly http: BundledDocument;
  readonly gateway: BundledDocument;
  /** The configuration's schemas as components, the file itself as `Config`. */
  readonly config: BundledDocument;
  readonly host: BundledDocument | undefined;
  readonly webhook: BundledDocument | undefined;
}

/** Writes the bundles into `bundleFolder`. Throws SpecError for a missing spec, and for one that cannot be bundled. */
export async function bundleSpecs(specsFolder: string, bundleFolder: string): Promise<Bundles> {
  await requireSpecs(specsFolder);
  const there = await Promise.all(apiSpecs.map(({ source }) => exists(join(specsFolder, source))));
  const apis = apiSpecs.filter((_, index) => there[index]);
  const wrapper = join(bundleFolder, `${specs.config.bundle}.openapi.json`);
  await writeJson(wrapper, wrapConfig(join(specsFolder, specs.config.source)));
  await runBundler([...apis.map(({ source }) => join(specsFolder, source)), wrapper], bundleFolder);
  const read = (spec: SpecFile) => readApi(join(bundleFolder, spec.bundle));
  const readIfThere = async (spec: SpecFile) => (apis.includes(spec) ? read(spec) : undefined);
  const [http, gateway, config, host, webhook] = await Promise.all([
    read(specs.http),
    read(specs.gateway),
    readConfig(wrapper, join(bundleFolder, specs.config.bundle)),
    readIfThere(specs.host),
    readIfThere(specs.webhook),
  ]);
  return { http, gateway, config, host, webhook };
}

async function requireSpecs(specsFolder: string): Promise<void> {
  const required = Object.values<SpecFile>(specs).filter((spec) => spec.required);
  const there = await Promise.all(required.map(({ source }) => exists(join(specsFolder, source))));
  const missing = required.filter((_, index) => !there[index]);
  if (missing.length === 0) return;
  throw new SpecError(missing.map(({ source }) => `${join(specsFolder, source)} is missing`));
}

/** One process for all, since its start takes longer than its work. Each bundle has the name of its source, as JSON. */
async function runBundler(sources: readonly string[], folder: string): Promise<void> {
  const run = (...files: readonly string[]) =>
    runRedocly(["bundle", ...files, "--lint-config=off", "--ext", "json", "-o", `${folder}/`]);
  const { status, output } = await run(...sources);
  if (status === 0) return;
  // Which of them it was shows when each is alone.
  for (const source of sources) {
    const alone = await run(source);
    if (alone.status !== 0) throw new SpecError([`${source} cannot be bundled:`, alone.output]);
  }
  throw new SpecError(["the specs cannot be bundled:", output]);
}

async function readBundle(file: string): Promise<BundledDocument> {
  const document = (await readJson(file)) as BundledDocument;
  return "openrpc" in document ? dropDiscriminators(document) : document;
}

async function readApi(file: string): Promise<BundledDocument> {
  const explicit = makeExplicit(await readBundle(file));
  await writeJson(file, explicit);
  return explicit;
}

async function readConfig(wrapper: string, target: string): Promise<BundledDocument> {
  const config = unwrapConfig(await readBundle(wrapper));
  await removeFolder(wrapper);
  await writeJson(target, toJsonSchema(config));
  return config;
}
