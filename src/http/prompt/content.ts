import { isRecord } from "../../base/json/schema.ts";
import type { MessageContent } from "../../../generated/http/client/types.gen.ts";
import { readAttachment } from "../../agent/attachments/attachment.ts";
import type { Attachment, Message } from "../../agent/message.ts";
import { parseJson } from "../edge/input.ts";
import { ServiceError } from "../../base/errors.ts";
import { guardedFetch } from "../../base/net/fetch.ts";

/** The content of a message: its text, and its attachments, not loaded yet. */
export interface Content {
  readonly text: string;
  readonly sources: readonly AttachmentSource[];
}

/** An image or file of a request: a data URL, or a web address of an image. */
export interface AttachmentSource {
  readonly kind: "image" | "file";
  readonly url: string;
  readonly name?: string;
  /** Path of the attachment in the request. */
  readonly param: string;
}

/**
 * Splits the content of a message in the chat or the responses format. ServiceError `invalid_content_part`,
 * `unsupported_content_type` and `invalid_image_url`, with the part.
 */
export function splitContent(content: MessageContent, param: string): Content {
  if (typeof content === "string") return { text: content, sources: [] };
  let text = "";
  const sources: AttachmentSource[] = [];
  for (const [index, part] of content.entries()) {
    const read = readPart(part, `${param}[${index}]`);
    if (typeof read === "string") text += read;
    else sources.push(read);
  }
  return { text, sources };
}

/**
 * Returns the text of content that may hold nothing else. ServiceError as {@link splitContent}, and for any other
 * part.
 */
export function textContent(content: MessageContent, param: string): string {
  const { text, sources } = splitContent(content, param);
  const [first] = sources;
  if (!first) return text;
  throw invalidPart(first.param, `is of kind ${first.kind}; only text is allowed here`);
}

/** Attachments that belong to the message at an index of a list. */
export interface PendingAttachments {
  readonly at: number;
  readonly sources: readonly AttachmentSource[];
}

/**
 * Loads the attachments of a request, and adds them to their messages. ServiceError as {@link splitContent}, and for
 * broken or too large ones.
 */
export async function attachTo(
  messages: Message[],
  pending: readonly PendingAttachments[],
  options: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<void> {
  const all = pending.flatMap(({ sources }) => sources);
  const surplus = all[MAX_ATTACHMENTS];
  if (surplus) {
    throw invalidPart(
      surplus.param,
      `is one too many: a request may hold ${MAX_ATTACHMENTS} images and files`,
    );
  }
  const loaded = new Map<AttachmentSource, Attachment>();
  for (const source of all) loaded.set(source, await load(source, options));
  for (const { at, sources } of pending) {
    const message = messages[at];
    const attachments = sources.flatMap((source) => loaded.get(source) ?? []);
    if (message?.role === "user") messages[at] = { ...message, attachments };
  }
}

/** Parses the arguments of an earlier call. A model's broken call is part of the history, not an error of this request. */
export function parseArguments(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    return { arguments: json };
  }
}

const MAX_ATTACHMENTS = 32;
const FETCH_TIMEOUT_MS = 15_000;

async function load(
  source: AttachmentSource,
  { maxBytes, signal }: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Attachment> {
  const { kind, param, name } = source;
  const url = source.url.startsWith("data:") ? source.url : await download(source, { maxBytes, signal });
  try {
    const limits = { maxImageBytes: maxBytes, maxFileBytes: maxBytes };
    const { attachment } = await readAttachment(url, { cwd: "/", roots: [], ...limits });
    if (kind === "image" && attachment.type !== "image") {
      throw new ServiceError("invalid_image_url", "The file is not a PNG, JPEG, GIF or WebP image.");
    }
    return name === undefined ? attachment : { ...attachment, name };
  } catch (cause) {
    if (!(cause instanceof ServiceError)) throw cause;
    const code = kind === "image" ? "invalid_image_url" : "invalid_content_part";
    throw new ServiceError(code, `${param}: ${cause.message}`, { param, cause });
  }
}

/**
 * Downloads an image as a data URL. Refuses private addresses, because the server reaches hosts that clients
 * cannot.
 */
async function download(
  { url, param }: AttachmentSource,
  { maxBytes, signal }: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<string> {
  const fail = (why: string, cause?: unknown): never => {
    const what = `${param} cannot be fetched: ${why} Send it as a data URL.`;
    throw new ServiceError("invalid_image_url", what, { param, cause });
  };
  try {
    const options = { timeoutMs: FETCH_TIMEOUT_MS, maxBytes, allowedPrivateHosts: [], signal };
    const { status, body, truncated } = await guardedFetch(url, options);
    if (status !== 200) return fail(`the server answered ${status}.`);
    if (truncated) return fail(`it has more than ${maxBytes} bytes.`);
    return `data:application/octet-stream;base64,${Buffer.from(body).toString("base64")}`;
  } catch (error) {
    if (error instanceof ServiceError || signal.aborted) throw error;
    return fail(error instanceof Error ? error.message : "it did not answer.", error);
  }
}

type Part = Exclude<MessageContent, string>[number];

function readPart(part: Part, param: string): string | AttachmentSource {
  switch (part.type) {
    case "text":
    case "input_text":
    case "output_text":
      return requireText(part["text"], `${param}.text`);
    case "refusal":
      return requireText(part["refusal"], `${param}.refusal`);
    case "image_url":
    case "input_image":
      return imageSource(part, param);
    case "file":
    case "input_file":
      return fileSource(part, param);
    default: {
      const what = `${param} has the type ${JSON.stringify(part.type.slice(0, 64))}. Text, image and file parts are supported.`;
      throw new ServiceError("unsupported_content_type", what, { param: `${param}.type` });
    }
  }
}

function imageSource(part: Part, param: string): AttachmentSource {
  const given = part["image_url"];
  const url = isRecord(given) ? given["url"] : given;
  const at = `${param}.image_url${isRecord(given) ? ".url" : ""}`;
  if (typeof url === "string" && /^(?:data:|https?:\/\/)/i.test(url))
    return { kind: "image", url, param: at };
  const what = `${at} must be a data URL (\`data:image/png;base64,...\`) or an http address.`;
  throw new ServiceError("invalid_image_url", what, { param: at });
}

/** Reads a file part. The chat format nests the fields that the responses format has flat. */
function fileSource(part: Part, param: string): AttachmentSource {
  const isNested = isRecord(part["file"]);
  const file: Readonly<Record<string, unknown>> = isNested ? (part["file"] as object as never) : part;
  const at = `${param}${isNested ? ".file" : ""}.file_data`;
  const { file_data: data, filename } = file;
  if (typeof data !== "string" || data === "") {
    throw invalidPart(at, "must be a data URL; files by id or address are not supported");
  }
  const url = data.startsWith("data:") ? data : `data:application/octet-stream;base64,${data}`;
  const name = typeof filename === "string" ? { name: filename.slice(0, MAX_NAME_CHARACTERS) } : {};
  return { kind: "file", url, param: at, ...name };
}

const MAX_NAME_CHARACTERS = 256;

function requireText(text: unknown, param: string): string {
  if (typeof text === "string") return text;
  throw invalidPart(param, "must be text");
}

function invalidPart(param: string, what: string): ServiceError {
  return new ServiceError("invalid_content_part", `${param} ${what}.`, { param });
}
