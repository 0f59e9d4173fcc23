/** Hands mails to a server. Touches the machine. */
import { readFile } from "node:fs/promises";
import type { Clock } from "../../../base/clock.ts";
import type { SendOutcome } from "../../target.ts";
import type { Mail } from "./message.ts";
import { outcomeOfError } from "./outcome.ts";

export interface SmtpServer {
  readonly host: string;
  readonly port: number;
  /** implicit: TLS before the first word. required: STARTTLS, without which nothing is sent. none: unencrypted. */
  readonly tls: "implicit" | "required" | "none";
  readonly login: { readonly user: string; readonly pass: string } | undefined;
  /** Path of certificates (PEM) to trust instead of those that everybody trusts. */
  readonly caFile: string | undefined;
}

export interface SmtpOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** For the whole of it; default 45 s. */
  readonly timeoutMs?: number;
}

/** Less than an attempt may take, so that whether the text was sent already is known when it ends. */
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
    // Loaded with the first mail: starts need it not.
    const { createTransport } = await import("nodemailer");
    const transport = createTransport({
      host,
      port,
      secure: tls === "implicit",
      // Whatever is not said to go unencrypted does not.
      requireTLS: tls !== "none" && tls !== "implicit",
      ignoreTLS: tls === "none",
      tls: { minVersion: "TLSv1.2", ...certificates },
      // A server that does not ask for the login it was given one for is not the one that was meant.
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
      // Read to its end only once the server wants the text, and before it is told that this is all.
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

function contentOf({ from, to, html, inReplyTo, references, ...rest }: Mail, clock: Clock) {
  return {
    ...rest,
    // As they are: nothing in them is parsed again.
    from: { name: "", address: from },
    to: { name: "", address: to },
    envelope: { from, to: [to] },
    date: new Date(clock.now()),
    ...(html === undefined ? {} : { html }),
    ...(inReplyTo === undefined ? {} : { inReplyTo }),
    ...(references.length > 0 ? { references: [...references] } : {}),
    // RFC 3834: nobody's out-of-office note should answer.
    headers: { "Auto-Submitted": "auto-generated" },
  };
}
