/** The configuration file: read with line numbers, changed one key at a time. */
import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from "yaml";
import { type DotPath, formatDotPath, getAtPath, parseDotPath } from "../base/data.ts";
import { ServiceError } from "../base/errors.ts";
import type { JsonSchema } from "../base/schema.ts";
import { suggest } from "../base/suggest.ts";
import {
  checkConfig,
  type ConfigIssue,
  formatConfigIssue,
  namesAt,
  type Problem,
  problemKey,
  schemaAt,
} from "./check.ts";
import { configPath, readPrivateFile, withFileLock, writePrivateFile } from "./home.ts";

// The file as a YAML document with its comments and line numbers

export interface ConfigDocument {
  readonly yaml: Document.Parsed;
  readonly lines: LineCounter;
  /** Issues of the YAML itself. With an error among them the document must not be used. */
  readonly issues: readonly ConfigIssue[];
}

export function parseConfig(text: string): ConfigDocument {
  const lines = new LineCounter();
  const yaml = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const toIssue =
    (severity: ConfigIssue["severity"]) =>
    ({ message, pos: [at] }: { readonly message: string; readonly pos: readonly [number, number] }) => {
      const { line, col } = lines.linePos(at);
      return { path: "", message: `is not valid YAML here: ${message}`, line, column: col, severity };
    };
  return {
    yaml,
    lines,
    issues: [...yaml.errors.map(toIssue("error")), ...yaml.warnings.map(toIssue("warning"))],
  };
}

/** The version of the format that this program reads and writes. */
const VERSION = 1;

/** Returns the problem of a file that a newer agentd wrote, which must be neither used nor changed. */
export function findNewerVersion({ yaml }: ConfigDocument): Problem | undefined {
  const version = isMap(yaml.contents) ? yaml.get("version") : VERSION;
  if (typeof version !== "number" || !Number.isInteger(version) || version <= VERSION) return undefined;
  const message = `${version} is newer than this agentd, which supports versions up to ${VERSION}; install a newer agentd`;
  return { path: ["version"], message, kind: "invalid" };
}

/** Returns the document as plain data; an issue when an alias is undefined, or aliases expand without bound. */
export function toPlain(
  document: ConfigDocument,
): { readonly value: unknown } | { readonly issue: ConfigIssue } {
  try {
    return { value: document.yaml.toJS() as unknown };
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const position = document.lines.linePos(firstAlias(document.yaml));
    const message = `cannot be read: ${error.message}`;
    return { issue: { path: "", message, line: position.line, column: position.col, severity: "error" } };
  }
}

/** Returns the offset of the first undefined alias, else of the first alias. */
function firstAlias(yaml: Document.Parsed): number {
  const offsets: { readonly isBad: boolean; readonly at: number }[] = [];
  visit(yaml, {
    Alias: (_, alias) => void offsets.push({ isBad: !alias.resolve(yaml), at: alias.range?.[0] ?? 0 }),
  });
  return (offsets.find(({ isBad }) => isBad) ?? offsets[0])?.at ?? 0;
}

/** Adds the position in the file: of the name for an unknown key, of the parent for a missing one. */
export function locate(problem: Problem, document: ConfigDocument): ConfigIssue {
  const at =
    problem.kind === "unknown"
      ? keyOffset(document.yaml, problem.path)
      : valueOffset(document.yaml, problem.path);
  const position = at === undefined ? undefined : document.lines.linePos(at);
  return {
    path: formatDotPath(problem.path),
    message: problem.message,
    line: position?.line,
    column: position?.col,
    severity: "error",
  };
}

function keyOffset(yaml: Document.Parsed, path: DotPath): number | undefined {
  const parent = path.length > 1 ? yaml.getIn(path.slice(0, -1), true) : yaml.contents;
  if (!isMap(parent)) return valueOffset(yaml, path);
  const pair = parent.items.find(
    (item) => isPair(item) && isScalar(item.key) && String(item.key.value) === path.at(-1),
  );
  return startOf(pair?.key) ?? valueOffset(yaml, path);
}

/** Falls back to the nearest parent when `path` does not exist. */
function valueOffset(yaml: Document.Parsed, path: DotPath): number | undefined {
  for (let length = path.length; length > 0; length--) {
    const offset = startOf(
      yaml.hasIn(path.slice(0, length)) ? yaml.getIn(path.slice(0, length), true) : undefined,
    );
    if (offset !== undefined) return offset;
  }
  return startOf(yaml.contents);
}

function startOf(node: unknown): number | undefined {
  return (node as Node | null | undefined)?.range?.[0];
}

// Changes of one key: everything else stays, comments included; strict on write

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
    setKey(yaml, key, value);
    return value;
  });
}

/** Sets a key of the document, with its parents. ServiceError `invalid_config` where a parent cannot have it. */
export function setKey(yaml: Document.Parsed, key: DotPath, value: unknown): void {
  makeParents(yaml, key);
  yaml.setIn(key, isCollectionValue(value) ? yaml.createNode(value) : value);
}

/** Removes a key of the document, with the sections that it leaves empty. */
export function removeKey(yaml: Document.Parsed, key: DotPath): void {
  if (!yaml.hasIn(key)) return;
  remove(yaml, key);
  for (let length = key.length - 1; length > 0; length--) dropIfEmpty(yaml, key.slice(0, length));
}

/** Removes `key` from the file, so its default applies. Also removes unknown keys. */
export async function unsetConfigValue(edit: Edit): Promise<Edited> {
  const key = readKey(edit.key);
  return change(edit.home, key, (yaml, before) => {
    const isThere = yaml.hasIn(key);
    if (!isThere && !schemaAt(key)) throw unknownKey(key, before);
    removeKey(yaml, key);
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
  const { yaml, before } = openDocument(from.text, from.path);
  const unchanged = JSON.stringify(yaml.toJS());
  const wanted = apply(yaml, before);
  const after = yaml.toJS() as unknown;
  if (JSON.stringify(after) === unchanged) return from.text;
  refuseNewProblems(before, after, from.key);
  const text = documentText(yaml);
  const reread = getAtPath(parseConfig(text).yaml.toJS(), from.key);
  if (wanted !== undefined && JSON.stringify(reread) !== JSON.stringify(wanted)) {
    throw refuse(
      `${formatDotPath(from.key)} cannot be written here. Edit ${from.path} by hand.`,
      formatDotPath(from.key),
    );
  }
  return text;
}

/** Returns the text of a file with this document. */
export function documentText(yaml: Document.Parsed): string {
  const hasKeys = yaml.contents !== null && !isEmptyMap(yaml.contents);
  return hasKeys ? yaml.toString({ lineWidth: 0 }) : commentsOf(yaml);
}

/** Opens the text of the file at `path` for a change. ServiceError `invalid_config` when it is not YAML with keys. */
export function openDocument(
  text: string,
  path: string,
): { readonly yaml: Document.Parsed; readonly before: unknown } {
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
      const what = isAlias(node) ? "an alias" : isSeq(node) ? "a list" : "not a section";
      throw refuse(`${formatDotPath(path)} is ${what} in the file. Edit it by hand.`, formatDotPath(key));
    }
    const { [length]: index } = key;
    const size = isSeq(node) ? node.items.length : 0;
    if (typeof index === "number" && index > size) {
      throw refuse(
        `${formatDotPath(path)} has ${size === 1 ? "1 item" : `${size} items`}; the next one is [${size}].`,
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
