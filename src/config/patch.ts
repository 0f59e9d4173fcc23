/** Changes of several keys of the configuration file at once, as a JSON Merge Patch. Touches the machine. */
import { type DotPath, formatDotPath, isRecord, mergePatch } from "../base/data.ts";
import { ServiceError } from "../base/errors.ts";
import { MASK } from "../base/observe.ts";
import { sha256 } from "../base/text.ts";
import type { Config } from "../../generated/config/types.gen.ts";
import { type ConfigIssue, schemaAt } from "./check.ts";
import { readConfig } from "./config.ts";
import { documentText, openDocument, removeKey, setKey } from "./file.ts";
import { configPath, type Environment, readPrivateFile, withFileLock, writePrivateFile } from "./home.ts";
import { maskSecrets } from "./secret-values.ts";

export interface PatchOptions {
  readonly home: string;
  /** The variables of the service. */
  readonly env: Environment;
  /** Gets the version of the file before the change; throws to refuse the change. */
  readonly check: (version: string) => void;
  readonly dryRun: boolean;
  /** Returns mistakes that only the use of the configuration shows. */
  readonly findMoreIssues: (config: Config) => readonly ConfigIssue[];
}

export interface Patched {
  /** The keys that changed, such as `log.level`. */
  readonly changed: readonly DotPath[];
  /** The version of the file now. */
  readonly version: string;
}

/** Returns the version of the file's text; undefined: it does not exist. */
export function fileVersion(text: string | undefined): string {
  return sha256(text ?? "");
}

/**
 * Applies a merge patch to the file: comments and order stay. ServiceError `secret_not_allowed` for a secret or the text
 * `[redacted]`; `invalid_config` with every mistake that the patch makes in `details.issues`; those that the file had stay.
 */
export async function patchConfig(
  patch: Readonly<Record<string, unknown>>,
  options: PatchOptions,
): Promise<Patched> {
  refuseSecrets(patch);
  const path = configPath(options.home);
  return withFileLock(path, async () => {
    const text = await readPrivateFile(path);
    options.check(fileVersion(text));
    const before = openDocument(text ?? "", path).before;
    const next = patchText(text ?? "", path, patch);
    const changed = differences(before ?? {}, mergePatch(before ?? {}, patch));
    if (changed.length === 0) return { changed, version: fileVersion(text) };
    refuseIssues(text ?? "", next, options);
    const written = text === undefined ? `version: 1\n${next}` : next;
    if (!options.dryRun) await writePrivateFile(path, written);
    return { changed, version: fileVersion(written) };
  });
}

/** Returns the keys whose values differ. Lists differ as a whole. */
export function differences(before: unknown, after: unknown, path: DotPath = []): readonly DotPath[] {
  const [old, next] = [before ?? (isRecord(after) ? {} : before), after ?? (isRecord(before) ? {} : after)];
  if (isRecord(old) && isRecord(next)) {
    const names = new Set([...Object.keys(old), ...Object.keys(next)]);
    return [...names].flatMap((name) => differences(old[name], next[name], [...path, name]));
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [path];
}

/** Returns when a change of a key takes effect. */
export function appliesAt(path: DotPath): "live" | "reload" | "restart" {
  for (let length = path.length; length > 0; length--) {
    const found = schemaAt(path.slice(0, length))?.["x-applies"];
    if (found === "live" || found === "reload") return found;
  }
  return "restart";
}

function patchText(text: string, path: string, patch: Readonly<Record<string, unknown>>): string {
  const { yaml, before } = openDocument(text, path);
  for (const { key, value } of editsOf(patch, before)) {
    if (value === undefined) removeKey(yaml, key);
    else setKey(yaml, key, value);
  }
  const next = documentText(yaml);
  const wanted = mergePatch(before ?? {}, patch);
  if (differences(openDocument(next, path).before ?? {}, wanted).every((each) => isEmpty(wanted, each)))
    return next;
  throw new ServiceError("invalid_config", `The patch cannot be written. Edit ${path} by hand.`);
}

interface KeyEdit {
  readonly key: DotPath;
  /** Undefined: the key is removed. */
  readonly value: unknown;
}

/** A value inside a section is set on its own, so that the comments beside it stay. */
function editsOf(
  patch: Readonly<Record<string, unknown>>,
  current: unknown,
  path: DotPath = [],
): readonly KeyEdit[] {
  return Object.entries(patch).flatMap(([name, value]): readonly KeyEdit[] => {
    const key = [...path, name];
    const present = isRecord(current) ? current[name] : undefined;
    if (value === null) return [{ key, value: undefined }];
    if (!isRecord(value)) return [{ key, value }];
    const isSection = present === undefined || present === null || isRecord(present);
    if (isSection && Object.keys(value).length > 0) return editsOf(value, present, key);
    return [{ key, value: isRecord(present) ? present : mergePatch({}, value) }];
  });
}

/** A section that a patch leaves without keys is not written. */
function isEmpty(wanted: unknown, path: DotPath): boolean {
  const value = path.reduce<unknown>((each, name) => (isRecord(each) ? each[name] : undefined), wanted);
  return (
    isRecord(value) && Object.values(value).every((each) => isRecord(each) && Object.keys(each).length === 0)
  );
}

function refuseSecrets(value: unknown, path: DotPath = []): void {
  if (Array.isArray(value)) return value.forEach((item, index) => refuseSecrets(item, [...path, index]));
  if (isRecord(value)) {
    return Object.entries(value).forEach(([name, item]) => refuseSecrets(item, [...path, name]));
  }
  if (typeof value !== "string" || (!value.includes(MASK) && maskSecrets(value, path) === value)) return;
  const param = formatDotPath(path);
  const what = value.includes(MASK)
    ? `${param} contains ${MASK}, which stands for a secret. Leave it out.`
    : `${param} is a secret. Set a variable in <home>/.env and refer to it as env:NAME.`;
  throw new ServiceError("secret_not_allowed", what, { param });
}

function refuseIssues(before: string, after: string, { env, findMoreIssues }: PatchOptions): void {
  const issuesOf = (text: string) => {
    const { config, issues } = readConfig(text, env);
    return [...issues.filter(({ severity }) => severity === "error"), ...findMoreIssues(config)];
  };
  const known = new Set(issuesOf(before).map(({ path, message }) => `${path} ${message}`));
  const fresh = issuesOf(after).filter(({ path, message }) => !known.has(`${path} ${message}`));
  const [first] = fresh;
  if (!first) return;
  const list = fresh.map(({ path, message }) => `${path} ${message}`.trim()).join(". ");
  throw new ServiceError(
    "invalid_config",
    `The configuration would not be valid: ${list}. Nothing was changed.`,
    {
      param: first.path,
      details: {
        issues: fresh.map((issue) => ({ ...issue, line: issue.line ?? null, column: issue.column ?? null })),
      },
    },
  );
}
