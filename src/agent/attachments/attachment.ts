/** Images and files that ride with a prompt: read, sniffed and bounded. Touches the machine. */
import { realpath, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { imageSize } from "image-size";
import { ServiceError } from "../../base/errors.ts";
import { isInside } from "../../base/paths.ts";
import { OwnFileError, readForeign } from "../../base/system/own-files.ts";
import type { Attachment } from "../message.ts";

export interface AttachmentOptions {
  readonly cwd: string;
  /** Folders that local files may lie in, absolute. */
  readonly roots: readonly string[];
  /** Why a file must not be read, by the path that it really has; undefined: it may. Default: all may. */
  readonly refuse?: (path: string) => string | undefined;
  /** Default 10 MiB. */
  readonly maxImageBytes?: number;
  /** Of text files; default 512 KiB. */
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
/** More than any model looks at, and what a small file may claim to unpack to. */
const MAX_PIXELS = 100_000_000;
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};
const SHOWN_CHARACTERS = 80;

/**
 * Reads what `source` names: a data URL, or a path (also as `file:` URL), relative to `cwd`, inside one of the roots.
 * The type is what the bytes are, whatever the name or URL says. ServiceError `invalid_content_part` that says what was
 * found and what is allowed.
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

/** Within so many bytes each of the kinds says how large the image is, if nothing long stands before. */
const HEADER_BYTES = 64;

/** Undefined when the bytes are no image of a kind that models take. */
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
    throw invalid(`${shown} has ${width} x ${height} pixels; the limit is ${MAX_PIXELS} in all.`);
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

/** Undefined when the bytes are no PDF (ISO 32000-2, 7.5.2: the header stands first). */
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
    throw invalid(`${shown} is neither text nor PDF nor an image in PNG, JPEG, GIF or WebP.`);
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

/** Without a width and height when the bytes end before they say it; undefined when they are no image. */
function sizeOf(
  bytes: Buffer,
): { readonly type?: string | undefined; readonly width: number; readonly height: number } | undefined {
  // The parser reads on in the buffer behind a short image, which holds other data of this process: it gets zeros there.
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
    throw invalid("A data URL must read `data:<type>;base64,<data>`.");
  const data = url.slice(comma + 1);
  if (data.length > Math.ceil((maxImageBytes * 4) / 3) + 4) {
    throw invalid(`The data URL holds more than ${maxImageBytes} bytes, which is the limit.`);
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
  if (path === undefined) throw invalid(`${shown}: there is no such file.`);
  const roots = await Promise.all(options.roots.map((root) => realpath(root).catch(() => root)));
  if (!roots.some((root) => isInside(path, root))) {
    throw invalid(
      `${shown} lies outside of the folders that files may be attached from: ${options.roots.join(", ")}.`,
    );
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
    throw invalid(`${shown} is on the web. Save it as a file, or send it as a data URL.`);
  }
  if (source.includes("\0")) throw invalid("A path must not contain NUL.");
  if (!/^file:/i.test(source)) return resolve(cwd, source);
  try {
    return fileURLToPath(source);
  } catch {
    throw invalid(`${shown} is no file URL of this machine.`);
  }
}

function invalid(message: string): ServiceError {
  return new ServiceError("invalid_content_part", message);
}

/** A piece that `String.fromCharCode` takes as its arguments. */
const PIECE = 8_192;

/** Text as a file that rides with a prompt; the model gets it between fences, under its name. */
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
