import { formatDotPath, type DotPath } from "../base/json/dotpath.ts";

/** One thing wrong with what agentd was told. Never holds the value, which may be a secret. */
export interface ConfigIssue {
  /** The key, such as `api_server.port`; "" for the file as a whole; the name of a variable of the environment. */
  readonly path: string;
  /** What is wrong and what would be right, a clause that follows the path. */
  readonly message: string;
  /** Where in the file, counted from 1; undefined when it is not in the file. */
  readonly line: number | undefined;
  readonly column: number | undefined;
  /** `error` keeps the service from starting. */
  readonly severity: "error" | "warning";
}

/** `config.yaml:3:9: api_server.port must be an integer` */
export function formatConfigIssue(issue: ConfigIssue, file: string): string {
  const { path, message, line, column, severity } = issue;
  const place = line === undefined ? "" : `${file}:${line}:${column ?? 1}: `;
  const subject = path === "" && line === undefined ? `${file} ` : path === "" ? "" : `${path} `;
  return `${place}${severity === "warning" ? "warning: " : ""}${subject}${message}`;
}

/** A {@link ConfigIssue} before its place in the file is known. */
export interface Problem {
  readonly path: DotPath;
  readonly message: string;
  readonly kind: "unknown" | "missing" | "invalid";
}

/** What tells two flaws apart. */
export function problemKey({ path, message }: Problem): string {
  return `${formatDotPath(path)} ${message}`;
}
