/** Mail servers on loopback: a real one (smtp-server), and one that says what the test says (RFC 5321). */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";

export const USER = "agent@example.org";
export const PASSWORD = "example-mail-password";

interface Cleanup {
  after(run: () => Promise<void> | void): void;
}

export interface Certificate {
  readonly caFile: string;
  readonly key: string;
  readonly cert: string;
}

/** Signed by itself, for 127.0.0.1 and localhost, or for another name. */
export function makeCertificate(t: Cleanup, name = "IP:127.0.0.1,DNS:localhost"): Certificate {
  const folder = mkdtempSync(join(tmpdir(), "agentd-smtp-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const key = join(folder, "key.pem");
  const caFile = join(folder, "cert.pem");
  const kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const subject = ["-subj", "/CN=mail", "-addext", `subjectAltName=${name}`];
  execFileSync("openssl", ["req", ...kind, ...subject, "-keyout", key, "-out", caFile], { stdio: "ignore" });
  return { caFile, key: readFileSync(key, "utf8"), cert: readFileSync(caFile, "utf8") };
}

export interface Received {
  readonly from: string;
  readonly to: readonly string[];
  readonly isEncrypted: boolean;
  readonly user: string | undefined;
  /** As it came, dots unstuffed. */
  readonly raw: string;
}

export interface SmtpFake {
  readonly port: number;
  readonly mails: readonly Received[];
}

/** Wants TLS and a login, as providers do, unless `options` say otherwise. */
export async function startSmtp(t: Cleanup, options: SMTPServerOptions): Promise<SmtpFake> {
  const mails: Received[] = [];
  const server = new SMTPServer({
    disableReverseLookup: true,
    closeTimeout: 100,
    logger: false,
    onAuth({ username, password }, _session, done) {
      const isRight = username === USER && password === PASSWORD;
      if (isRight) return done(null, { user: username });
      done(Object.assign(new Error("5.7.8 Authentication failed"), { responseCode: 535 }));
    },
    onData(stream, { envelope, secure, user }, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (bytes: Buffer) => chunks.push(bytes));
      stream.on("end", () => {
        mails.push({
          from: envelope.mailFrom ? envelope.mailFrom.address : "",
          to: envelope.rcptTo.map(({ address }) => address),
          isEncrypted: secure,
          user,
          raw: Buffer.concat(chunks).toString(),
        });
        done(null, "queued");
      });
    },
    ...options,
  });
  server.on("error", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return { port: (server.server.address() as AddressInfo).port, mails };
}

/** What the server does when a line comes; the first one is empty, at the connection. */
export type Say = (line: string, socket: Socket) => string | undefined;

/** A server without TLS that answers each line, and the end of a text (`.`), as the test says. */
export async function startScripted(
  t: Cleanup,
  say: Say,
): Promise<{ readonly port: number; readonly lines: string[] }> {
  const lines: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    let rest = "";
    let isText = false;
    const answer = (line: string) => {
      const said = say(line, socket);
      if (said !== undefined && !socket.destroyed) socket.write(said);
      return said;
    };
    answer("");
    socket.on("data", (bytes) => {
      const all = (rest + bytes.toString()).split("\r\n");
      rest = all.pop() ?? "";
      for (const line of all) {
        lines.push(line);
        if (isText && line !== ".") continue;
        isText = answer(line)?.startsWith("354") === true;
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port: (server.address() as AddressInfo).port, lines };
}

/** What a server says that takes everything. */
export function agree(line: string): string {
  if (line === "") return "220 mail.example ESMTP\r\n";
  if (line === "DATA") return "354 go on\r\n";
  return "250 fine\r\n";
}

export interface ReadMail {
  /** By lower-case name, unfolded. */
  readonly headers: ReadonlyMap<string, string>;
  /** The parts by their type, decoded; one that is not multipart by its own. */
  readonly parts: ReadonlyMap<string, string>;
}

/** RFC 2045 to 2047, as far as mails of ours go. */
export function readMail(raw: string): ReadMail {
  const { headers, body } = split(raw);
  const type = headers.get("content-type") ?? "text/plain";
  const boundary = /boundary="?([^";]+)"?/.exec(type)?.[1];
  const pieces = boundary === undefined ? [raw] : body.split(`--${boundary}`).slice(1, -1);
  const parts = pieces.map((piece): [string, string] => {
    const part = split(piece.replace(/^\r\n/, ""));
    const kind = /^[^;]+/.exec(part.headers.get("content-type") ?? "")?.[0] ?? "";
    return [
      kind,
      decode(part.body, part.headers.get("content-transfer-encoding")).replaceAll("\r\n", "\n").trimEnd(),
    ];
  });
  return { headers, parts: new Map(parts) };
}

function split(raw: string) {
  const at = raw.indexOf("\r\n\r\n");
  const lines = raw
    .slice(0, at)
    .replace(/\r\n[ \t]+/g, " ")
    .split("\r\n");
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), words(line.slice(colon + 1).trim())];
  });
  return { headers: new Map(headers), body: raw.slice(at + 4) };
}

function words(text: string): string {
  return text
    .replace(/\?=\s+=\?/g, "?==?")
    .replace(/=\?utf-8\?([bq])\?([^?]*)\?=/gi, (_, kind: string, data: string) =>
      kind.toLowerCase() === "b"
        ? decode(data, "base64")
        : decode(data.replaceAll("_", " "), "quoted-printable"),
    );
}

function decode(text: string, encoding = "7bit"): string {
  if (encoding === "base64") return Buffer.from(text, "base64").toString();
  if (encoding !== "quoted-printable") return text;
  const bytes = text
    .replace(/=\r\n/g, "")
    .replace(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, "latin1").toString();
}
