/** Checks of a configuration: against its schema, and for what a schema cannot express. Pure. */
import { configSchema } from "../../generated/config/schema.gen.ts";
import type { Config } from "../../generated/config/types.gen.ts";
import {
  type DotPath,
  formatDotPath,
  getAtPath,
  isRecord,
  parseDotPath,
  type PathSegment,
} from "../base/data.ts";
import { checkOnce, type Issue, type JsonSchema, resolveReference } from "../base/schema.ts";
import { suggest, zoneHint } from "../base/suggest.ts";

// Against the schema, tolerantly: wrong parts are reported and dropped

/** Limit of rounds: a file with more problems is not a configuration. */
const MAX_ROUNDS = 200;

export interface Checked {
  /** The valid part, without defaults. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
}

/** Checks a configuration. An empty section (`model:` with its lines commented out) counts as absent. */
export function checkConfig(raw: unknown): Checked {
  if (raw !== null && raw !== undefined && !isRecord(raw)) {
    return { value: {}, problems: [{ path: [], message: "must hold keys and values", kind: "invalid" }] };
  }
  let value: unknown = dropEmpty(structuredClone(raw ?? {}), []);
  // The usual first start: the schema requires no key at its root.
  if (isRecord(value) && Object.keys(value).length === 0) return { value, problems: [] };
  const problems: Problem[] = [];
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const issues = checkOnce(configSchema, value);
    if (!issues) return { value, problems };
    const found = distinct(issues.map(toProblem));
    problems.push(...found);
    for (const problem of found) value = without(value, partToDrop(value, problem));
  }
  return { value: {}, problems };
}

/** Keeps the first problem of each value: it is the most specific. */
function distinct(problems: readonly Problem[]): readonly Problem[] {
  return [
    ...new Map(problems.toReversed().map((problem) => [formatDotPath(problem.path), problem])).values(),
  ].toReversed();
}

/** Drops a list as a whole: without one item, the indexes of the others would not match the file. */
function partToDrop(value: unknown, { path, kind }: Problem): DotPath {
  const own = kind === "missing" ? path.slice(0, -1) : path;
  const list = own.findIndex((segment) => typeof segment === "number");
  let part = list < 0 ? own : own.slice(0, list);
  while (part.length > 0 && getAtPath(value, part) === undefined) part = part.slice(0, -1);
  return part;
}

function toProblem({ path, message, keyword }: Issue): Problem {
  const segments = parseDotPath(path) ?? [];
  if (keyword === "required") return { path: segments, message, kind: "missing" };
  if (keyword !== "additionalProperties") return { path: segments, message, kind: "invalid" };
  const hint = suggest(String(segments.at(-1)), namesAt(segments.slice(0, -1)));
  return { path: segments, message: `is not a known key${hint}`, kind: "unknown" };
}

function without(value: unknown, [head, ...rest]: DotPath): unknown {
  if (head === undefined) return {};
  if (!isRecord(value)) return value;
  const entries = Object.entries(value);
  if (rest.length === 0) return Object.fromEntries(entries.filter(([name]) => name !== head));
  return Object.fromEntries(
    entries.map(([name, item]) => [name, name === head ? without(item, rest) : item]),
  );
}

function dropEmpty(value: unknown, path: readonly PathSegment[]): unknown {
  if (!isRecord(value)) return value;
  const kept = Object.entries(value).filter(([name, item]) => item !== null || !schemaAt([...path, name]));
  return Object.fromEntries(kept.map(([name, item]) => [name, dropEmpty(item, [...path, name])]));
}

// What a schema cannot express

export const MIN_KEY_LENGTH = 16;
/** In place of a key: no key is required. */
export const NO_AUTH = "INSECURE_NO_AUTH";

/** Returns the problems of a configuration that matches the schema and has its defaults. */
export function checkMeaning(config: Config): readonly Problem[] {
  return [
    ...providerProblems(config),
    ...keyProblems(config),
    ...originProblems(config),
    ...zoneProblems(config),
  ];
}

function providerProblems({ model }: Config): readonly Problem[] {
  return Object.entries(model.providers).flatMap(([name, provider]) => {
    const path = ["model", "providers", name];
    const problems: Problem[] = [];
    if (name === "demo") {
      problems.push({
        path,
        message: "is the name of the built-in model; choose another name",
        kind: "invalid",
      });
    }
    if (provider.type === "openai_compatible" && provider.base_url === undefined) {
      const message = "is required for the type openai_compatible";
      problems.push({ path: [...path, "base_url"], message, kind: "missing" });
    }
    return problems;
  });
}

function keyProblems({ api_server: { key, keys, webhook_secret: secret } }: Config): readonly Problem[] {
  const problems: Problem[] = [];
  if (isShort(key)) problems.push(short(["api_server", "key"]));
  if (isShort(secret)) problems.push(short(["api_server", "webhook_secret"]));
  for (const [index, each] of keys.entries()) {
    const path = ["api_server", "keys", index];
    if ((each.key === undefined) === (each.key_sha256 === undefined)) {
      problems.push({ path, message: "must have either key or key_sha256", kind: "invalid" });
    }
    if (each.key === NO_AUTH) {
      const message = `${NO_AUTH} belongs in api_server.key, without other keys`;
      problems.push({ path: [...path, "key"], message, kind: "invalid" });
    }
    if (isShort(each.key)) problems.push(short([...path, "key"]));
  }
  if (key === NO_AUTH && keys.length > 0) {
    const message = `must be empty while api_server.key is ${NO_AUTH}, which requires no key`;
    problems.push({ path: ["api_server", "keys"], message, kind: "invalid" });
  }
  return problems;
}

function originProblems({ api_server: { key, cors_origins: origins } }: Config): readonly Problem[] {
  if (key !== NO_AUTH || !origins.includes("*")) return [];
  const message = `must name the origins while api_server.key is ${NO_AUTH}: any web page could run commands here`;
  return [{ path: ["api_server", "cors_origins"], message, kind: "invalid" }];
}

function zoneProblems({ timezone }: Config): readonly Problem[] {
  const hint = timezone === undefined ? undefined : zoneHint(timezone);
  if (hint === undefined) return [];
  return [{ path: ["timezone"], message: `is not the name of a time zone${hint}`, kind: "invalid" }];
}

function isShort(key: string | undefined): boolean {
  return key !== undefined && !key.startsWith("env:") && key.length < MIN_KEY_LENGTH;
}

function short(path: Problem["path"]): Problem {
  return { path, message: `must have at least ${MIN_KEY_LENGTH} characters`, kind: "invalid" };
}

// What the schema says about a key

/** The schema of the value at `path`; undefined when the configuration has no such key. */
export function schemaAt(path: DotPath): JsonSchema | undefined {
  return path.reduce<JsonSchema | undefined>((schema, segment) => {
    if (!schema) return undefined;
    if (typeof segment === "number") return asSchema(schema["items"]);
    const { properties, additionalProperties } = schema;
    const known =
      isRecord(properties) && Object.hasOwn(properties, segment) ? properties[segment] : undefined;
    return asSchema(known ?? additionalProperties);
  }, configSchema);
}

/** The names that the schema knows below `path`; none where names are free. */
export function namesAt(path: DotPath): readonly string[] {
  const properties = schemaAt(path)?.["properties"];
  return isRecord(properties) ? Object.keys(properties) : [];
}

/** References in the configuration are never chained with other constraints that matter here. */
function asSchema(value: unknown): JsonSchema | undefined {
  if (!isRecord(value)) return undefined;
  const { $ref, ...beside } = value;
  return typeof $ref === "string" ? { ...resolveReference(configSchema, $ref), ...beside } : value;
}

// Issues

/** An issue of the configuration. Never holds the value, which may be a secret. */
export interface ConfigIssue {
  /** The key, such as `api_server.port`; "" for the file as a whole; the name of a variable of the environment. */
  readonly path: string;
  /** What is wrong and what is allowed, as a clause that follows the path. */
  readonly message: string;
  /** Line in the file, counted from 1; undefined when the issue is not in the file. */
  readonly line: number | undefined;
  readonly column: number | undefined;
  /** `error` prevents the service from starting. */
  readonly severity: "error" | "warning";
}

/** Returns a line such as `config.yaml:3:9: api_server.port must be an integer`. */
export function formatConfigIssue(issue: ConfigIssue, file: string): string {
  const { path, message, line, column, severity } = issue;
  const position = line === undefined ? "" : `${file}:${line}:${column ?? 1}: `;
  const subject = path === "" && line === undefined ? `${file} ` : path === "" ? "" : `${path} `;
  return `${position}${severity === "warning" ? "warning: " : ""}${subject}${message}`;
}

/** A {@link ConfigIssue} without its position in the file. */
export interface Problem {
  readonly path: DotPath;
  readonly message: string;
  readonly kind: "unknown" | "missing" | "invalid";
}

/** Returns a key that identifies the problem. */
export function problemKey({ path, message }: Problem): string {
  return `${formatDotPath(path)} ${message}`;
}
