/**
 * WeCom's end of the bots' connection, as "Long connection of intelligent robots" documents its frames
 * (developer.work.weixin.qq.com/document/path/101463) and WeCom's own SDK speaks them.
 */
import type { AddressInfo } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";

export const WECOM_BOT = {
  id: "bot-of-nobody",
  secret: "secret-of-no-bot-at-all",
  chat: "wrkSFfCgAAtest",
} as const;

interface Frame {
  readonly cmd?: string;
  readonly headers?: { readonly req_id?: string };
  readonly body?: Readonly<Record<string, unknown>>;
}

/** What becomes of the next message or sign-in, whatever it is. */
export type SocketFault =
  | { readonly errcode: number; readonly errmsg: string }
  /** No answer comes. */
  | "silent"
  /** The connection ends. */
  | "close"
  /** Another one takes the connection. */
  | "kick"
  /** An answer that is not JSON; then nothing. */
  | "garbage";

export interface WecomSocket {
  readonly url: string;
  /** Markdown texts that were taken, in order. */
  readonly taken: readonly string[];
  /** Frames that do not keep the protocol. */
  readonly violations: readonly string[];
  /** Sign-ins, good or bad. */
  readonly signIns: number;
  /** Messages that came, taken or not. */
  readonly messages: number;
  readonly open: number;
  nextMessage(...faults: readonly SocketFault[]): void;
  nextSignIn(...faults: readonly SocketFault[]): void;
  /** As another program with the same bot does. */
  kick(): void;
  /** Ends every connection. */
  drop(): void;
  /** Resolves once `holds` says so; it is asked whenever something has happened. */
  until(holds: () => boolean): Promise<void>;
}

interface Cleanup {
  after(run: () => Promise<void>): void;
}

const MAX_MARKDOWN_BYTES = 20_480;

export async function startWecomSocket(t: Cleanup): Promise<WecomSocket> {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  await new Promise<void>((resolve) => server.once("listening", resolve));
  const fake = new FakeSocket(server);
  t.after(async () => {
    for (const socket of server.clients) socket.terminate();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return fake;
}

class FakeSocket implements WecomSocket {
  readonly url: string;
  readonly taken: string[] = [];
  readonly violations: string[] = [];
  signIns = 0;
  messages = 0;
  readonly #messageFaults: SocketFault[] = [];
  readonly #signInFaults: SocketFault[] = [];
  /** The one that has signed in. */
  #current: WebSocket | undefined;
  readonly #server: WebSocketServer;
  #waiting: (() => void)[] = [];

  constructor(server: WebSocketServer) {
    this.#server = server;
    this.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("connection", (socket) => {
      socket.on("message", (data) => this.#read(socket, String(data)));
      socket.on("close", () => {
        if (this.#current === socket) this.#current = undefined;
        this.#tell();
      });
      this.#tell();
    });
  }

  get open(): number {
    return this.#server.clients.size;
  }

  nextMessage(...faults: readonly SocketFault[]): void {
    this.#messageFaults.push(...faults);
  }

  nextSignIn(...faults: readonly SocketFault[]): void {
    this.#signInFaults.push(...faults);
  }

  kick(): void {
    const socket = this.#current;
    this.#current = undefined;
    if (!socket) return;
    const event = { msgtype: "event", event: { eventtype: "disconnected_event" } };
    send(socket, { cmd: "aibot_event_callback", headers: { req_id: "event_1" }, body: event });
    socket.close();
  }

  drop(): void {
    for (const socket of this.#server.clients) socket.terminate();
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #tell(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  #read(socket: WebSocket, text: string): void {
    const frame = JSON.parse(text) as Frame;
    const id = frame.headers?.req_id;
    if (!id) this.violations.push(`without req_id: ${frame.cmd}`);
    if (frame.cmd === "aibot_subscribe") this.#signIn(socket, frame);
    else if (this.#current !== socket) this.violations.push(`before the sign-in: ${frame.cmd}`);
    else if (frame.cmd === "ping") send(socket, { headers: { req_id: id }, errcode: 0, errmsg: "ok" });
    else if (frame.cmd === "aibot_send_msg") this.#take(socket, frame);
    else this.violations.push(`unknown: ${frame.cmd}`);
    this.#tell();
  }

  #signIn(socket: WebSocket, { headers, body = {} }: Frame): void {
    this.signIns += 1;
    const isKnown = body["bot_id"] === WECOM_BOT.id && body["secret"] === WECOM_BOT.secret;
    const refusal = { errcode: 853000, errmsg: "invalid bot_id or secret" };
    const fault = this.#signInFaults.shift() ?? (isKnown ? undefined : refusal);
    if (fault !== undefined) return this.#misbehave(socket, headers, fault);
    this.kick();
    this.#current = socket;
    send(socket, { headers, errcode: 0, errmsg: "ok" });
  }

  #take(socket: WebSocket, { headers, body = {} }: Frame): void {
    this.messages += 1;
    const fault = this.#messageFaults.shift() ?? refusalOf(body);
    if (fault !== undefined) return this.#misbehave(socket, headers, fault);
    this.taken.push((body["markdown"] as { readonly content: string }).content);
    send(socket, { headers, errcode: 0, errmsg: "ok" });
  }

  #misbehave(socket: WebSocket, headers: Frame["headers"], fault: SocketFault): void {
    if (fault === "close") socket.terminate();
    else if (fault === "kick") this.kick();
    else if (fault === "garbage") socket.send("<!doctype html>");
    else if (fault !== "silent") send(socket, { headers, ...fault });
  }
}

function refusalOf(body: Readonly<Record<string, unknown>>): SocketFault | undefined {
  const { chatid, msgtype, markdown, ...rest } = body;
  const text = (markdown as { readonly content?: unknown } | undefined)?.content;
  if (msgtype !== "markdown") return { errcode: 40008, errmsg: "invalid message type" };
  if (typeof text !== "string" || text === "" || Object.keys(rest).length > 0) {
    return { errcode: 40058, errmsg: "invalid Request Parameter" };
  }
  if (Buffer.byteLength(text) > MAX_MARKDOWN_BYTES)
    return { errcode: 40058, errmsg: "content exceed max length 20480" };
  return chatid === WECOM_BOT.chat ? undefined : { errcode: 93006, errmsg: "invalid chatid" };
}

function send(socket: WebSocket, frame: object): void {
  socket.send(JSON.stringify(frame));
}
