/** The files of routes: the subscriptions, `<home>/webhook_subscriptions.json`, and lists for filters. Touches the machine. */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ServiceError } from "../../base/errors.ts";
import { isExactNumber, parseExactJson } from "../../base/json/exact-json.ts";
import { isRecord } from "../../base/json/schema.ts";
import { resolveWithin, withFileLock, writePrivateFile, type Environment } from "../../config/home.ts";
import {
  formatSubscriptions,
  parseSubscriptions,
  type ParsedSubscriptions,
  type Subscriptions,
} from "./subscription.ts";

const MAX_SUBSCRIPTIONS_BYTES = 10_485_760;
const MAX_LIST_BYTES = 5_242_880;

/** Identifies one state of a file without its content. */
export interface FileState {
  /** Differs between states, except those that were written within one tick of the file system's clock. */
  readonly stamp: string;
  /** Milliseconds since the epoch. */
  readonly changedAtMs: number;
}

export function subscriptionsPath(home: string): string {
  return join(home, "webhook_subscriptions.json");
}

/** Undefined when the file does not exist. Throws the error of the system when it cannot be read. */
export async function fileState(path: string): Promise<FileState | undefined> {
  const found = await unlessMissing(stat(path, { bigint: true }));
  if (!found) return undefined;
  const { mtimeNs, ctimeNs, size, ino, mtimeMs } = found;
  return { stamp: `${mtimeNs}:${ctimeNs}:${size}:${ino}`, changedAtMs: Number(mtimeMs) };
}

/** Undefined when the file does not exist. Throws the error of the system, and an Error for a file that is too large. */
export async function readSubscriptionsText(path: string): Promise<string | undefined> {
  const found = await unlessMissing(stat(path));
  if (!found) return undefined;
  if (found.size > MAX_SUBSCRIPTIONS_BYTES)
    throw new Error(`it has ${found.size} bytes; the limit is ${MAX_SUBSCRIPTIONS_BYTES}`);
  return unlessMissing(readFile(path, "utf8"));
}

/** ServiceError `invalid_config` when the file cannot be read. */
export async function loadSubscriptions(path: string): Promise<ParsedSubscriptions> {
  try {
    return parseSubscriptions(await readSubscriptionsText(path));
  } catch (error) {
    throw unusable(path, error instanceof Error ? error.message : String(error));
  }
}

/**
 * Changes the file atomically and under a lock, readable for its owner only. `change` returns the new subscriptions.
 * ServiceError `invalid_config` for a file that cannot be parsed: it is not overwritten, so that a person can repair it.
 */
export async function changeSubscriptions(
  path: string,
  change: (subscriptions: Subscriptions) => Subscriptions,
): Promise<void> {
  await withFileLock(path, async () => {
    const parsed = await loadSubscriptions(path);
    if ("problem" in parsed) throw unusable(path, parsed.problem);
    await writePrivateFile(path, formatSubscriptions(change(parsed.subscriptions)));
  });
}

function unusable(path: string, problem: string): ServiceError {
  const hint = "Correct the file, or move it away to start anew";
  return new ServiceError("invalid_config", `${path} cannot be used: ${problem}. ${hint}.`);
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if ((error as { readonly code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Resolves a filter's `in_file`: relative to the home, which may be written `<home>/`, with `$NAME` expanded. */
export function listFilePath(
  written: string,
  { home, userHome, env }: { readonly home: string; readonly userHome: string; readonly env: Environment },
): string {
  const filled = written
    .replace(/^<home>\//, "")
    .replaceAll(
      /\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g,
      (whole, braced: string | undefined, bare: string | undefined) => env[braced ?? bare ?? ""] ?? whole,
    );
  return resolveWithin(home, filled, userHome);
}

/**
 * Returns the values of a file: the elements of a JSON list, the names of a JSON object, one JSON value, or else the lines
 * that are not blank. Undefined when it cannot be read. It reads the file each time, so that changes apply at once.
 */
export async function readListFile(path: string): Promise<readonly unknown[] | undefined> {
  try {
    // Reading a pipe would wait, and reading a huge file would fill the memory.
    const found = await stat(path);
    if (!found.isFile() || found.size > MAX_LIST_BYTES) return undefined;
    const text = (await readFile(path, "utf8")).replace(/^\uFEFF/, "");
    return valuesOf(text);
  } catch {
    return undefined;
  }
}

function valuesOf(text: string): readonly unknown[] {
  try {
    const value = parseExactJson(text);
    if (Array.isArray(value)) return value;
    return isRecord(value) && !isExactNumber(value) ? Object.keys(value) : [value];
  } catch {
    return text
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== "");
  }
}
