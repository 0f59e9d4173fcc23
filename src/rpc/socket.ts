/** The gateway on a WebSocket: one JSON value a message. Touches the machine, in two ways: Node's and Deno's. */
import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import type { WebSocket as NodeSocket } from "ws";
import { toServiceError, type ServiceError } from "../base/errors.ts";
import { admit, isGatewayPath, type AdmissionRules, type SocketRequest } from "./admission.ts";
import { CLOSE, type Connection, type ConnectionWire } from "./connection.ts";
import type { RpcHub } from "./hub.ts";
import type { RpcIdentity } from "./peer.ts";

export interface SocketGateOptions {
  readonly hub: RpcHub;
  readonly rules: AdmissionRules;
  /** Only this machine reaches the listener. */
  readonly isLocal: boolean;
}

/** How often a quiet socket is asked whether it is still there; it has as long to say so. */
const PING_MS = 30_000;
/** How long the other side has to answer a close. */
const CLOSE_MS = 1_000;
const UNREADABLE = "This message is not UTF-8.";

/** Lets sockets in, on either runtime. */
export class SocketGate {
  readonly #options: SocketGateOptions;

  constructor(options: SocketGateOptions) {
    this.#options = options;
  }

  /** Takes the upgrades of a server of Node; those of other paths are refused. Resolves when it is ready to. */
  async serveNode(server: Server): Promise<void> {
    const { WebSocketServer } = await import("ws");
    const { max_frame_bytes: maxPayload } = this.#options.hub.room.settings.limits;
    const sockets = new WebSocketServer({
      noServer: true,
      maxPayload,
      perMessageDeflate: false,
      // A broken message is answered, not the end of the connection.
      skipUTF8Validation: true,
    });
    server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Uint8Array) => {
      socket.on("error", () => socket.destroy());
      const target = request.url ?? "";
      if (!isGatewayPath(target)) return refuse(socket, 404, "There is no socket at this path.");
      const from = { target, header: (name: string) => headerOf(request, name) };
      const identity = this.#admit(from);
      if ("code" in identity) return refuse(socket, identity.row.http, identity.message, identity.code);
      sockets.handleUpgrade(request, socket, head, (accepted) => {
        this.#openNode(accepted, socket, identity);
      });
    });
  }

  /** The answer to a request of Deno's server; undefined when it is none for the gateway. */
  serveDeno(request: Request): Response | undefined {
    const { pathname, search } = new URL(request.url);
    const target = pathname + search;
    if (!isGatewayPath(target) || request.headers.get("upgrade")?.toLowerCase() !== "websocket")
      return undefined;
    const identity = this.#admit({ target, header: (name) => request.headers.get(name) });
    if ("code" in identity) {
      const { status, body } = refusal(identity.row.http, identity.message, identity.code);
      return new Response(body, { status, headers: { "content-type": "application/json" } });
    }
    const { socket, response } = deno().upgradeWebSocket(request, { idleTimeout: (2 * PING_MS) / 1000 });
    this.#openDeno(socket, identity);
    return response;
  }

  #admit(request: SocketRequest): RpcIdentity | ServiceError {
    const { hub, rules } = this.#options;
    try {
      return admit(request, rules);
    } catch (thrown) {
      const error = toServiceError(thrown);
      // The target stays out of the log: its query may hold a key.
      hub.room.log.info("a socket was refused", { reason: error.code });
      return error;
    }
  }

  #openNode(socket: NodeSocket, raw: Duplex, identity: RpcIdentity): void {
    const { hub } = this.#options;
    const { clock } = hub.room;
    const connection = this.#connect(identity, {
      send: (text) => socket.send(text),
      buffered: () => socket.bufferedAmount,
      close: (code, reason) => {
        socket.close(code, reason);
        clock.after(CLOSE_MS, () => socket.terminate());
      },
    });
    let isQuiet = false;
    let cancel = clock.after(PING_MS, function look() {
      if (isQuiet) return socket.terminate();
      isQuiet = true;
      socket.ping();
      cancel = clock.after(PING_MS, look);
    });
    const heard = () => (isQuiet = false);
    socket.on("pong", heard);
    socket.on("message", (data: Uint8Array) => {
      heard();
      take(connection, data);
    });
    // What is wrong with a frame, such as its size, has closed the socket with its code already.
    socket.on("error", () => {});
    socket.on("close", () => {
      cancel();
      connection.gone();
    });
    raw.on("drain", () => connection.pump());
  }

  #openDeno(socket: WebSocket, identity: RpcIdentity): void {
    const { max_frame_bytes: maxBytes } = this.#options.hub.room.settings.limits;
    let connection: Connection | undefined;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      connection = this.#connect(identity, {
        send: (text) => {
          if (socket.readyState === socket.OPEN) socket.send(text);
        },
        buffered: () => socket.bufferedAmount,
        close: (code, reason) => socket.close(code, reason),
      });
    });
    socket.addEventListener("message", ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (!connection) return;
      const content = typeof data === "string" ? data : new Uint8Array(data);
      if (content.length > maxBytes) return connection.close(CLOSE.tooBig, "frame too large");
      if (typeof content === "string") connection.receive(content);
      else take(connection, content);
    });
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", () => connection?.gone());
  }

  #connect(identity: RpcIdentity, wire: ConnectionWire): Connection {
    const { hub, isLocal } = this.#options;
    return hub.connect({ wire, identity, transport: "ws", isLocal });
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function take(connection: Connection, bytes: Uint8Array): void {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    return connection.garbled(UNREADABLE);
  }
  connection.receive(text, bytes.length);
}

function headerOf({ headers }: IncomingMessage, name: string): string | null {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

function refusal(status: number, message: string, code: string) {
  return { status, body: JSON.stringify({ error: { message, code } }) };
}

/** Before a socket is accepted the answer is plain HTTP. */
function refuse(socket: Duplex, status: number, message: string, code = "not_found"): void {
  const { body } = refusal(status, message, code);
  const phrase = { 401: "Unauthorized", 403: "Forbidden", 404: "Not Found" }[status] ?? "Refused";
  socket.end(
    `HTTP/1.1 ${status} ${phrase}\r\nconnection: close\r\ncontent-type: application/json\r\n` +
      `content-length: ${new TextEncoder().encode(body).length}\r\n\r\n${body}`,
  );
}

interface DenoUpgrade {
  upgradeWebSocket(
    request: Request,
    options: { readonly idleTimeout: number },
  ): { readonly socket: WebSocket; readonly response: Response };
}

function deno(): DenoUpgrade {
  return (globalThis as unknown as { readonly Deno: DenoUpgrade }).Deno;
}
