/** What a message looks like as a mail. Pure. */
import { shorten } from "../../../base/text.ts";
import type { Message } from "../../message.ts";
import type { Part } from "../../text/part.ts";
import { cleanText } from "../../text/text.ts";

export interface Mail {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string | undefined;
  /** With its angle brackets. The same for every attempt. */
  readonly messageId: string;
  readonly inReplyTo: string | undefined;
  readonly references: readonly string[];
}

export interface Envelope {
  /** Of the delivery. */
  readonly id: string;
  readonly from: string;
  readonly message: Message;
}

const MAX_ADDRESS_CHARACTERS = 254;
const LABEL = String.raw`[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?`;
/** RFC 5321, 4.1.2: Mailbox, without the quoted forms and the literal addresses that no mail of ours needs. */
const ADDRESS = new RegExp(
  String.raw`^[\p{L}\p{N}!#$%&'*+/=?^_{|}~.` + "`" + String.raw`-]{1,64}@${LABEL}(?:\.${LABEL})*$`,
  "u",
);
const MESSAGE_ID = /^<?([^\s<>@]{1,200}@[^\s<>@]{1,200})>?$/;
const MAX_REFERENCES = 20;
const MAX_SUBJECT_CHARACTERS = 200;
/** Of the first line of a text. */
const MAX_LINE_CHARACTERS = 80;

/** One address, and no more: nothing that could begin another header or another recipient. */
export function isAddress(text: string): boolean {
  return text.length <= MAX_ADDRESS_CHARACTERS && ADDRESS.test(text);
}

/**
 * The mail of one part. `subject`, `in_reply_to` and `references` of `deliver_extra` are honoured; without a subject the
 * first line of the text stands there. Later parts answer the first.
 */
export function toMail(parts: readonly Part[], index: number, { id, from, message }: Envelope): Mail {
  const { text = "", plain = "", html } = parts[index] ?? {};
  const { extra, chat, thread } = message;
  const counter = parts.length > 1 ? ` (${index + 1}/${parts.length})` : "";
  const [answered] = readIds(extra["in_reply_to"] ?? thread);
  const inReplyTo = index === 0 ? answered : messageId(id, 0, from);
  const references = [...readIds(extra["references"]), ...(answered === undefined ? [] : [answered])];
  if (index > 0) references.push(messageId(id, 0, from));
  return {
    from,
    to: chat,
    subject: `${subjectOf(extra["subject"], parts[0]?.plain ?? plain)}${counter}`,
    text,
    html: html === undefined ? undefined : `<!doctype html><html><body>${html}</body></html>`,
    messageId: messageId(id, index, from),
    inReplyTo,
    references: [...new Set(references)].slice(-MAX_REFERENCES),
  };
}

function messageId(id: string, index: number, from: string): string {
  const domain = from.slice(from.lastIndexOf("@") + 1);
  const host = URL.parse(`http://${domain}`)?.hostname ?? "localhost";
  return `<${id}${index === 0 ? "" : `.${index + 1}`}@${host}>`;
}

function subjectOf(told: unknown, text: string): string {
  const said = typeof told === "string" ? oneLine(told, MAX_SUBJECT_CHARACTERS) : "";
  if (said !== "") return said;
  const first = text.split("\n").find((line) => /[\p{L}\p{N}]/u.test(line)) ?? text;
  return oneLine(first, MAX_LINE_CHARACTERS) || "Message";
}

/** Line breaks would begin a header of their own. */
function oneLine(text: string, maxCharacters: number): string {
  return shorten(cleanText(text.slice(0, 10_000)).replace(/\s+/g, " ").trim(), maxCharacters);
}

/** What is no id of a message is left out: a mail outside its thread is better than none. */
function readIds(told: unknown): readonly string[] {
  const texts = Array.isArray(told) ? told : [told];
  return texts
    .filter((text) => typeof text === "string")
    .flatMap((text) => text.slice(0, 10_000).split(/[\s,]+/))
    .flatMap((text) => {
      const id = MESSAGE_ID.exec(text)?.[1];
      return id === undefined || cleanText(id) !== id ? [] : [`<${id}>`];
    });
}
