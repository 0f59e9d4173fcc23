/** Plain data against the schema of the configuration, tolerantly: what is wrong is told and left out. Pure. */
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
import type { Flaw } from "./issue.ts";
import { suggest } from "../base/nearest.ts";
import { namesAt, schemaAt } from "./schema-path.ts";

/** More wrong things than this are not told: the file is then not a configuration. */
const MAX_ROUNDS = 200;

export interface Checked {
  /** The part of the value that is right, as yet without defaults. */
  readonly value: unknown;
  readonly flaws: readonly Flaw[];
}

/** A section that is written but empty (`model:` with its lines commented out) counts as left out. */
export function checkConfig(raw: unknown): Checked {
  if (raw !== null && raw !== undefined && !isRecord(raw)) {
    return { value: {}, flaws: [{ path: [], message: "must hold keys and values", kind: "invalid" }] };
  }
  let value: unknown = dropEmpty(structuredClone(raw ?? {}), []);
  // The usual first start: the schema requires nothing at its root.
  if (isRecord(value) && Object.keys(value).length === 0) return { value, flaws: [] };
  const flaws: Flaw[] = [];
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const issues = checkOnce(configSchema, value);
    if (!issues) return { value, flaws };
    const found = distinct(issues.map(toFlaw));
    flaws.push(...found);
    for (const flaw of found) value = without(value, partToDrop(value, flaw));
  }
  return { value: {}, flaws };
}

/** One value can be wrong in several ways; the first is the most telling. */
function distinct(flaws: readonly Flaw[]): readonly Flaw[] {
  return [
    ...new Map(flaws.toReversed().map((flaw) => [formatDotPath(flaw.path), flaw])).values(),
  ].toReversed();
}

/** A list goes as a whole: without one item, the others would no longer be where the file has them. */
function partToDrop(value: unknown, { path, kind }: Flaw): DotPath {
  const own = kind === "missing" ? path.slice(0, -1) : path;
  const list = own.findIndex((segment) => typeof segment === "number");
  let part = list < 0 ? own : own.slice(0, list);
  while (part.length > 0 && getAtPath(value, part) === undefined) part = part.slice(0, -1);
  return part;
}

function toFlaw({ path, message, keyword }: Issue): Flaw {
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
