/** Reads images and files that are attached to a prompt, by their content and within limits. Touches the machine. */
import { realpath, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { imageSize } from "image-size";
import { ServiceError } from "../../base/errors.ts";
import { isInside } from "../../base/text.ts";
import { OwnFileError, readForeign } from "../../base/system/own-files.ts";
import type { Attachment } from "../engine.ts";
import { ToolError } from "../tool/tool.ts";
import { checkRead } from "../question/policy/paths.ts";
import { realPath } from "../tools/files/paths.ts";

export interface AttachmentOptions {
  readonly cwd: string;
  /** Absolute folders that may contain local files. */
  readonly roots: readonly string[];
  /** Returns why a file must not be read, given its real path, or undefined. Default: all files may be read. */
  readonly refuse?: (path: string) => string | undefined;
  /** Default 10 MiB. */
  readonly maxImageBytes?: number;
  /** Limit for text files; default 512 KiB. */
  readonly maxFileBytes?: number;
}

export interface ReadAttachment {
  readonly attachment: Attachment;
  readonly sizeBytes: number;
  readonly width?: number;
  readonly height?: number;
  readonly tokenEstimate: number;
}

const MAX_IMAGE_BYTES = 10_485_760;
const MAX_FILE_BYTES = 524_288;
/** More than any model uses; a small file may claim to unpack to more. */
const MAX_PIXELS = 100_000_000;
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};
const SHOWN_CHARACTERS = 80;

/**
 * Reads `source`: a data URL, a `file:` URL or a path, relative to `cwd` and inside one of the roots. The content
 * decides the type, not the name or URL. Throws ServiceError `invalid_content_part`, which says what was found and what
 * is allowed.
 */
export async function readAttachment(source: string, options: AttachmentOptions): Promise<ReadAttachment> {
  const shown = source.startsWith("data:")
    ? "The data URL"
    : JSON.stringify(source.slice(0, SHOWN_CHARACTERS));
  const { bytes, name } = source.startsWith("data:")
    ? { bytes: fromDataUrl(source, options), name: undefined }
    : await fromFile(source, shown, options);
  if (bytes.length === 0) throw invalid(`${shown} is empty.`);
  const naming = { shown, name, options };
  return toImage(bytes, naming) ?? toPdf(bytes, naming) ?? toText(bytes, naming);
}

interface Naming {
  readonly shown: string;
  readonly name: string | undefined;
  readonly options: AttachmentOptions;
}

/** Each image type states its size within these bytes, unless a long field comes first. */
const HEADER_BYTES = 64;

/** Returns undefined unless the bytes are an image of a type that models accept. */
function toImage(bytes: Buffer, { shown, name, options }: Naming): ReadAttachment | undefined {
  const limit = options.maxImageBytes ?? MAX_IMAGE_BYTES;
  const size = sizeOf(bytes);
  const mediaType = size && MEDIA_TYPES[size.type ?? ""];
  if (!size || mediaType === undefined) return undefined;
  const { width, height } = size;
  if (bytes.length > limit)
    throw invalid(`${shown} has ${bytes.length} bytes; the limit for images is ${limit}.`);
  if (!(width > 0) || !(height > 0)) throw invalid(`${shown} is a broken image.`);
  if (width * height > MAX_PIXELS) {
    throw invalid(`${shown} has ${width} x ${height} pixels; the limit is ${MAX_PIXELS} in total.`);
  }
  return {
    attachment: {
      type: "image",
      mediaType,
      ...(name === undefined ? {} : { name }),
      data: bytes.toString("base64"),
    },
    sizeBytes: bytes.length,
    width,
    height,
    tokenEstimate: Math.min(1_600, Math.ceil((width * height) / 750)),
  };
}

/** Returns undefined unless the bytes are a PDF (ISO 32000-2, 7.5.2: the header comes first). */
function toPdf(bytes: Buffer, { shown, name, options }: Naming): ReadAttachment | undefined {
  if (bytes.subarray(0, 5).toString("latin1") !== "%PDF-") return undefined;
  const limit = options.maxImageBytes ?? MAX_IMAGE_BYTES;
  if (bytes.length > limit)
    throw invalid(`${shown} has ${bytes.length} bytes; the limit for PDF files is ${limit}.`);
  return {
    attachment: {
      type: "file",
      mediaType: "application/pdf",
      ...(name === undefined ? {} : { name }),
      data: bytes.toString("base64"),
    },
    sizeBytes: bytes.length,
    tokenEstimate: Math.ceil(bytes.length / 50),
  };
}

function toText(bytes: Buffer, { shown, name, options }: Naming): ReadAttachment {
  const limit = options.maxFileBytes ?? MAX_FILE_BYTES;
  if (!isText(bytes)) {
    throw invalid(`${shown} is not text, a PDF, or a PNG, JPEG, GIF or WebP image.`);
  }
  if (bytes.length > limit)
    throw invalid(`${shown} has ${bytes.length} bytes; the limit for text is ${limit}.`);
  return {
    attachment: {
      type: "file",
      mediaType: "text/plain",
      ...(name === undefined ? {} : { name }),
      data: bytes.toString("base64"),
    },
    sizeBytes: bytes.length,
    tokenEstimate: Math.ceil(bytes.length / 4),
  };
}

/** Returns an image's size, without width and height for a truncated image; undefined for other files. */
function sizeOf(
  bytes: Buffer,
): { readonly type?: string | undefined; readonly width: number; readonly height: number } | undefined {
  // The parser reads past the end of a short image into the shared buffer, which holds other data. Zeros go there
  // instead.
  const padded = new Uint8Array(bytes.length + HEADER_BYTES);
  padded.set(bytes);
  try {
    return imageSize(padded);
  } catch {
    return undefined;
  }
}

function isText(bytes: Buffer): boolean {
  if (bytes.includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function fromDataUrl(url: string, { maxImageBytes = MAX_IMAGE_BYTES }: AttachmentOptions): Buffer {
  const comma = url.indexOf(",");
  const head = url.slice(0, comma);
  if (comma < 0 || !head.endsWith(";base64"))
    throw invalid("A data URL must have the form `data:<type>;base64,<data>`.");
  const data = url.slice(comma + 1);
  if (data.length > Math.ceil((maxImageBytes * 4) / 3) + 4) {
    throw invalid(`The data URL holds more than the limit of ${maxImageBytes} bytes.`);
  }
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data) || data.length % 4 === 1)
    throw invalid("The data URL is not base64.");
  return Buffer.from(data, "base64");
}

async function fromFile(
  source: string,
  shown: string,
  options: AttachmentOptions,
): Promise<{ readonly bytes: Buffer; readonly name: string }> {
  const path = await realpath(toPath(source, shown, options.cwd)).catch(() => undefined);
  if (path === undefined) throw invalid(`${shown}: no such file exists.`);
  const roots = await Promise.all(options.roots.map((root) => realpath(root).catch(() => root)));
  if (!roots.some((root) => isInside(path, root))) {
    throw invalid(`${shown} is outside the folders for attachments: ${options.roots.join(", ")}.`);
  }
  const reason = options.refuse?.(path);
  if (reason !== undefined) throw invalid(`${shown} must not be attached: ${reason}.`);
  const found = await stat(path);
  if (!found.isFile()) throw invalid(`${shown} is not a file.`);
  const limit = Math.max(options.maxImageBytes ?? MAX_IMAGE_BYTES, options.maxFileBytes ?? MAX_FILE_BYTES);
  if (found.size > limit) throw invalid(`${shown} has ${found.size} bytes; the limit is ${limit}.`);
  const bytes = await readForeign(path).catch((error: unknown) => {
    throw error instanceof OwnFileError ? invalid(`${shown} must not be attached: ${error.message}`) : error;
  });
  return { bytes, name: basename(path) };
}

function toPath(source: string, shown: string, cwd: string): string {
  if (/^https?:/i.test(source)) {
    throw invalid(`${shown} is a web address. Save it as a file, or send it as a data URL.`);
  }
  if (source.includes("\0")) throw invalid("A path must not contain NUL.");
  if (!/^file:/i.test(source)) return resolve(cwd, source);
  try {
    return fileURLToPath(source);
  } catch {
    throw invalid(`${shown} is not a file URL of this machine.`);
  }
}

function invalid(message: string): ServiceError {
  return new ServiceError("invalid_content_part", message);
}

/** Number of arguments that `String.fromCharCode` accepts safely. */
const PIECE = 8_192;

/** Returns text as an attachment. The model gets it under its name, between delimiters. */
export function textAttachment(name: string, text: string): Attachment {
  return { type: "file", mediaType: "text/plain", name, data: toBase64(new TextEncoder().encode(text)) };
}

function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += PIECE) {
    binary += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  }
  return btoa(binary);
}

/** Returns a text file for the model: its name, then its text in a code fence that the text cannot close. */
export function fileText({ name = "attachment", data }: Attachment): string {
  const text = decode(data);
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `File ${JSON.stringify(name)}:\n${fence}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
}

function decode(base64: string): string {
  try {
    const bytes = Uint8Array.from(atob(base64), (character) => character.codePointAt(0) ?? 0);
    return new TextDecoder().decode(bytes);
  } catch {
    return "(The file could not be decoded.)";
  }
}

/** Whose files an attachment may be, for the policy. */
export interface AttachmentFolders {
  readonly workspace: string;
  /** The user's home. */
  readonly home: string;
  /** The home of agentd. */
  readonly agentHome: string;
}

/** Returns what the policy objects to showing the absolute `path` to a model; undefined: nothing. */
export function objectionTo(
  path: string,
  folders: AttachmentFolders,
): { readonly outcome: "ask" | "deny"; readonly reason: string } | undefined {
  return checkRead(path, folders);
}

/** Returns the absolute path without links of `path` in `cwd`; undefined when its links cannot be followed. */
export function realPathOf(path: string, cwd: string): string | undefined {
  try {
    return realPath(path, cwd);
  } catch (error) {
    if (error instanceof ToolError) return undefined;
    throw error;
  }
}
