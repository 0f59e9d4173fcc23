/** Sends mails through an SMTP server. Touches the machine. */
import { readFile } from "node:fs/promises";
import type { Clock } from "../../../base/time.ts";
import { type SendOutcome, type LoadedFile, cleanText } from "../../target.ts";
import type { SendFailure } from "../../platform/call.ts";

export interface Mail {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string | undefined;
  /** With angle brackets. The same for every attempt. */
  readonly messageId: string;
  readonly inReplyTo: string | undefined;
  readonly references: readonly string[];
  readonly attachments: readonly LoadedFile[];
}

export interface SmtpServer {
  readonly host: string;
  readonly port: number;
  /** implicit: TLS from the start. required: STARTTLS, without which nothing is sent. none: unencrypted. */
  readonly tls: "implicit" | "required" | "none";
  readonly login: { readonly user: string; readonly pass: string } | undefined;
  /** Path of the certificates (PEM) to trust instead of the default ones. */
  readonly caFile: string | undefined;
}

interface SmtpOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Timeout for everything; default 45 s. */
  readonly timeoutMs?: number;
}

/** Shorter than the timeout of an attempt, so that it is known whether the text was sent. */
const TIMEOUT_MS = 45_000;
const CONNECT_TIMEOUT_MS = 10_000;
const SILENCE_TIMEOUT_MS = 20_000;
const CLOSE_TIMEOUT_MS = 1_000;
const MAX_REPLY_BYTES = 65_536;

/** Sends one mail over a connection of its own. Never rejects. */
export async function sendMail(
  mail: Mail,
  server: SmtpServer,
  { clock, signal, timeoutMs = TIMEOUT_MS }: SmtpOptions,
): Promise<SendOutcome> {
  const { host, port, tls, login, caFile } = server;
  const attempted = { server: `${host}:${port}`, isSent: false };
  const late = new AbortController();
  const cancel = clock.after(timeoutMs, () => late.abort(new Error("The mail server took too long.")));
  try {
    const certificates = caFile === undefined ? {} : { ca: await readFile(caFile) };
    // Loaded with the first mail, which keeps the start fast.
    const { createTransport } = await import("nodemailer");
    const transport = createTransport({
      host,
      port,
      secure: tls === "implicit",
      // Without `none` nothing is sent unencrypted.
      requireTLS: tls !== "none" && tls !== "implicit",
      ignoreTLS: tls === "none",
      tls: { minVersion: "TLSv1.2", ...certificates },
      // A server that does not ask for the login is not the intended one.
      ...(login ? { auth: login, forceAuth: true } : {}),
      dnsTimeout: CONNECT_TIMEOUT_MS,
      connectionTimeout: CONNECT_TIMEOUT_MS,
      greetingTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SILENCE_TIMEOUT_MS,
      socketCloseTimeout: CLOSE_TIMEOUT_MS,
      maxResponseSize: MAX_REPLY_BYTES,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    transport.use("stream", ({ message }, done) => {
      // The stream ends only after the server asked for the text, and before it gets the end of the text.
      message.processFunc((text) => text.once("end", () => (attempted.isSent = true)));
      done();
    });
    await transport.sendMail({ ...contentOf(mail, clock), signal: AbortSignal.any([signal, late.signal]) });
    return { status: "delivered" };
  } catch (error) {
    if (Object(error).syscall === "open") {
      return {
        status: "retry",
        error: `platforms.email.ca_file cannot be read (${String(Object(error).code)}).`,
      };
    }
    return outcomeOfError(error, attempted);
  } finally {
    cancel();
  }
}

function contentOf({ from, to, html, inReplyTo, references, attachments, ...rest }: Mail, clock: Clock) {
  return {
    ...rest,
    // Given as objects, so that nodemailer does not parse them.
    from: { name: "", address: from },
    to: { name: "", address: to },
    envelope: { from, to: [to] },
    date: new Date(clock.now()),
    ...(html === undefined ? {} : { html }),
    ...(inReplyTo === undefined ? {} : { inReplyTo }),
    ...(references.length > 0 ? { references: [...references] } : {}),
    attachments: attachments.map(({ name, type, bytes }) => ({
      filename: name,
      contentType: type,
      content: Buffer.from(bytes),
    })),
    // RFC 3834: suppresses automatic replies.
    headers: { "Auto-Submitted": "auto-generated" },
  };
}

/** The used fields of a nodemailer error. */
interface SmtpError {
  readonly code?: unknown;
  /** Code of the system or of TLS, when `code` is nodemailer's. */
  readonly originalCode?: unknown;
  /** The server's reply, if any. */
  readonly responseCode?: unknown;
  readonly response?: unknown;
}

interface Attempted {
  /** `host:port` of the server. */
  readonly server: string;
  /** Whether the whole text was sent, so that only the server's reply confirms it. */
  readonly isSent: boolean;
}

const MAX_SAID_CHARACTERS = 200;
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET)|ALTNAME/;
/** Replies about the message, its sender or its recipient, not about the connection. */
const ABOUT_MESSAGE = new Set(["EENVELOPE", "EMESSAGE"]);

function outcomeOfError(error: unknown, { server, isSent }: Attempted): SendFailure {
  const { code, originalCode, responseCode, response } = Object(error) as SmtpError;
  const status = typeof responseCode === "number" ? responseCode : undefined;
  const summary = shown(response);
  const isFinal = status !== undefined && status >= 500 && status !== 503;
  if (code === "EAUTH") return refusedLogin(status, server);
  if (isFinal && (isSent || ABOUT_MESSAGE.has(String(code)))) {
    return {
      status: "permanent",
      error: `${server} refused the mail: ${summary}. ${hintOf(summary)}`.trim(),
    };
  }
  if (status !== undefined && status >= 400) {
    return { status: "retry", error: `${server} does not accept the mail now: ${summary}.${tlsNote(code)}` };
  }
  if (isSent) {
    return {
      status: "unknown",
      error: `${server} received the mail and did not confirm it (${String(code)}). It may have arrived.`,
    };
  }
  // An error before anything was sent: the announced size limit, or an address.
  if (ABOUT_MESSAGE.has(String(code))) {
    return {
      status: "permanent",
      error: `The mail cannot be sent through ${server}: ${shown(Object(error).message)}.`,
    };
  }
  return { status: "retry", error: connectionError(String(originalCode ?? code), String(code), server) };
}

function refusedLogin(status: number | undefined, server: string): SendFailure {
  // The server's reply is omitted: it may contain the credentials.
  const answered = status === undefined ? "" : ` (${status})`;
  if (status !== undefined && status < 500) {
    return { status: "retry", error: `${server} temporarily refuses logins${answered}.` };
  }
  return {
    status: "permanent",
    error:
      `${server} refused the login${answered}: check platforms.email.user and password (EMAIL_SMTP_USER, ` +
      "EMAIL_PASSWORD). Some providers require an app password.",
  };
}

function connectionError(reason: string, code: string, server: string): string {
  if (CERTIFICATE.test(reason)) {
    return `The certificate of ${server} is not trusted (${reason}). Check smtp_host, or set platforms.email.ca_file.`;
  }
  if (code === "ETLS")
    return `Cannot establish an encrypted connection to ${server} (${reason}).${tlsNote(code)}`;
  if (code === "EDNS") return `${server} was not found (${reason}). Check platforms.email.smtp_host.`;
  return `The connection to ${server} failed (${reason}). Check platforms.email.smtp_host and smtp_port.`;
}

function tlsNote(code: unknown): string {
  if (code !== "ETLS") return "";
  return " Nothing was sent unencrypted. Check that the server offers STARTTLS; with implicit TLS use port 465.";
}

/** RFC 3463: enhanced status codes, where the first reply line has one. */
function hintOf(summary: string): string {
  if (/^(530|535|538)\b/.test(summary)) return "Check platforms.email.user and password.";
  if (/^552\b|^\d{3} 5\.[23]\.4\b/.test(summary))
    return "The mail is too large for the server, or the mailbox is full.";
  if (/^\d{3} 5\.1\.[12]\b/.test(summary)) return "Check the address.";
  return "";
}

/** Returns the server's reply as one clean line. */
function shown(text: unknown): string {
  if (typeof text !== "string") return "no answer";
  const line = cleanText(text.slice(0, 2_000)).replace(/\s+/g, " ").trim().replace(/\.$/, "");
  return line.slice(0, MAX_SAID_CHARACTERS);
}
