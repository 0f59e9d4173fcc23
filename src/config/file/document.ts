/** The configuration file as a YAML document with its comments and line numbers. Pure. */
import { isMap, isPair, isScalar, LineCounter, parseDocument, visit, type Document, type Node } from "yaml";
import type { DotPath } from "../../base/json/dotpath.ts";
import type { ConfigIssue, Problem } from "../issue.ts";
import { formatDotPath } from "../../base/json/dotpath.ts";

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
