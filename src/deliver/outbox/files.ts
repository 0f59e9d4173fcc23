/** Files that answers name in their lines, and their bytes until they are sent. Touches the machine. */
import { lstat, readdir, readFile, realpath, rm } from "node:fs/promises";
import { basename, extname, join, resolve, sep } from "node:path";
import { isInside } from "../../base/text.ts";
import { OwnFileError, openForeign } from "../../base/system/own-files.ts";
import { redact } from "../../base/observe.ts";
import { shorten, toOneLine } from "../../base/text.ts";
import { writePrivateFile } from "../../config/home.ts";
import { isRecord } from "../../base/data.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";
import { platforms, type OutboundFile, type PlatformTraits, type SendOutcome } from "../target.ts";

/** A file as the payload of its message keeps it. */
export type KeptFile = Omit<OutboundFile, "read"> & { readonly sha256: string };

export interface FilesOptions {
  /** Home of the service, absolute: its own files are not sent. */
  readonly agentHome: string;
  /** Working folder of sessions that name none, absolute. */
  readonly workspace: string;
}

interface StageRequest {
  /** Id of the message. */
  readonly id: string;
  readonly text: string;
  /** Working folder of the session that answered, absolute; null: the workspace. */
  readonly cwd: string | null;
  /** Why the target takes no files; undefined when it does. */
  readonly refusal: string | undefined;
}

interface Staged {
  /** Without the lines of the files; other such lines stay, with the reason. */
  readonly text: string;
  readonly files: readonly KeptFile[];
}

/** Most files of one message, and most bytes of one file and of all. Platforms take at least 10 MB. */
const MAX_FILES = 10;
const MAX_FILE_BYTES = 10 * 1024 * 1024;
const MAX_ALL_BYTES = 20 * 1024 * 1024;
const CHUNK_BYTES = 512 * 1024;
/** Longer than a secret. */
const OVERLAP_BYTES = 8 * 1024;
const MAX_NAME_CHARACTERS = 100;
const MAX_PATH_CHARACTERS = 4_096;
/** A whole line, which may be an item of a list, or code. */
const LINE = /^[ \t]*(?:[-*+][ \t]+)?(`?)MEDIA:[ \t]*(\S[^\n]*?)\1[ \t]*$/;
const FENCE = /^[ \t]*(?:`{3,}|~{3,})/;
/** Keys and stores of keys; hidden files and folders are refused in any case. */
const KEY_FILE =
  /^(?:id_(?:rsa|dsa|ecdsa|ed25519)|credentials(?:\..*)?|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk))$/i;
const ID = /^[A-Za-z0-9_-]{1,128}$/;

/**
 * Keeps the files of messages in `<home>/outbox/<message>/<number>` from before the first attempt until the message is
 * delivered or deleted, so that every attempt sends the same bytes, whatever becomes of the original.
 */
export class OutboundFiles {
  readonly #options: FilesOptions;
  readonly #folder: string;

  constructor(options: FilesOptions) {
    this.#options = options;
    this.#folder = join(options.agentHome, "outbox");
  }

  /** Copies the files that the lines `MEDIA:path` of an answer name. Rejects when a copy cannot be written. */
  async stage({ id, text, cwd, refusal }: StageRequest): Promise<Staged> {
    const files: KeptFile[] = [];
    const lines: string[] = [];
    let isCode = false;
    for (const line of text.split("\n")) {
      if (FENCE.test(line)) isCode = !isCode;
      const path = isCode ? undefined : LINE.exec(line)?.[2];
      const kept = path === undefined ? line : (refusal ?? (await this.#keep(path, { id, cwd, files })));
      if (path === undefined) lines.push(line);
      else if (typeof kept === "string") lines.push(`${line.trimEnd()} (not sent: ${kept})`);
      else files.push(kept);
    }
    return { text: lines.join("\n"), files };
  }

  /** Returns the files of a message for its target. */
  open(id: string, files: readonly KeptFile[]): readonly OutboundFile[] {
    return files.map(({ sha256, ...file }, index) => ({
      ...file,
      read: async () => {
        const bytes = await readFile(this.#pathOf(id, index)).catch(() => undefined);
        return bytes && (await digestOf(bytes)) === sha256 ? bytes : undefined;
      },
    }));
  }

  async remove(id: string): Promise<void> {
    if (ID.test(id)) await rm(join(this.#folder, id), { recursive: true, force: true });
  }

  /** Removes the files of messages that `isDone` says are delivered or deleted. */
  async sweep(isDone: (id: string) => Promise<boolean>): Promise<void> {
    const ids = await readdir(this.#folder).catch(() => []);
    for (const id of ids) if (ID.test(id) && (await isDone(id))) await this.remove(id);
  }

  #pathOf(id: string, index: number): string {
    return join(this.#folder, id, String(index));
  }

  /** Returns the kept file, or why the file is not sent. */
  async #keep(
    path: string,
    {
      id,
      cwd,
      files,
    }: { readonly id: string; readonly cwd: string | null; readonly files: readonly KeptFile[] },
  ): Promise<KeptFile | string> {
    if (files.length >= MAX_FILES) return `an answer sends at most ${MAX_FILES} files`;
    if (path.length > MAX_PATH_CHARACTERS || path.includes("\0") || !ID.test(id)) return "it is not a path";
    const found = await this.#find(path, cwd);
    if (typeof found === "string") return found;
    const bytes = await readBytes(found.path);
    if (typeof bytes === "string") return bytes;
    const all = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, bytes.length);
    if (all > MAX_ALL_BYTES) return `the files of an answer have at most ${megabytes(MAX_ALL_BYTES)}`;
    if (await hidesSecret(bytes)) return "it contains a secret";
    await writePrivateFile(this.#pathOf(id, files.length), bytes);
    const name = shorten(toOneLine(basename(found.path)), MAX_NAME_CHARACTERS);
    return { name, type: typeOf(bytes, name), sizeBytes: bytes.length, sha256: await digestOf(bytes) };
  }

  /** Returns the real path of a file that may be sent, or why it may not. */
  async #find(path: string, cwd: string | null): Promise<{ readonly path: string } | string> {
    const { agentHome, workspace } = this.#options;
    const real = await realpath(resolve(cwd ?? workspace, path)).catch(() => undefined);
    if (real === undefined) return "the file does not exist";
    const roots = await Promise.all([workspace, ...(cwd === null ? [] : [cwd])].map(realOrSame));
    const root = roots.find((each) => isInside(real, each));
    if (root === undefined) return "it is outside the working folder and the workspace";
    const [home, space = workspace] = [await realOrSame(agentHome), roots[0]];
    const isOwn = isInside(real, home) && !(isInside(space, home) && space !== home && isInside(real, space));
    if (isOwn) return "it belongs to the service";
    const names = real.slice(root.length).split(sep).filter(Boolean);
    if (names.some((name) => name.startsWith("."))) return "it is hidden";
    if (KEY_FILE.test(basename(real))) return "it may be a key";
    return { path: real };
  }
}

/**
 * Keeps the files that an answer names, and records them in its payload, before anything is sent: every attempt, even
 * in another process, then sends the same text and the same bytes. Without `files` the text stays as it is.
 */
export async function stageFiles(
  row: Pick<OutboxRow, "id">,
  payload: unknown,
  options: {
    /** Also a platform that is not set up yet: the files wait with the message. */
    readonly platform: string;
    readonly store: Store;
    readonly files: OutboundFiles | undefined;
  },
): Promise<{ readonly payload: unknown } | SendOutcome | { readonly status: "lost" }> {
  if (!isRecord(payload)) return { payload };
  const { platform, store, files } = options;
  const { filesFrom, ...rest } = payload;
  const { text } = rest;
  if (!files || filesFrom === undefined || typeof text !== "string" || !/\bMEDIA:/.test(text))
    return { payload: rest };
  const cwd = typeof filesFrom === "string" ? filesFrom : null;
  const { title, takesFiles }: Partial<PlatformTraits> = Object.hasOwn(platforms, platform)
    ? platforms[platform as keyof typeof platforms]
    : {};
  const refusal = takesFiles ? undefined : `${title ?? platform} gets no files from this service`;
  try {
    const next = { ...rest, ...(await files.stage({ id: row.id, text, cwd, refusal })) };
    const mine = { id: row.id, lease_owner: store.owner };
    const changed = await store.write((tx) => tx.update("outbox", mine, { payload: JSON.stringify(next) }));
    return changed === 1 ? { payload: next } : { status: "lost" };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { status: "retry", error: redact(`The files of the message cannot be kept: ${why}`) };
  }
}

/** Returns the files in a payload that {@link stageFiles} changed. */
export function keptFiles(payload: unknown): readonly KeptFile[] {
  const files = isRecord(payload) ? payload["files"] : undefined;
  return Array.isArray(files) ? (files as readonly KeptFile[]) : [];
}

async function realOrSame(path: string): Promise<string> {
  return realpath(path).catch(() => path);
}

/** Returns the bytes of a regular file, or why it is not sent. */
async function readBytes(path: string): Promise<Buffer | string> {
  // A pipe would block.
  const before = await lstat(path).catch(() => undefined);
  if (!before?.isFile()) return "it is not a file";
  try {
    await using file = await openForeign(path);
    const { ino, dev, size } = await file.stat();
    if (ino !== before.ino || dev !== before.dev) return "it changed while it was read";
    if (size === 0) return "it is empty";
    if (size > MAX_FILE_BYTES) return `it has ${megabytes(size)}; the limit is ${megabytes(MAX_FILE_BYTES)}`;
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(size), position: 0 });
    return bytesRead === size ? buffer : "it changed while it was read";
  } catch (error) {
    return error instanceof OwnFileError ? "it belongs to the service" : "it cannot be read";
  }
}

/** Texts are delivered without secrets, so a file with one is not delivered. Other work continues between the chunks. */
async function hidesSecret(bytes: Buffer): Promise<boolean> {
  if (bytes.includes(0)) return false;
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES - OVERLAP_BYTES) {
    const text = bytes.subarray(at, at + CHUNK_BYTES).toString("utf8");
    if (redact(text) !== text) return true;
    await new Promise((next) => setImmediate(next));
  }
  return false;
}

async function digestOf(bytes: Uint8Array): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new Uint8Array(bytes));
  return Buffer.from(digest).toString("hex");
}

function megabytes(bytes: number): string {
  return `${Math.ceil((bytes / 1024 / 1024) * 10) / 10} MB`;
}

/** The first bytes of images that platforms show. */
const IMAGES: readonly (readonly [string, RegExp])[] = [
  ["image/png", /^\u0089PNG\r\n/],
  ["image/jpeg", /^\u00ff\u00d8\u00ff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF.{4}WEBP/s],
];
const TYPES: Readonly<Record<string, string>> = {
  csv: "text/csv",
  docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  html: "text/html",
  json: "application/json",
  md: "text/markdown",
  mp3: "audio/mpeg",
  mp4: "video/mp4",
  ogg: "audio/ogg",
  pdf: "application/pdf",
  svg: "image/svg+xml",
  txt: "text/plain",
  wav: "audio/wav",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  zip: "application/zip",
};

/** The content decides what is an image; the name decides the rest. */
function typeOf(bytes: Buffer, name: string): string {
  const head = bytes.subarray(0, 16).toString("latin1");
  const image = IMAGES.find(([, start]) => start.test(head))?.[0];
  const extension = extname(name).slice(1).toLowerCase();
  const named = Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined;
  return image ?? named ?? "application/octet-stream";
}
