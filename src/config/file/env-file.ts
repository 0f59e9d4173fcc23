/** The `.env` file of the home folder: secrets that do not belong in the configuration. Touches the machine. */
import { readFileSync, statSync } from "node:fs";
import { parseEnv } from "node:util";
import { ServiceError } from "../../base/errors.ts";
import { readPrivateFile, withFileLock, writePrivateFile, type Environment } from "../home.ts";

/** A larger file is not a file of variables. */
const MAX_CHARACTERS = 1_048_576;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export interface EnvFile {
  readonly variables: Environment;
  /** Variables after a line `# secret`: they hold secrets, independent of their names. */
  readonly secretNames: ReadonlySet<string>;
}

/** Reads the file at `path`; empty when it does not exist. */
export async function readEnvFile(path: string): Promise<EnvFile> {
  return parse((await readPrivateFile(path)) ?? "");
}

/** Returns a stamp that changes with the file; "" when it does not exist. */
export function envFileStamp(path: string): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found ? `${found.mtimeNs}:${found.ctimeNs}:${found.size}:${found.ino}` : "";
}

/** Reads like {@link readEnvFile}, synchronously, before text is redacted; an unreadable file has no variables. */
export function readEnvFileNow(path: string): EnvFile {
  try {
    return parse(readFileSync(path, "utf8").slice(0, MAX_CHARACTERS));
  } catch {
    return parse("");
  }
}

/**
 * Writes one variable and keeps every other line. Mode 0600, atomic, one process at a time. `isMarked` adds a line `#
 * secret` above it.
 */
export async function setEnvVariable(
  path: string,
  name: string,
  value: string,
  { isMarked = false }: { readonly isMarked?: boolean } = {},
): Promise<void> {
  await withFileLock(path, () => write(path, name, value, isMarked));
}

/**
 * Returns the value of `name`; `make` supplies it when the file has none (or an empty one). Concurrent processes get
 * the same value, and `created` is true for one of them.
 */
export async function ensureEnvVariable(
  path: string,
  name: string,
  make: () => string,
): Promise<{ readonly value: string; readonly created: boolean }> {
  return withFileLock(path, async () => {
    const known = (await readEnvFile(path)).variables[name];
    if (known) return { value: known, created: false };
    const value = make();
    await write(path, name, value);
    return { value, created: true };
  });
}

async function write(path: string, name: string, value: string, isMarked = false): Promise<void> {
  if (!NAME.test(name)) {
    throw new ServiceError(
      "invalid_config",
      `${JSON.stringify(name)} is not a valid name of an environment variable.`,
    );
  }
  const text = (await readPrivateFile(path)) ?? "";
  const before = parse(text);
  const mark = isMarked && !before.secretNames.has(name) ? `${MARK}\n` : "";
  const line = `${mark}${name}=${quote(name, value)}`;
  const wanted = { ...before.variables, [name]: value };
  // The parser decides what a line means: a matching line may be part of a quoted value.
  const next = [replaceLine(text, name, line), appendLine(text, line)].find((each) =>
    isSame(parse(each).variables, wanted),
  );
  if (next === undefined) {
    throw new ServiceError(
      "invalid_config",
      `${path} has a quote that is never closed. Close it and try again.`,
    );
  }
  await writePrivateFile(path, next);
}

/** Replaces the last line that sets `name`: it is the effective one. */
function replaceLine(text: string, name: string, line: string): string {
  const lines = text.split(/\r?\n/);
  const own = new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`);
  const at = lines.findLastIndex((each) => own.test(each));
  if (at >= 0) return lines.with(at, line).join("\n");
  return appendLine(text, line);
}

function appendLine(text: string, line: string): string {
  const head = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  return `${head}${line}\n`;
}

function isSame(a: Environment, b: Environment): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => a[name] === b[name]);
}

/** Node reads a bare `#` as the start of a comment, and has no escape for the enclosing quote. */
function quote(name: string, value: string): string {
  if (/^[\w./:@+=,-]*$/.test(value)) return value;
  const mark = ["'", '"', "`"].find((each) => !value.includes(each));
  if (mark === undefined || /[\r\n\\]/.test(value)) {
    throw new ServiceError(
      "invalid_config",
      `The value for ${name} has a line break, a backslash or all kinds of quotes, which .env files cannot hold.`,
    );
  }
  return `${mark}${value}${mark}`;
}

const MARK = "# secret";
const MARKED = /^[ \t]*#[ \t]*secret\b.*\r?\n[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=/gim;

function parse(text: string): EnvFile {
  const marked = [...text.matchAll(MARKED)].map(([, name = ""]) => name);
  return { variables: { ...parseEnv(text) }, secretNames: new Set(marked) };
}
