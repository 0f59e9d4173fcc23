/**
 * Checks plain data against the schema of the configuration, tolerantly: wrong parts are reported and dropped. Pure.
 */
import { configSchema } from "../../generated/config/schema.gen.ts";
import {
  formatDotPath,
  getAtPath,
  parseDotPath,
  type DotPath,
  type PathSegment,
} from "../base/json/dotpath.ts";
import { isRecord } from "../base/json/schema.ts";
import { checkOnce, type Issue } from "../base/json/validate.ts";
import type { Problem } from "./issue.ts";
import { suggest } from "../base/nearest.ts";
import { namesAt, schemaAt } from "./schema-path.ts";

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
