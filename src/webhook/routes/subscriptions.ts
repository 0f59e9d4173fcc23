/** The file of subscriptions, `<home>/webhook_subscriptions.json`. Touches the machine. */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ServiceError } from "../../base/errors.ts";
import { withFileLock, writePrivateFile } from "../../config/home.ts";
import {
  formatSubscriptions,
  parseSubscriptions,
  type ParsedSubscriptions,
  type Subscriptions,
} from "./subscription.ts";

const MAX_BYTES = 10_485_760;

/** One state of the file, without what is in it. */
export interface FileState {
  /** Tells states apart, but for those that were written within one tick of the file system's clock. */
  readonly stamp: string;
  /** When it was written, milliseconds since 1970. */
  readonly changedAtMs: number;
}

export function subscriptionsPath(home: string): string {
  return join(home, "webhook_subscriptions.json");
}

/** Undefined when there is no file. Throws what the system says when it cannot tell. */
export async function fileState(path: string): Promise<FileState | undefined> {
  const found = await unlessMissing(stat(path, { bigint: true }));
  if (!found) return undefined;
  const { mtimeNs, ctimeNs, size, ino, mtimeMs } = found;
  return { stamp: `${mtimeNs}:${ctimeNs}:${size}:${ino}`, changedAtMs: Number(mtimeMs) };
}

/** Undefined when there is no file. Throws what the system says, and an Error for a file that is too large. */
export async function readSubscriptionsText(path: string): Promise<string | undefined> {
  const found = await unlessMissing(stat(path));
  if (!found) return undefined;
  if (found.size > MAX_BYTES) throw new Error(`it has ${found.size} bytes; the limit is ${MAX_BYTES}`);
  return unlessMissing(readFile(path, "utf8"));
}

/** ServiceError `invalid_config` for a file that the system does not let be read. */
export async function loadSubscriptions(path: string): Promise<ParsedSubscriptions> {
  try {
    return parseSubscriptions(await readSubscriptionsText(path));
  } catch (error) {
    throw unusable(path, error instanceof Error ? error.message : String(error));
  }
}

/**
 * Changes the file in one step, for the owner alone, while no other process does. `change` gets what is there and
 * returns what shall be. ServiceError `invalid_config` for a file that cannot be understood: nobody shall write over what
 * a hand can mend.
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
  const advice = "Correct it, or move it away to begin anew";
  return new ServiceError("invalid_config", `${path} cannot be used: ${problem}. ${advice}.`);
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if ((error as { readonly code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}
