/** Paths as people type them and terminals drop them: quoted, escaped, as a `file:` URL, with text behind. Touches the machine. */
import { realpath, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isInside } from "../../base/paths.ts";
import { ServiceError } from "../../base/errors.ts";

export interface TypedPath {
  /** Absolute. */
  readonly path: string;
  readonly sizeBytes: number;
  /** What was typed behind it, trimmed. */
  readonly remainder: string;
}

export interface PathPlaces {
  readonly cwd: string;
  readonly userHome: string;
  /** Folders, absolute, that files may lie in. Absent: anywhere. */
  readonly roots?: readonly string[];
}

const MAX_ATTEMPTS = 64;
const MAX_PATH = 4_096;

/**
 * The file that `text` begins with. Without quotes a name may hold spaces, escaped or not: the longest that is a file
 * wins. Undefined when there is none. ServiceError `path_outside_root` when it could only lie outside of the roots;
 * whether it is there is not looked at then.
 */
export async function findTypedPath(text: string, places: PathPlaces): Promise<TypedPath | undefined> {
  const roots = await rootsOf(places);
  let leadsOut = false;
  for (const { written, remainder } of readings(text.trim())) {
    const path = toPath(written, places);
    if (path === undefined) continue;
    const isWithin = await liesWithin(path, roots);
    leadsOut ||= !isWithin;
    const found = isWithin ? await stat(path).catch(() => undefined) : undefined;
    if (found?.isFile()) return { path, sizeBytes: found.size, remainder };
  }
  if (leadsOut) throw outside(places.roots ?? []);
  return undefined;
}

/** As they are written, and as they really are; undefined for anywhere. */
async function rootsOf({ roots }: PathPlaces): Promise<readonly string[] | undefined> {
  if (!roots) return undefined;
  return [...roots, ...(await Promise.all(roots.map((root) => realpath(root).catch(() => root))))];
}

/** By its text first, then, for what is there, by where its links lead. */
async function liesWithin(path: string, roots: readonly string[] | undefined): Promise<boolean> {
  if (!roots) return true;
  if (!roots.some((root) => isInside(path, root))) return false;
  const real = await realpath(path).catch(() => undefined);
  return real === undefined || roots.some((root) => isInside(real, root));
}

function outside(roots: readonly string[]): ServiceError {
  const folders = [...new Set(roots)].join(", ");
  return new ServiceError(
    "path_outside_root",
    `Files may be attached from these folders only: ${folders}. Send the bytes with image.attach_bytes.`,
    { param: "path" },
  );
}

/** Whether `text` looks like a path and not like a sentence. */
export function looksLikePath(text: string): boolean {
  return /^\s*["']?(?:\/|~\/|\.{1,2}\/|file:\/\/)/i.test(text);
}

interface Reading {
  readonly written: string;
  readonly remainder: string;
}

function readings(text: string): readonly Reading[] {
  const quoted = /^(["'])(.+?)\1(?:\s+([\s\S]*))?$/.exec(text);
  if (quoted) return [{ written: quoted[2] ?? "", remainder: (quoted[3] ?? "").trim() }];
  const [line = ""] = text.split("\n", 1);
  const ends = [...line.matchAll(/(?<!\\)\s+/g)].map(({ index }) => index);
  const cuts = [line.length, ...ends.slice(0, MAX_ATTEMPTS).toReversed()];
  return cuts.flatMap((cut) => {
    const raw = text.slice(0, cut);
    const remainder = text.slice(cut).trim();
    const plain = raw.replace(/\\([\s\S])/g, "$1");
    // A backslash may also be part of a name.
    return plain === raw
      ? [{ written: raw, remainder }]
      : [plain, raw].map((written) => ({ written, remainder }));
  });
}

function toPath(written: string, { cwd, userHome }: PathPlaces): string | undefined {
  if (written === "" || written.length > MAX_PATH || written.includes("\0")) return undefined;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(written)) {
    try {
      return fileURLToPath(written);
    } catch {
      return undefined; // no file URL of this machine
    }
  }
  return written === "~" || written.startsWith("~/")
    ? join(userHome, written.slice(1))
    : resolve(cwd, written);
}
