import type { UserModelMessage } from "ai";
import type { Attachment, UserMessage } from "../message.ts";

type UserPart = Exclude<UserModelMessage["content"], string>[number];

/**
 * A user's message in the model SDK's form. Pictures and files that providers take go as parts, files of text inside of
 * the text; of any other file the model learns that it is there. The SDK has no place for a name, so it stands in front.
 */
export function toUserMessage({ text, name, attachments = [] }: UserMessage): UserModelMessage {
  const said = name === undefined || name === "" ? text : `${name.replaceAll(/\s+/g, " ")}: ${text}`;
  const parts = attachments.map(toPart);
  if (parts.length === 0) return { role: "user", content: said };
  // Some providers refuse an empty text.
  const first: readonly UserPart[] = said === "" ? [] : [{ type: "text", text: said }];
  return { role: "user", content: [...first, ...parts] };
}

function toPart(attachment: Attachment): UserPart {
  const { type, mediaType, data, name } = attachment;
  const filename = name === undefined ? {} : { filename: name };
  if (type === "image" || FILE_TYPES.test(mediaType)) return { type: "file", mediaType, data, ...filename };
  if (TEXT_TYPES.test(mediaType)) return { type: "text", text: fileText(attachment) };
  const label = name === undefined ? "A file" : `The file ${JSON.stringify(name)}`;
  return { type: "text", text: `[${label} of type ${mediaType} is attached, but cannot be shown here.]` };
}

/** What more than one provider takes; a provider that does not says so itself. */
const FILE_TYPES = /^(?:image\/|audio\/|video\/|application\/pdf$)/;
const TEXT_TYPES =
  /^(?:text\/|application\/(?:json|xml|yaml|toml|javascript|typescript|x-sh|x-yaml|sql)\b|[^;]+\+(?:json|xml|yaml)\b)/;

/** A file of text as the model gets it: under its name, between fences that it cannot close. */
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
