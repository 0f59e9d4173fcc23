import { shorten, toOneLine } from "../../base/text.ts";
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable";
import { readAttachment, textAttachment } from "../../agent/attachments/attachment.ts";
import type { Attachment, UserMessage } from "../../agent/engine.ts";
import { ServiceError } from "../../base/errors.ts";
import type { AcpConnection, AcpSession } from "../wire/connection.ts";
import { linkedPath, readLinked, type LinkedFiles } from "./content-file.ts";
import { invalidParams } from "../wire/error.ts";
import { isRecord } from "../../base/data.ts";

export const MAX_BLOCKS = 512;
/** The limit of all text, including embedded resources. */
export const MAX_TEXT_CHARACTERS = 8_388_608;
export const MAX_IMAGES = 32;
const MAX_IMAGE_BYTES = 10_485_760;
/** The limit of all images together. */
export const MAX_IMAGES_BYTES = 33_554_432;
/** The limit of linked files. Further links stay references. */
export const MAX_LINKED_FILES = 64;
/** The limit of all linked text files together. */
export const MAX_LINKED_BYTES = 4_194_304;
const MAX_NAME_CHARACTERS = 2_000;
/** How long to wait for all files of the client together. The rest is read from disk. */
const CLIENT_FILES_MS = 5_000;

interface ContentCall {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  /** Aborts when the prompt is cancelled. */
  readonly signal: AbortSignal;
}

/** Returns the blocks as one message, with linked files of the session as the editor has them. */
export async function toMessage(
  blocks: readonly ContentBlock[],
  { connection, session, signal }: ContentCall,
): Promise<UserMessage> {
  const { agent } = await connection.deps();
  const { clients: hosts, settings } = agent.deps;
  const { roots, files } = hosts.of(session.id);
  const patience = AbortSignal.any([signal, AbortSignal.timeout(CLIENT_FILES_MS)]);
  return messageOf(blocks, {
    roots: [session.seed.cwd, ...roots],
    home: settings.userHome,
    agentHome: settings.agentHome,
    unsaved: async (path) => (patience.aborted ? undefined : files?.read?.(path, patience)),
  });
}

/**
 * Returns the blocks as one message. The text keeps references in place of linked and embedded resources, whose contents
 * become named attachments, separate from the user's words. RequestError -32602 names an unsupported block or a limit.
 */
export async function messageOf(blocks: readonly ContentBlock[], files: LinkedFiles): Promise<UserMessage> {
  if (blocks.length > MAX_BLOCKS) {
    throw invalidParams(
      "prompt",
      `A prompt takes at most ${MAX_BLOCKS} blocks; this one has ${blocks.length}.`,
    );
  }
  const contents = new PromptContents();
  for (const [index, block] of blocks.entries()) {
    await readContents({ block, at: `prompt[${index}]`, contents, files });
  }
  const { attachments } = contents;
  return { role: "user", text: referenceText(blocks), ...(attachments.length > 0 ? { attachments } : {}) };
}

interface BlockCall {
  readonly block: ContentBlock;
  /** Names the block in errors. */
  readonly at: string;
  readonly contents: PromptContents;
  readonly files: LinkedFiles;
}

async function readContents({ block, at, contents, files }: BlockCall): Promise<void> {
  switch (block.type) {
    case "text":
      return contents.text(at, block.text);
    case "image":
      return contents.image(at, await imageOf(at, block.data, block.uri ?? undefined));
    case "resource_link":
      return link(block.uri, contents, files);
    case "resource":
      if ("text" in block.resource) contents.embed(at, block.resource.uri, block.resource.text);
      else await blob(at, block.resource, contents);
      return;
    default:
      throw invalidParams(
        at,
        `${at} has the unsupported type ${shorten(String(block.type), 40)}. Send text, image, resource_link or resource.`,
      );
  }
}

/** RequestError unless the data is an image within the limit. */
async function imageOf(at: string, data: string, uri: string | undefined): Promise<Attachment> {
  const read = await readBase64(at, data);
  if (read?.type !== "image") throw invalidParams(at, `${at} is not a PNG, JPEG, GIF or WebP image.`);
  return uri === undefined ? read : { ...read, name: shorten(uri, MAX_NAME_CHARACTERS) };
}

async function link(uri: string, contents: PromptContents, files: LinkedFiles): Promise<void> {
  const path = contents.readsLinks ? linkedPath(uri) : undefined;
  const found = path === undefined ? undefined : await readLinked(path, files);
  if (found) contents.linked(found);
}

/** Attaches text and images. Other files stay references. */
async function blob(
  at: string,
  { uri, blob: data }: { uri: string; blob: string },
  contents: PromptContents,
): Promise<void> {
  const name = shorten(uri, MAX_NAME_CHARACTERS);
  const read = await readBase64(at, data);
  if (read?.type === "image") contents.image(at, { ...read, name });
  else if (read?.mediaType === "text/plain") contents.linked({ ...read, name });
}

/** Returns undefined for unsupported kinds of files. RequestError for invalid base64 or too many bytes. */
async function readBase64(at: string, data: string): Promise<Attachment | undefined> {
  const limit = (MAX_IMAGE_BYTES * 4) / 3 + 4;
  if (data.length > limit) throw invalidParams(at, `${at} exceeds the limit of ${MAX_IMAGE_BYTES} bytes.`);
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data) || data.length % 4 === 1) {
    throw invalidParams(at, `${at} contains invalid base64.`);
  }
  try {
    const limits = { maxImageBytes: MAX_IMAGE_BYTES, maxFileBytes: MAX_IMAGE_BYTES };
    const read = await readAttachment(`data:;base64,${data}`, { cwd: "/", roots: [], ...limits });
    return read.attachment;
  } catch (error) {
    if (error instanceof ServiceError) return undefined;
    throw error;
  }
}

/** The contents of a prompt, checked against its limits. */
class PromptContents {
  readonly attachments: Attachment[] = [];
  #characters = 0;
  #images = 0;
  #imageBytes = 0;
  #links = 0;
  #linkedBytes = 0;

  /** Counts text. RequestError beyond the limit. */
  text(at: string, text: string): void {
    this.#characters += text.length;
    if (this.#characters <= MAX_TEXT_CHARACTERS) return;
    throw invalidParams(at, `The prompt exceeds the limit of ${MAX_TEXT_CHARACTERS} characters at ${at}.`);
  }

  /** Adds an embedded text. RequestError beyond the limit. */
  embed(at: string, uri: string, text: string): void {
    this.text(at, text);
    this.attachments.push(textAttachment(shorten(uri, MAX_NAME_CHARACTERS), text));
  }

  /** Adds an image. RequestError beyond the limits. */
  image(at: string, image: Attachment): void {
    if (this.#addImage(image)) return;
    throw invalidParams(
      at,
      `The prompt exceeds the limit of ${MAX_IMAGES} images with ${MAX_IMAGES_BYTES} bytes in total at ${at}.`,
    );
  }

  /** Whether the limits allow another linked file. */
  get readsLinks(): boolean {
    return this.#links < MAX_LINKED_FILES && this.#linkedBytes < MAX_LINKED_BYTES;
  }

  /** Adds a linked file if the limits allow it. Otherwise only its reference stays in the text. */
  linked(file: Attachment): void {
    this.#links++;
    if (file.type === "image") return void this.#addImage(file);
    const bytes = bytesOf(file);
    if (this.#linkedBytes + bytes > MAX_LINKED_BYTES) return;
    this.#linkedBytes += bytes;
    this.attachments.push(file);
  }

  #addImage(image: Attachment): boolean {
    const bytes = bytesOf(image);
    if (this.#images >= MAX_IMAGES || this.#imageBytes + bytes > MAX_IMAGES_BYTES) return false;
    this.#images++;
    this.#imageBytes += bytes;
    this.attachments.push(image);
    return true;
  }
}

function bytesOf({ data }: Attachment): number {
  const padding = data.endsWith("==") ? 2 : data.endsWith("=") ? 1 : 0;
  return Math.floor((data.length * 3) / 4) - padding;
}

/** How the blocks of a prompt stand in one text. Pure. */

/** A part of the message text: written text, or a reference. */
interface Segment {
  readonly kind: "text" | "reference";
  readonly text: string;
}

const MAX_LABEL_CHARACTERS = 200;
const MAX_URI_CHARACTERS = 2_000;

/** Returns the text of the blocks with references in place of resources. */
export function referenceText(blocks: readonly ContentBlock[]): string {
  return joinSegments(blocks.map(segmentOf));
}

function segmentOf(block: ContentBlock): Segment {
  switch (block.type) {
    case "text":
      return { kind: "text", text: block.text };
    case "resource_link":
      return { kind: "reference", text: reference(block.name, block.uri) };
    case "resource":
      return { kind: "reference", text: reference(nameFromUri(block.resource.uri), block.resource.uri) };
    default:
      return { kind: "reference", text: "" };
  }
}

/** Joins the segments. References stay inside their sentences; adjacent texts become paragraphs. */
function joinSegments(segments: readonly Segment[]): string {
  let whole = "";
  let before: Segment | undefined;
  for (const segment of segments) {
    if (segment.text === "") continue;
    whole += (before ? between(before, segment) : "") + segment.text;
    before = segment;
  }
  return whole;
}

/** Returns `[@name](uri)` on one line, escaped. */
function reference(name: string, uri: string): string {
  const shown = shorten(toOneLine(name), MAX_LABEL_CHARACTERS).replaceAll(/[[\]]/g, "");
  const target = shorten(toOneLine(uri), MAX_URI_CHARACTERS)
    .replaceAll(" ", "%20")
    .replaceAll(/[()<>]/g, percent);
  return `[@${shown === "" ? "resource" : shown}](${target})`;
}

/** Returns the last path segment of a URI. */
function nameFromUri(uri: string): string {
  const path = uri.replace(/[?#].*$/s, "").replace(/\/+$/, "");
  return path.slice(path.lastIndexOf("/") + 1) || uri;
}

function between(before: Segment, after: Segment): string {
  if (before.kind === "text" && after.kind === "text") return "\n\n";
  if (before.kind === "reference" && after.kind === "reference") return " ";
  const touches =
    before.kind === "text" ? /[\p{L}\p{N}]$/u.test(before.text) : /^[\p{L}\p{N}]/u.test(after.text);
  return touches ? " " : "";
}

const percent = (character: string) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;

/** The required strings of each block type. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  text: ["text"],
  image: ["data", "mimeType"],
  resource_link: ["name", "uri"],
};

/** Validates blocks of extension requests, which the SDK does not check. RequestError -32602. Allows unknown types. */
export function readBlocks(value: unknown): readonly ContentBlock[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw invalidParams("prompt", "prompt must be a list with at least one block.");
  }
  return value.map((block: unknown, index) => readBlock(block, `prompt[${index}]`));
}

function readBlock(block: unknown, at: string): ContentBlock {
  if (!isRecord(block)) throw invalidParams(at, `${at} must be an object.`);
  const { type, resource } = block;
  if (typeof type !== "string") throw invalidParams(at, `${at}.type must be a string.`);
  if (type === "resource") checkResource(resource, `${at}.resource`);
  else checkTexts(block, FIELDS[type] ?? [], at);
  return block as ContentBlock;
}

function checkResource(resource: unknown, at: string): void {
  if (!isRecord(resource)) throw invalidParams(at, `${at} must be an object.`);
  checkTexts(resource, ["uri", "text" in resource ? "text" : "blob"], at);
}

function checkTexts(value: Readonly<Record<string, unknown>>, names: readonly string[], at: string): void {
  const wrong = names.find((name) => typeof value[name] !== "string");
  if (wrong !== undefined) throw invalidParams(`${at}.${wrong}`, `${at}.${wrong} must be a string.`);
}
