/** Texts of a conversation in pieces that a line carries. Pure. */
import type { ContentBlock, SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { Attachment, UserMessage } from "../../agent/message.ts";

type ChunkKind = "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk";

/** Each character takes at most six bytes of JSON: less than 256 KiB in all. */
const MAX_CHARACTERS = 32_768;
/** Longer images are named only. */
const MAX_IMAGE_CHARACTERS = 65_536;

export function textChunks(kind: ChunkKind, text: string, messageId?: string): readonly SessionUpdate[] {
  const named = messageId === undefined ? {} : { messageId };
  return pieces(text).map((piece) => chunk(kind, { type: "text", text: piece }, named));
}

/** What a person wrote, and what rode with it. */
export function userChunks(seq: number, { text, attachments = [] }: UserMessage): readonly SessionUpdate[] {
  const messageId = `msg_${seq}`;
  const shown = attachments.flatMap((attachment) => blockOf(attachment, text) ?? []);
  return [
    ...textChunks("user_message_chunk", text, messageId),
    ...shown.map((block) => chunk("user_message_chunk", block, { messageId })),
  ];
}

/** Undefined for a file that the text names. */
function blockOf({ type, mediaType, name, data }: Attachment, text: string): ContentBlock | undefined {
  if (type === "image" && data.length <= MAX_IMAGE_CHARACTERS) {
    return { type: "image", mimeType: mediaType, data, ...(name === undefined ? {} : { uri: name }) };
  }
  if (name !== undefined && text.includes(name)) return undefined;
  const about = [name, mediaType, `${Math.floor((data.length * 3) / 4)} bytes`];
  return { type: "text", text: `[${about.filter((part) => part !== undefined).join(", ")}]` };
}

function chunk(
  sessionUpdate: ChunkKind,
  content: ContentBlock,
  named: { readonly messageId?: string },
): SessionUpdate {
  return { sessionUpdate, ...named, content };
}

/** Never in the middle of a character. */
function pieces(text: string): readonly string[] {
  const out: string[] = [];
  for (let from = 0; from < text.length;) {
    let to = Math.min(from + MAX_CHARACTERS, text.length);
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to--;
    out.push(text.slice(from, to));
    from = to;
  }
  return out;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
