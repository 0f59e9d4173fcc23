/** Bundles the specs: one document each, every shared schema hoisted under its own name. Touches the machine. */
import { join } from "node:path";
import { toJsonSchema, unwrapConfig, wrapConfig } from "./config-document.ts";
import { SpecError, type BundledDocument } from "./document.ts";
import { exists, readJson, removeFolder, writeJson } from "./files.ts";
import { runRedocly } from "./redocly.ts";
import { dropDiscriminators, makeExplicit } from "./schema.ts";
import { specs, type SpecFile } from "./specs.ts";

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
  const make = ({ source, bundle: name }: SpecFile) =>
    bundleApi(join(specsFolder, source), join(bundleFolder, name));
  const makeIfThere = async (spec: SpecFile) =>
    (await exists(join(specsFolder, spec.source))) ? make(spec) : undefined;
  const jobs = [
    make(specs.http),
    make(specs.gateway),
    bundleConfig(join(specsFolder, specs.config.source), join(bundleFolder, specs.config.bundle)),
    makeIfThere(specs.host),
    makeIfThere(specs.webhook),
  ] as const;
  // Nothing writes into the folder any more when a failure is reported.
  await Promise.allSettled(jobs);
  const [http, gateway, config, host, webhook] = await Promise.all(jobs);
  return { http, gateway, config, host, webhook };
}

async function requireSpecs(specsFolder: string): Promise<void> {
  const required = Object.values<SpecFile>(specs).filter((spec) => spec.required);
  const there = await Promise.all(required.map(({ source }) => exists(join(specsFolder, source))));
  const missing = required.filter((_, index) => !there[index]);
  if (missing.length === 0) return;
  throw new SpecError(missing.map(({ source }) => `${join(specsFolder, source)} is missing`));
}

async function bundleApi(source: string, target: string): Promise<BundledDocument> {
  const explicit = makeExplicit(await bundle(source, target));
  await writeJson(target, explicit);
  return explicit;
}

async function bundle(source: string, target: string): Promise<BundledDocument> {
  const { status, output } = await runRedocly(["bundle", source, "--lint-config=off", "-o", target]);
  if (status !== 0) throw new SpecError([`${source} cannot be bundled:`, output]);
  const document = (await readJson(target)) as BundledDocument;
  const clean = "openrpc" in document ? dropDiscriminators(document) : document;
  await writeJson(target, clean);
  return clean;
}

async function bundleConfig(source: string, target: string): Promise<BundledDocument> {
  const wrapper = `${target}.openapi.json`;
  await writeJson(wrapper, wrapConfig(source));
  const config = unwrapConfig(await bundle(wrapper, wrapper));
  await removeFolder(wrapper);
  await writeJson(target, toJsonSchema(config));
  return config;
}
