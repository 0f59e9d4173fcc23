/** Changes one key of the configuration file and keeps everything else, comments included. Strict on write. */
import { isAlias, isCollection, isMap, isScalar, isSeq, parseDocument, type Document } from "yaml";
import { formatDotPath, getAtPath, parseDotPath, type DotPath } from "../../base/json/dotpath.ts";
import { ServiceError } from "../../base/errors.ts";
import type { JsonSchema } from "../../base/json/schema.ts";
import { checkConfig } from "../check.ts";
import { findNewerVersion, parseConfig, toPlain } from "./document.ts";
import { configPath, readPrivateFile, withFileLock, writePrivateFile } from "../home.ts";
import { problemKey, formatConfigIssue, type Problem } from "../issue.ts";
import { suggest } from "../../base/nearest.ts";
import { namesAt, schemaAt } from "../schema-path.ts";

export interface Edit {
  readonly home: string;
  /** For example `api_server.port` or `model.providers.local.base_url`. */
  readonly key: string;
}

export interface Edited {
  readonly path: string;
  readonly changed: boolean;
}

/**
 * Sets `key` to `value`, as typed on the command line (a YAML scalar or JSON). ServiceError `invalid_config` when the
 * key or the value is not allowed, with the allowed ones, and when the file is not YAML. Other mistakes in the file
 * stay.
 */
export async function setConfigValue(edit: Edit & { readonly value: string }): Promise<Edited> {
  const key = readKey(edit.key);
  const schema = schemaAt(key);
  if (!schema) throw unknownKey(key);
  const value = parseEditValue(edit.value, schema, edit.key);
  if (value === null)
    throw refuse(`${edit.key} cannot be null. To go back to the default, unset it.`, edit.key);
  return change(edit.home, key, (yaml) => {
    makeParents(yaml, key);
    yaml.setIn(key, isCollectionValue(value) ? yaml.createNode(value) : value);
    return value;
  });
}

/** Removes `key` from the file, so its default applies. Also removes unknown keys. */
export async function unsetConfigValue(edit: Edit): Promise<Edited> {
  const key = readKey(edit.key);
  return change(edit.home, key, (yaml, before) => {
    const isThere = yaml.hasIn(key);
    if (!isThere && !schemaAt(key)) throw unknownKey(key, before);
    if (isThere) remove(yaml, key);
    for (let length = key.length - 1; isThere && length > 0; length--)
      dropIfEmpty(yaml, key.slice(0, length));
    return undefined;
  });
}

/**
 * Returns the value that `text` stands for under `schema`: the text itself for keys that hold text, unless it is quoted;
 * a YAML scalar or JSON for other keys. ServiceError `invalid_config` when it is neither.
 */
export function parseEditValue(text: string, schema: JsonSchema, key: string): unknown {
  const isQuoted = text.length > 1 && /^(["']).*\1$/s.test(text);
  if (schema["type"] === "string" && !isQuoted) return text;
  const document = parseDocument(text, { prettyErrors: false });
  const [problem] = document.errors;
  if (!problem) return document.toJS() as unknown;
  const message = `The value for ${key} is neither a YAML scalar nor JSON: ${problem.message}. Write lists as [a, b].`;
  throw refuse(message, key);
}

/** Parses a key. ServiceError `invalid_config` when it is not one. */
export function readKey(text: string): DotPath {
  const key = parseDotPath(text);
  if (key) return key;
  throw refuse(
    `${JSON.stringify(text)} is not a key. Write keys like api_server.port or api_server.keys[0].name.`,
    text,
  );
}

/** Returns the error for a key that neither the schema nor `value` (the file) has. */
export function unknownKey(key: DotPath, value?: unknown): ServiceError {
  const known = key.findIndex((_, index) => !schemaAt(key.slice(0, index + 1)));
  const parent = key.slice(0, Math.max(0, known));
  const name = formatDotPath(key.slice(0, known + 1));
  const inFile = getAtPath(value, parent);
  const names = [
    ...new Set([...namesAt(parent), ...(typeof inFile === "object" && inFile ? Object.keys(inFile) : [])]),
  ];
  const hint = suggest(String(key[known]), names);
  return refuse(`${name} is not a known key${hint}${/[?]$/.test(hint) ? "" : "."}`, formatDotPath(key));
}

type Apply = (yaml: Document.Parsed, before: unknown) => unknown;

async function change(home: string, key: DotPath, apply: Apply): Promise<Edited> {
  const path = configPath(home);
  return withFileLock(path, async () => {
    const text = await readPrivateFile(path);
    const next = applyEdit({ text: text ?? "", path, key }, apply);
    if (next === (text ?? "")) return { path, changed: false };
    await writePrivateFile(path, text === undefined ? `version: 1\n${next}` : next);
    return { path, changed: true };
  });
}

/** Returns the text of the file after the change. */
function applyEdit(
  from: { readonly text: string; readonly path: string; readonly key: DotPath },
  apply: Apply,
): string {
  const { yaml, before } = open(from);
  const unchanged = JSON.stringify(yaml.toJS());
  const wanted = apply(yaml, before);
  const after = yaml.toJS() as unknown;
  if (JSON.stringify(after) === unchanged) return from.text;
  refuseNewProblems(before, after, from.key);
  const text =
    yaml.contents === null || isEmptyMap(yaml.contents) ? commentsOf(yaml) : yaml.toString({ lineWidth: 0 });
  const reread = getAtPath(parseConfig(text).yaml.toJS(), from.key);
  if (wanted !== undefined && JSON.stringify(reread) !== JSON.stringify(wanted)) {
    throw refuse(
      `${formatDotPath(from.key)} cannot be written here. Edit ${from.path} by hand.`,
      formatDotPath(from.key),
    );
  }
  return text;
}

function open({ text, path }: { readonly text: string; readonly path: string }) {
  const document = parseConfig(text);
  const broken = document.issues.find(({ severity }) => severity === "error");
  if (broken)
    throw refuse(`${formatConfigIssue(broken, path)}\nCorrect the file by hand, then try again.`, path);
  const problem = findNewerVersion(document);
  if (problem) throw refuse(`${path}: ${problemKey(problem)}.`, "version");
  const plain = toPlain(document);
  if ("issue" in plain) throw refuse(formatConfigIssue(plain.issue, path), path);
  const { contents } = document.yaml;
  if (contents !== null && !isMap(contents) && plain.value !== null) {
    throw refuse(`${path} must hold keys and values. Correct the file by hand, then try again.`, path);
  }
  return { yaml: document.yaml, before: plain.value };
}

/** Existing problems may stay: a mistake elsewhere must not prevent correcting this one. */
function refuseNewProblems(before: unknown, after: unknown, key: DotPath): void {
  const known = new Set(checkConfig(before).problems.map(problemKey));
  const at = formatDotPath(key);
  const fresh = checkConfig(after).problems.filter(
    (problem) => isWithin(problem, key) || !known.has(problemKey(problem)),
  );
  if (fresh.length > 0) throw refuse(`${fresh.map(problemKey).join(".\n")}.`, at);
}

function isWithin({ path }: Problem, key: DotPath): boolean {
  return key.every((segment, index) => path[index] === segment);
}

/** Creates the parent sections; an empty section becomes a map or list. */
function makeParents(yaml: Document.Parsed, key: DotPath): void {
  for (let length = 0; length < key.length; length++) {
    const path = key.slice(0, length);
    const node = length === 0 ? yaml.contents : yaml.getIn(path, true);
    const wantsList = typeof key[length] === "number";
    if (node === null || node === undefined || (isScalar(node) && node.value === null)) {
      const made = yaml.createNode(wantsList ? [] : {});
      // Comments of an empty section belong to its empty value.
      if (isScalar(node)) Object.assign(made, { comment: node.comment, commentBefore: node.commentBefore });
      if (length === 0) Object.assign(yaml, { contents: made });
      else yaml.setIn(path, made);
    } else if (isAlias(node) || !isCollection(node) || isSeq(node) !== wantsList) {
      const what = isAlias(node) ? "an alias" : isSeq(node) ? "a list" : "no section";
      throw refuse(`${formatDotPath(path)} is ${what} in the file. Edit it by hand.`, formatDotPath(key));
    }
    const { [length]: index } = key;
    const size = isSeq(node) ? node.items.length : 0;
    if (typeof index === "number" && index > size) {
      throw refuse(
        `${formatDotPath(path)} has ${size} item(s); the next one is [${size}].`,
        formatDotPath(key),
      );
    }
  }
}

/** The comment above a key may be about more than the key, like the head of the file: it moves to the next key. */
function remove(yaml: Document.Parsed, path: DotPath): void {
  const parent = path.length > 1 ? yaml.getIn(path.slice(0, -1), true) : yaml.contents;
  const at = isMap(parent)
    ? parent.items.findIndex(({ key }) => isScalar(key) && key.value === path.at(-1))
    : -1;
  const { key: removed } = (isMap(parent) && parent.items[at]) || {};
  const { key: next } = (isMap(parent) && parent.items[at + 1]) || {};
  yaml.deleteIn(path);
  if (!isMap(parent) || !isScalar(removed) || !removed.commentBefore) return;
  const joined = (rest: string | null | undefined) =>
    [removed.commentBefore, rest].filter(Boolean).join("\n");
  if (isScalar(next)) next.commentBefore = joined(next.commentBefore);
  else parent.comment = [parent.comment, removed.commentBefore].filter(Boolean).join("\n");
}

function dropIfEmpty(yaml: Document.Parsed, path: DotPath): void {
  const node = yaml.getIn(path, true);
  if (isMap(node) && isEmptyMap(node) && !node.comment && !node.commentBefore) remove(yaml, path);
}

function isEmptyMap(node: unknown): boolean {
  return isMap(node) && node.items.length === 0;
}

/** Returns a file without keys as its comments alone: `{}` at its end would break manual edits. */
function commentsOf(yaml: Document.Parsed): string {
  const comments = [yaml.commentBefore, yaml.contents?.commentBefore, yaml.contents?.comment, yaml.comment];
  const text = comments.filter((comment) => typeof comment === "string").join("\n");
  return text === "" ? "" : `${text.replace(/^/gm, "#")}\n`;
}

function isCollectionValue(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

function refuse(message: string, param: string): ServiceError {
  return new ServiceError("invalid_config", message, { param });
}
