import { formatDotPath, type DotPath } from "../base/json/dotpath.ts";

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
