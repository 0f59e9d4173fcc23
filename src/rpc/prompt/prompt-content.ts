import { readAttachment, type AttachmentOptions } from "../../agent/attachments/attachment.ts";
import type { Attachment, UserMessage } from "../../agent/message.ts";
import { ServiceError } from "../../base/errors.ts";
import { MAX_QUEUED_IMAGES, mayRide, QUEUED_LIMIT, type QueuedImage } from "./queued-images.ts";

/** Where paths begin, and what may be taken from there. */
type Places = Pick<AttachmentOptions, "cwd" | "roots" | "refuse">;

interface Asked {
  readonly text: string | readonly Readonly<Record<string, unknown>>[];
  readonly images?: readonly string[];
  /** Images that were attached before. */
  readonly waiting?: readonly QueuedImage[];
}

/**
 * The prompt with what rides with it: images that were attached before, and those that it names. ServiceError
 * `bad_value` for a part of an unknown kind, `too_large` for too many images, `not_found_or_unsupported` for one that
 * cannot be taken.
 */
export async function promptOf(places: Places, asked: Asked): Promise<UserMessage> {
  const parts = typeof asked.text === "string" ? [] : asked.text;
  const text = typeof asked.text === "string" ? asked.text : parts.map(textIn).filter(Boolean).join("\n\n");
  const sources = [...parts.flatMap(sourceIn), ...(asked.images ?? [])];
  const waiting = (asked.waiting ?? []).map(({ attachment }) => attachment);
  if (waiting.length + sources.length > MAX_QUEUED_IMAGES) throw tooMany();
  const attachments: Attachment[] = [...waiting];
  for (const source of sources) {
    attachments.push(await read(places, source));
    if (!mayRide(attachments)) throw tooMany();
  }
  return { role: "user", text, ...(attachments.length > 0 ? { attachments } : {}) };
}

function tooMany(): ServiceError {
  return new ServiceError("too_large", `A prompt takes at most ${QUEUED_LIMIT}.`, {
    param: "images",
  });
}

/** ServiceError `not_found_or_unsupported`. */
async function read(places: Places, source: string): Promise<Attachment> {
  try {
    return (await readAttachment(source, places)).attachment;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError("not_found_or_unsupported", error.message, { param: "images", cause: error });
  }
}

type Part = Readonly<Record<string, unknown>>;

function textIn(part: Part): string {
  return isText(part) && typeof part["text"] === "string" ? part["text"] : "";
}

function sourceIn(part: Part, index: number): readonly string[] {
  if (isText(part)) return [];
  const { image_url: url, url: plain, path, data } = part;
  const nested = typeof url === "object" && url !== null ? (url as { readonly url?: unknown }).url : url;
  const source = [nested, plain, path, data].find((value) => typeof value === "string");
  if (typeof source === "string") return [source];
  throw new ServiceError("bad_value", `text[${index}] is neither text nor an image.`, {
    param: `text[${index}]`,
  });
}

function isText({ type }: Part): boolean {
  return type === "text" || type === "input_text";
}
