import { registerSecret } from "../../../base/observe.ts";
import { shorten, toOneLine, isBlank } from "../../../base/text.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import {
  joinText,
  loadFiles,
  readMessage,
  sendParts,
  type LoadedFile,
  type Message,
  type Platform,
  cleanText,
} from "../../target.ts";
import { renderParts, type Part } from "../../text/parts.ts";
import { sendMail, type Mail, type SmtpServer } from "./smtp.ts";

type Settings = PlatformSettings<"email">;

const NAME = "email";
const PORT = 587;
const TLS_PORT = 465;
/** Most characters of one mail; both of its forms stay far below the limits of servers. */
const TEXT_LIMIT = 250_000;
/** Servers limit the connections of one sender. */
const CONCURRENCY = 4;
const LOOPBACK = /^(localhost|127(?:\.\d{1,3}){3}|::1)$/i;

/**
 * Mail over SMTP (RFC 5321), encrypted except to this machine: STARTTLS is required, or implicit TLS on port 465. Each
 * mail has plain text and HTML. Its Message-ID is the same for every attempt, but mail servers do not deduplicate, so a
 * mail without a confirmation stays unknown.
 */
export const email: Platform<Settings> = {
  name: NAME,
  missing: missingOf,
  create(settings, { clock }) {
    const { address: from = "", password, home_channel: home } = settings;
    registerSecret(password ?? "");
    const server = serverOf(settings);
    return {
      name: NAME,
      concurrency: CONCURRENCY,
      ...(home === undefined ? {} : { home }),
      async send(delivery, options) {
        const message = readMessage(NAME, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const problem = findProblem(message);
        if (problem !== undefined) return { status: "permanent", error: problem };
        const attachments = await loadFiles(delivery.files ?? []);
        if ("status" in attachments) return attachments;
        const names = attachments.map(({ name }) => ({ literal: `${name}\n` }));
        const hasText = attachments.length === 0 || !isBlank(joinText(message.text));
        const rendering = { format: "email", limit: TEXT_LIMIT, unit: "utf16" } as const;
        const parts = renderParts(hasText ? message.text : names, rendering);
        const envelope = { id: delivery.id, from, message, attachments };
        return sendParts(parts, { delivery, options }, (_, index) =>
          sendMail(toMail(parts, index, envelope), server, { clock, signal: options.signal }),
        );
      },
    };
  },
};

function missingOf(settings: Settings): readonly string[] {
  const { address, password, smtp_host: host, smtp_port: port = PORT, tls, home_channel: home } = settings;
  const missing: string[] = [];
  if (address === undefined || !isAddress(address)) missing.push("address (EMAIL_ADDRESS)");
  if (host === undefined) missing.push("smtp_host (EMAIL_SMTP_HOST)");
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    missing.push("smtp_port as a number (EMAIL_SMTP_PORT)");
  if (password === undefined && tls !== "none") missing.push("password (EMAIL_PASSWORD)");
  if (tls === "none" && host !== undefined && !LOOPBACK.test(host)) {
    missing.push("encryption: tls none (EMAIL_SMTP_TLS) is for a server on this machine alone");
  }
  if (home !== undefined && !isAddress(home))
    missing.push("home_channel as one plain address (EMAIL_HOME_ADDRESS)");
  return missing;
}

function serverOf(settings: Settings): SmtpServer {
  const { address = "", user = address, password, smtp_host: host = "", smtp_port: port = PORT } = settings;
  const { tls = "required" } = settings;
  return {
    host,
    port,
    tls: tls === "required" && port === TLS_PORT ? "implicit" : tls,
    login: password === undefined ? undefined : { user, pass: password },
    caFile: settings.ca_file,
  };
}

function findProblem({ chat }: Message): string | undefined {
  if (chat === "") {
    return "The message has no address: set deliver_extra.chat_id, or platforms.email.home_channel (EMAIL_HOME_ADDRESS).";
  }
  return isAddress(chat) ? undefined : "The recipient must be one plain address, such as name@example.org.";
}

interface Envelope {
  /** Id of the message. */
  readonly id: string;
  readonly from: string;
  readonly message: Message;
  readonly attachments: readonly LoadedFile[];
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
/** Most characters of a subject made from the first line. */
const MAX_LINE_CHARACTERS = 80;

/** Returns whether `text` is exactly one address, so that it cannot inject a header or another recipient. */
function isAddress(text: string): boolean {
  return text.length <= MAX_ADDRESS_CHARACTERS && ADDRESS.test(text);
}

/**
 * Returns the mail of one part; the first has the attachments. `subject`, `in_reply_to` and `references` come from `deliver_extra`; the default
 * subject is the first line of the text. Later parts reply to the first.
 */
function toMail(parts: readonly Part[], index: number, { id, from, message, attachments }: Envelope): Mail {
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
    attachments: index === 0 ? attachments : [],
    inReplyTo,
    references: [...new Set(references)].slice(-MAX_REFERENCES),
  };
}

function messageId(id: string, index: number, from: string): string {
  const domain = from.slice(from.lastIndexOf("@") + 1);
  const host = URL.parse(`http://${domain}`)?.hostname ?? "localhost";
  return `<${id}${index === 0 ? "" : `.${index + 1}`}@${host}>`;
}

function subjectOf(value: unknown, text: string): string {
  const given = typeof value === "string" ? lineOf(value, MAX_SUBJECT_CHARACTERS) : "";
  if (given !== "") return given;
  const first = text.split("\n").find((line) => /[\p{L}\p{N}]/u.test(line)) ?? text;
  return lineOf(first, MAX_LINE_CHARACTERS) || "Message";
}

/** Removes line breaks, which would begin another header. */
function lineOf(text: string, maxCharacters: number): string {
  return shorten(toOneLine(cleanText(text.slice(0, 10_000))), maxCharacters);
}

/** Skips invalid message ids: a mail outside its thread is better than none. */
function readIds(value: unknown): readonly string[] {
  const texts = Array.isArray(value) ? value : [value];
  return texts
    .filter((text) => typeof text === "string")
    .flatMap((text) => text.slice(0, 10_000).split(/[\s,]+/))
    .flatMap((text) => {
      const id = MESSAGE_ID.exec(text)?.[1];
      return id === undefined || cleanText(id) !== id ? [] : [`<${id}>`];
    });
}
