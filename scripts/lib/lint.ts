/** Lints the specs. Touches the machine. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { applyDefaults, formatIssue, SchemaSet } from "../../src/base/schema.ts";
import { toJsonSchema, unwrapConfig, wrapConfig } from "./config-document.ts";
import { listDeliverySpecs } from "./delivery-document.ts";
import type { BundledDocument, JsonObject, Schema } from "./document.ts";
import { exists, readJson, removeFolder, writeJson, writeText } from "./files.ts";
import { runRedocly } from "./redocly.ts";
import { listSchemas } from "./schema.ts";
import { apiSpecs, specs } from "./specs.ts";

export interface LintResult {
  readonly ok: boolean;
  /** What to show, one entry a tool. */
  readonly reports: readonly string[];
}

/** Lints every spec that exists in `specsFolder`, and says which required ones do not. */
export async function lintSpecs(specsFolder: string): Promise<LintResult> {
  const [apis, config] = await Promise.all([
    lintApis(specsFolder),
    lintConfig(join(specsFolder, specs.config.source)),
  ]);
  return { ok: apis.ok && config.ok, reports: [...apis.reports, ...config.reports] };
}

async function lintApis(specsFolder: string): Promise<LintResult> {
  const there = await Promise.all(apiSpecs.map(({ source }) => exists(join(specsFolder, source))));
  const missing = apiSpecs.filter(({ required }, index) => required && !there[index]);
  const own = apiSpecs.filter((_, index) => there[index]).map(({ source }) => join(specsFolder, source));
  const files = [...own, ...(await listDeliverySpecs(specsFolder))];
  const notes = missing.map(({ source }) => `${join(specsFolder, source)} is missing`);
  if (files.length === 0) return { ok: false, reports: notes };
  const { status, output } = await runRedocly(["lint", ...files]);
  return { ok: status === 0 && missing.length === 0, reports: [...notes, output] };
}

/** The configuration's schema must be JSON Schema, compile, and have defaults that fit their own schemas. */
async function lintConfig(file: string): Promise<LintResult> {
  if (!(await exists(file))) return { ok: false, reports: [`${file} is missing`] };
  const work = await mkdtemp(join(tmpdir(), "lint-specs-"));
  try {
    const [wrapper, rules] = [join(work, "config.openapi.json"), join(work, "redocly.yaml")];
    await writeJson(wrapper, wrapConfig(file));
    await writeText(rules, "rules: { struct: error, no-unresolved-refs: error }\ntelemetry: off\n");
    const linted = await runRedocly(["lint", wrapper, "--config", rules]);
    if (linted.status !== 0) return { ok: false, reports: [linted.output] };
    const bundled = await runRedocly(["bundle", wrapper, "--config", rules, "-o", wrapper]);
    if (bundled.status !== 0) return { ok: false, reports: [bundled.output] };
    const problems = checkConfigSchema(
      toJsonSchema(unwrapConfig((await readJson(wrapper)) as BundledDocument)),
    );
    return { ok: problems.length === 0, reports: problems.length === 0 ? [`${file}: valid`] : problems };
  } finally {
    await removeFolder(work);
  }
}

/** One line for every default that its own schema refuses. Throws when the schema does not compile. */
export function checkConfigSchema(schema: Schema): readonly string[] {
  const set = new SchemaSet({});
  set.check(schema, {});
  const owners = listSchemas(schema, "").filter((place) => "default" in place.schema);
  return owners.flatMap(({ at, schema: owner }) => {
    const rooted = { ...owner, $defs: schema["$defs"] } as JsonObject;
    const filled = applyDefaults(rooted, owner["default"], schema);
    const issues = set.check(rooted, filled) ?? [];
    return issues.map(
      (issue) => `${specs.config.source} ${at}: its own schema refuses the default: ${formatIssue(issue)}`,
    );
  });
}
