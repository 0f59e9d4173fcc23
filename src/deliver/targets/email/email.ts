import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { readMessage, type Message } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { Platform } from "../../platform/platform.ts";
import { renderParts } from "../../text/parts.ts";
import { isAddress, toMail } from "./message.ts";
import { sendMail, type SmtpServer } from "./smtp.ts";

type Settings = PlatformSettings<"email">;

const NAME = "email";
const PORT = 587;
const TLS_PORT = 465;
/** Of one mail: with both of its forms far below what servers take. */
const TEXT_LIMIT = 250_000;
/** Servers count connections of one sender. */
const CONCURRENCY = 4;
const LOOPBACK = /^(localhost|127(?:\.\d{1,3}){3}|::1)$/i;

/**
 * Mail over SMTP (RFC 5321), encrypted but to this machine itself: STARTTLS must come about, or TLS from the start on
 * port 465. Each mail has the text, and as HTML what its Markdown makes of it. Its Message-ID is the same for every
 * attempt; mail servers keep repeats all the same, so that a mail whose answer got lost stays unknown.
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
        const parts = renderParts(message.text, { format: "email", limit: TEXT_LIMIT, unit: "utf16" });
        const envelope = { id: delivery.id, from, message };
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
    return "No address is named: set deliver_extra.chat_id, or platforms.email.home_channel (EMAIL_HOME_ADDRESS).";
  }
  return isAddress(chat) ? undefined : "The recipient must be one plain address, such as name@example.org.";
}
