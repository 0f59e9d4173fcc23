/** Backup archives: a gzipped tar of a folder with a manifest of its files. Touches the machine. */
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { chmod, lstat, mkdir, open, readdir, readFile, readlink, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { isRecord } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import { readTar, TAR_END, TarError, tarHeader, tarPadding, type TarEntry } from "./tar.ts";

const MANIFEST = "manifest.json";
/** Everything but the manifest is below it. */
const HOME = "home";
const FORMAT = 1;
const MAX_ENTRIES = 1_000_000;
const MAX_MANIFEST_BYTES = 256 * 1_048_576;

export interface ManifestFile {
  /** Relative to the home. */
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
}

/** Describes what a backup contains. */
export interface BackupFacts {
  /** The version of agentd that made it. */
  readonly version: string;
  readonly created_at: string;
  readonly home: string;
  readonly database: "copied" | "absent" | "elsewhere";
  /** The path of the database in the home, if it was copied. */
  readonly database_path?: string;
  readonly secrets: boolean;
  /** Secrets that were left out: files, and settings as `file: key`. */
  readonly omitted: readonly string[];
}

export interface Manifest extends BackupFacts {
  readonly format: number;
  readonly files: readonly ManifestFile[];
  readonly links: readonly { readonly path: string; readonly target: string }[];
}

/** Writes the folder into the new file, mode 0600 and synced. Resolves to the manifest. */
export async function pack(folder: string, file: string, facts: BackupFacts): Promise<Manifest> {
  const files: ManifestFile[] = [];
  const links: { path: string; target: string }[] = [];
  const manifest: Manifest = { format: FORMAT, ...facts, files, links };
  async function* bytes(): AsyncGenerator<Buffer> {
    for await (const path of walk(folder)) yield* entryBytes(folder, path, { files, links });
    const text = Buffer.from(JSON.stringify(manifest, null, 2));
    yield tarHeader({ path: MANIFEST, kind: "file", mode: 0o600, size: text.length });
    yield Buffer.concat([text, tarPadding(text.length), TAR_END]);
  }
  const handle = await open(file, "wx", 0o600);
  try {
    // Its own level is slower and saves little: most of a home is text.
    await pipeline(
      Readable.from(bytes()),
      createGzip({ level: 5 }),
      createWriteStream("", { fd: handle.fd, autoClose: false }),
    );
    await handle.sync();
  } finally {
    await handle.close();
  }
  return manifest;
}

/** Yields the paths below a folder, each folder before what is in it. */
async function* walk(folder: string, below = ""): AsyncGenerator<string> {
  for (const entry of await readdir(join(folder, below), { withFileTypes: true })) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    yield path;
    if (entry.isDirectory()) yield* walk(folder, path);
  }
}

async function* entryBytes(
  folder: string,
  path: string,
  { files, links }: { readonly files: ManifestFile[]; readonly links: { path: string; target: string }[] },
): AsyncGenerator<Buffer> {
  const from = join(folder, path);
  const found = await lstat(from);
  const common = { path: `${HOME}/${path}`, mode: found.mode & 0o777, size: 0 };
  if (found.isDirectory()) return yield tarHeader({ ...common, kind: "folder" });
  if (found.isSymbolicLink()) {
    const target = await readlink(from);
    links.push({ path, target });
    return yield tarHeader({ ...common, kind: "link", target });
  }
  yield tarHeader({ ...common, kind: "file", size: found.size });
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(from) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    yield chunk;
  }
  yield tarPadding(found.size);
  files.push({ path, size: found.size, sha256: hash.digest("hex") });
}

/**
 * Writes the content of an archive into an empty folder and compares it with the manifest. ServiceError
 * `invalid_request` for a file that is not an intact backup.
 */
export async function unpack(file: string, folder: string): Promise<Manifest> {
  try {
    return await unpackInto(file, folder);
  } catch (error) {
    const reason = problemOf(error);
    if (reason === undefined) throw error;
    const what = `${file} is not an intact backup: ${reason}. Nothing was changed.`;
    throw new ServiceError("invalid_request", what, { cause: error });
  }
}

async function unpackInto(file: string, folder: string): Promise<Manifest> {
  const found = new Map<string, string>();
  let manifest: Manifest | undefined;
  const source = createReadStream(file);
  const unzipped = createGunzip();
  // Its error also ends `unzipped`, which is read here.
  const piped = pipeline(source, unzipped);
  piped.catch(() => {});
  for await (const entry of readTar(unzipped)) {
    if (manifest) throw new TarError("entries follow its manifest");
    if (found.size >= MAX_ENTRIES) throw new TarError("it has too many entries");
    if (entry.path === MANIFEST) {
      manifest = await readManifest(entry);
      continue;
    }
    const path = pathOf(entry, found);
    found.set(path, await extract(entry, join(folder, path)));
  }
  if (!manifest) throw new TarError("it has no manifest");
  compare(manifest, found);
  return manifest;
}

async function readManifest({ size, content }: TarEntry): Promise<Manifest> {
  if (size > MAX_MANIFEST_BYTES) throw new TarError("its manifest is too large");
  const parts: Buffer[] = [];
  for await (const part of content) parts.push(part);
  const value: unknown = JSON.parse(Buffer.concat(parts).toString("utf8"));
  if (!isRecord(value) || !Array.isArray(value["files"]) || !Array.isArray(value["links"]))
    throw new TarError("its manifest cannot be read");
  if (value["format"] !== FORMAT) throw new TarError("another version of agentd made it");
  return value as unknown as Manifest;
}

/** Returns the path below the home. An entry must stay inside the folder, and not pass through a link. */
function pathOf({ path }: TarEntry, found: ReadonlyMap<string, string>): string {
  const [top, ...parts] = path.replace(/\/$/, "").split("/");
  const isSafe = parts.length > 0 && parts.every((part) => part !== "" && part !== "." && part !== "..");
  if (top !== HOME || !isSafe || path.includes("\0")) throw new TarError("an entry is outside of the home");
  const name = parts.join("/");
  if (found.has(name)) throw new TarError("an entry appears twice");
  const above = parts.slice(0, -1).map((_, depth) => parts.slice(0, depth + 1).join("/"));
  if (above.some((each) => found.has(each) && found.get(each) !== FOLDER))
    throw new TarError("an entry is below a link or a file");
  return name;
}

const FOLDER = "folder";
const LINK = "link:";

/** Returns what was written: a SHA-256, the target of a link, or that it is a folder. */
async function extract({ kind, mode, target = "", content }: TarEntry, path: string): Promise<string> {
  if (kind === "folder") {
    await mkdir(path, { recursive: true, mode: 0o700 });
    await chmod(path, 0o700 | (mode & 0o777));
    return FOLDER;
  }
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  if (kind === "link") {
    await symlink(target, path);
    return LINK + target;
  }
  const hash = createHash("sha256");
  const handle = await open(path, "wx", mode & 0o777);
  try {
    for await (const part of content) {
      hash.update(part);
      await handle.appendFile(part);
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  return hash.digest("hex");
}

function compare({ files, links }: Manifest, found: ReadonlyMap<string, string>): void {
  const wanted = new Map([
    ...files.map(({ path, sha256 }) => [path, sha256] as const),
    ...links.map(({ path, target }) => [path, LINK + target] as const),
  ]);
  for (const [path, content] of wanted) {
    if (!found.has(path)) throw new TarError(`${path} is missing`);
    if (found.get(path) !== content) throw new TarError(`${path} differs from the manifest`);
  }
  for (const [path, content] of found) {
    if (content !== FOLDER && !wanted.has(path)) throw new TarError(`${path} is not in its manifest`);
  }
}

/** Returns a clause about what is wrong with the archive; undefined for other errors. */
function problemOf(error: unknown): string | undefined {
  if (error instanceof TarError) return error.message;
  if (error instanceof SyntaxError) return "its manifest cannot be read";
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (code.startsWith("Z_") || code === "ERR_STREAM_PREMATURE_CLOSE")
    return "it is damaged or not compressed";
  return undefined;
}

/** Reads a text file of a folder; undefined when it does not exist. */
export async function readText(file: string): Promise<string | undefined> {
  return readFile(file, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  });
}
