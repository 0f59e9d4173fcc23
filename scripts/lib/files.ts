/** Files the scripts read and write. Touches the machine. */
import { createHash } from "node:crypto";
import { access, mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";

export async function readJson(file: string): Promise<unknown> {
  return JSON.parse(await readFile(file, "utf8"));
}

/** Writes with its folders; the text ends in exactly one line feed. */
export async function writeText(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${text.trimEnd()}\n`);
}

export async function writeJson(file: string, value: unknown): Promise<void> {
  await writeText(file, JSON.stringify(value, null, 2));
}

/** Puts `from` where `to` is. The old folder is moved aside first, so a crash never leaves half of either. */
export async function replaceFolder(from: string, to: string): Promise<void> {
  const aside = `${to}.old.tmp`;
  await removeFolder(aside);
  await rename(to, aside).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  await rename(from, to);
  await removeFolder(aside);
}

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
}

/** Relative path (with `/`) -> sha256 of every file below `folder`; empty when there is no such folder. */
export async function hashTree(folder: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const hashes = files.toSorted().map(async (file) => {
    const name = relative(folder, file).split(sep).join("/");
    return [
      name,
      createHash("sha256")
        .update(await readFile(file))
        .digest("hex"),
    ] as const;
  });
  return new Map(await Promise.all(hashes));
}

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    (error: unknown) => {
      if (isMissing(error)) return false;
      throw error;
    },
  );
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
