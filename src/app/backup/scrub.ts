/** Removes secrets from the copy of a home that becomes a backup. Touches the machine. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { formatDotPath, isRecord, type DotPath } from "../../base/data.ts";
import { redact, redactValue } from "../../base/observe.ts";
import { maskSecrets } from "../../config/secret-values.ts";
import { readText } from "./archive.ts";

/** Files that hold nothing but secrets and variables. */
export const SECRET_FILES: readonly string[] = [".env", "service.env"];
const SUBSCRIPTIONS = "webhook_subscriptions.json";
const CONFIG = "config.yaml";

/** Returns what was left out: files, and settings as `file: key`. */
export async function removeSecrets(folder: string): Promise<readonly string[]> {
  const omitted: string[] = [];
  for (const name of SECRET_FILES) {
    if ((await readText(join(folder, name))) === undefined) continue;
    await rm(join(folder, name));
    omitted.push(name);
  }
  return [...omitted, ...(await scrubConfig(join(folder, CONFIG))), ...(await scrubRoutes(folder))];
}

/** Secrets are removed, so that a missing one is reported; inside longer text they are replaced. */
async function scrubConfig(file: string): Promise<readonly string[]> {
  const text = await readText(file);
  if (text === undefined) return [];
  const { parseDocument } = await import("yaml");
  const document = parseDocument(text);
  const value: unknown = document.toJS();
  const changes = differences(value, maskSecrets(value));
  for (const { path, masked } of changes) {
    const isItem = typeof path.at(-1) === "number";
    if (masked === MASK && !isItem) document.deleteIn(path);
    else document.setIn(path, masked);
  }
  // Comments may quote a secret, too.
  const clean = changes.length > 0 ? JSON.stringify(document.toJS(), null, 2) : redact(text);
  if (clean !== text) await writeFile(file, clean, { mode: 0o600 });
  return changes.map(({ path }) => `${CONFIG}: ${formatDotPath(path)}`);
}

const MASK = "[redacted]";

/** A route without a secret of its own uses the global one, and without both it is refused. */
async function scrubRoutes(folder: string): Promise<readonly string[]> {
  const file = join(folder, SUBSCRIPTIONS);
  const text = await readText(file);
  if (text === undefined) return [];
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // What cannot be read cannot be cleaned.
    await rm(file);
    return [SUBSCRIPTIONS];
  }
  const changes = differences(value, redactValue(value)).map(withoutRetiring);
  for (const { path, masked } of changes) setAt(value, path, masked === MASK ? undefined : masked);
  await writeFile(file, JSON.stringify(value, null, 2), { mode: 0o600 });
  return [...new Set(changes.map(({ path }) => `${SUBSCRIPTIONS}: ${formatDotPath(path)}`))];
}

/** An earlier secret is removed with its time: the rest would make the route invalid. */
function withoutRetiring(change: Change): Change {
  const { path } = change;
  return path[1] === "retiring" ? { path: path.slice(0, 2), masked: MASK } : change;
}

interface Change {
  readonly path: DotPath;
  readonly masked: unknown;
}

function differences(value: unknown, masked: unknown, path: DotPath = []): readonly Change[] {
  if (value === masked) return [];
  if (Array.isArray(value) && Array.isArray(masked))
    return value.flatMap((item, at) => differences(item, masked[at], [...path, at]));
  if (isRecord(value) && isRecord(masked))
    return Object.keys(value).flatMap((name) => differences(value[name], masked[name], [...path, name]));
  return [{ path, masked }];
}

function setAt(value: unknown, path: DotPath, next: unknown): void {
  const [first, ...rest] = path;
  if (first === undefined || typeof value !== "object" || value === null) return;
  const record = value as Record<string | number, unknown>;
  if (rest.length > 0) setAt(record[first], rest, next);
  else if (next === undefined) delete record[first];
  else record[first] = next;
}
