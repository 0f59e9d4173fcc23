/** What the blocks of a prompt say to the model. */
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable";
import { readAttachment } from "../../agent/attachments/attachment.ts";
import { textAttachment } from "../../agent/attachments/text-attachment.ts";
import type { Attachment, UserMessage } from "../../agent/message.ts";
import { ServiceError } from "../../base/errors.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { linkedPath, readLinked, type LinkedFiles } from "./content-file.ts";
import { clipped, joined, nameOf, reference, type Stretch } from "./content-text.ts";
import { invalidParams } from "../wire/error.ts";
import type { AcpSession } from "../session/session.ts";

export const MAX_BLOCKS = 512;
/** Of all text, what is embedded included. */
export const MAX_TEXT_CHARACTERS = 8_388_608;
export const MAX_IMAGES = 32;
const MAX_IMAGE_BYTES = 10_485_760;
/** Of all images. */
export const MAX_IMAGES_BYTES = 33_554_432;
/** Files that are linked; those beyond are named only. */
export const MAX_LINKED_FILES = 64;
/** Of all texts that are linked. */
export const MAX_LINKED_BYTES = 4_194_304;
const MAX_NAME_CHARACTERS = 2_000;
/** A client gets so long for what it has of all files together; the disk holds the rest. */
const CLIENT_FILES_MS = 5_000;

export interface ContentCall {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  /** Aborts when the prompt is cancelled. */
  readonly signal: AbortSignal;
}

/** As {@link messageOf}, with the files of the session and what the client has of them in its editor. */
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
 * The blocks as one message. The text reads as it was written, with references in the place of what is linked or
 * embedded; the contents ride with it as files under their names, so that they are told apart from what the user says.
 * RequestError -32602 that names the block and the limit for one that cannot be taken.
 */
export async function messageOf(blocks: readonly ContentBlock[], files: LinkedFiles): Promise<UserMessage> {
  if (blocks.length > MAX_BLOCKS) {
    throw invalidParams(
      "prompt",
      `A prompt takes at most ${MAX_BLOCKS} blocks; this one has ${blocks.length}.`,
    );
  }
  const load = new Load();
  const stretches: Stretch[] = [];
  for (const [index, block] of blocks.entries()) {
    stretches.push(await take({ block, at: `prompt[${index}]`, load, files }));
  }
  const { attachments } = load;
  return { role: "user", text: joined(stretches), ...(attachments.length > 0 ? { attachments } : {}) };
}

interface Taking {
  readonly block: ContentBlock;
  /** Names the block in errors. */
  readonly at: string;
  readonly load: Load;
  readonly files: LinkedFiles;
}

async function take({ block, at, load, files }: Taking): Promise<Stretch> {
  switch (block.type) {
    case "text":
      load.text(at, block.text);
      return { kind: "text", text: block.text };
    case "image":
      load.image(at, await imageOf(at, block.data, block.uri ?? undefined));
      return { kind: "reference", text: "" };
    case "resource_link":
      await link(block.uri, load, files);
      return { kind: "reference", text: reference(block.name, block.uri) };
    case "resource": {
      const { resource } = block;
      if ("text" in resource) load.embed(at, resource.uri, resource.text);
      else await blob(at, resource, load);
      return { kind: "reference", text: reference(nameOf(resource.uri), resource.uri) };
    }
    default:
      throw invalidParams(
        at,
        `${at} is of type ${clipped(String(block.type), 40)}, which is not taken. Send text, image, resource_link or resource.`,
      );
  }
}

/** RequestError for what is no image, or one that is too large. */
async function imageOf(at: string, data: string, uri: string | undefined): Promise<Attachment> {
  const read = await readBase64(at, data);
  if (read?.type !== "image") throw invalidParams(at, `${at} is no image in PNG, JPEG, GIF or WebP.`);
  return uri === undefined ? read : { ...read, name: clipped(uri, MAX_NAME_CHARACTERS) };
}

async function link(uri: string, load: Load, files: LinkedFiles): Promise<void> {
  const path = load.readsLinks ? linkedPath(uri) : undefined;
  const found = path === undefined ? undefined : await readLinked(path, files);
  if (found) load.linked(found);
}

/** Text and images are shown; of all else the model learns that it is there. */
async function blob(
  at: string,
  { uri, blob: data }: { uri: string; blob: string },
  load: Load,
): Promise<void> {
  const name = clipped(uri, MAX_NAME_CHARACTERS);
  const read = await readBase64(at, data);
  if (read?.type === "image") load.image(at, { ...read, name });
  else if (read?.mediaType === "text/plain") load.linked({ ...read, name });
}

/** Undefined for bytes of a kind that models do not take. RequestError for what is no base64, or too large. */
async function readBase64(at: string, data: string): Promise<Attachment | undefined> {
  const limit = (MAX_IMAGE_BYTES * 4) / 3 + 4;
  if (data.length > limit)
    throw invalidParams(at, `${at} has more than ${MAX_IMAGE_BYTES} bytes, the limit.`);
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data) || data.length % 4 === 1) {
    throw invalidParams(at, `${at} holds data that is not base64.`);
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

/** What a prompt brings so far. */
class Load {
  readonly attachments: Attachment[] = [];
  #characters = 0;
  #images = 0;
  #imageBytes = 0;
  #links = 0;
  #linkedBytes = 0;

  /** RequestError when there is too much text. */
  text(at: string, text: string): void {
    this.#characters += text.length;
    if (this.#characters <= MAX_TEXT_CHARACTERS) return;
    throw invalidParams(
      at,
      `With ${at} the prompt has more than ${MAX_TEXT_CHARACTERS} characters, the limit.`,
    );
  }

  /** RequestError when there is too much text. */
  embed(at: string, uri: string, text: string): void {
    this.text(at, text);
    this.attachments.push(textAttachment(clipped(uri, MAX_NAME_CHARACTERS), text));
  }

  /** RequestError when there are too many images. */
  image(at: string, image: Attachment): void {
    if (this.#addImage(image)) return;
    throw invalidParams(
      at,
      `With ${at} the prompt has more images than it takes: ${MAX_IMAGES} with ${MAX_IMAGES_BYTES} bytes in all.`,
    );
  }

  /** Whether one more file that is linked is worth reading. */
  get readsLinks(): boolean {
    return this.#links < MAX_LINKED_FILES && this.#linkedBytes < MAX_LINKED_BYTES;
  }

  /** One too many adds nothing: its reference stands in the text. */
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
