/** The gateway on a WebSocket: one JSON value per message. Touches the machine. */
import { isUtf8 } from "node:buffer";
import type { Hooks, Message, Peer } from "crossws";
import { toServiceError, type ServiceError } from "../../base/errors.ts";
import { admit, isForwarded, isGatewayPath, type AdmissionRules } from "./admission.ts";
import { CLOSE, type Connection } from "./connection.ts";
import type { RpcHub } from "../events/hub.ts";
import type { RpcIdentity } from "../deps.ts";

export interface SocketGateOptions {
  readonly hub: RpcHub;
  readonly rules: AdmissionRules;
  /** True when only this machine reaches the listener. */
  readonly isLocal: boolean;
}

/** A quiet socket is pinged this often, and has as long to answer. */
const PING_SECONDS = 30;
/** How long the other side may take to answer a close, on Node. Deno decides itself. */
const CLOSE_MS = 5_000;
/** Bytes that may be corked before they are sent. */
const CORKED_BYTES = 65_536;
const OPEN = 1;
const UNREADABLE = "This message is not UTF-8.";

/** Accepts sockets. */
export class SocketGate {
  readonly #options: SocketGateOptions;
  readonly #accepted = new WeakMap<Peer, Accepted>();

  constructor(options: SocketGateOptions) {
    this.#options = options;
  }

  /** Returns a server plugin that handles upgrades. It refuses paths that are not the gateway's. */
  async plugin() {
    const { plugin } = await import("crossws/server");
    const sockets = plugin({ ...this.#hooks(), options: this.#runtimeOptions() });
    return (server: Parameters<typeof sockets>[0]) => {
      try {
        sockets(server);
      } catch (error) {
        // A bundle for Node has no WebSockets on Deno. Everything else works.
        this.#options.hub.deps.log.error(
          "WebSockets are not available in this bundle; run agentd from source",
          { error },
        );
      }
    };
  }

  /** Guards each hook: a hook that throws would end the process. */
  #hooks(): Partial<Hooks> {
    const guarded = (peer: Peer, run: () => void) => {
      try {
        run();
      } catch (error) {
        this.#options.hub.deps.log.error("a socket hook failed", { error });
        this.#accepted.get(peer)?.connection.gone();
        peer.close(CLOSE.failed, "internal error");
      }
    };
    const accepted = (peer: Peer, run: (accepted: Accepted) => void) => {
      const found = this.#accepted.get(peer);
      if (found) guarded(peer, () => run(found));
    };
    return {
      upgrade: (request) => this.#upgrade(request),
      open: (peer) => guarded(peer, () => this.#open(peer)),
      message: (peer, message) => accepted(peer, (socket) => socket.take(message)),
      drain: (peer) => accepted(peer, ({ connection }) => connection.pump()),
      close: (peer) => accepted(peer, ({ connection }) => connection.gone()),
      // A broken frame, such as an oversize one, has already closed the socket with its code.
      error: () => {},
    };
  }

  #runtimeOptions() {
    const serverOptions = {
      maxPayload: this.#maxBytes,
      perMessageDeflate: false,
      // A message that is not UTF-8 gets an error answer and does not end the connection.
      skipUTF8Validation: true,
      closeTimeout: CLOSE_MS,
    };
    // Without a fixed namespace, an invalid Host header would throw where nothing catches it.
    const common = { idleTimeout: PING_SECONDS, getNamespace: () => "gateway" };
    return { node: { ...common, serverOptions }, deno: common };
  }

  get #maxBytes(): number {
    return this.#options.hub.deps.settings.limits.max_frame_bytes;
  }

  /** Answers the upgrade request with plain HTTP, or accepts it. */
  async #upgrade(request: Request): Promise<Response | { readonly context: PeerContext }> {
    const { url, headers } = request;
    const parsed = URL.parse(url);
    if (!parsed) return refusal(403, "The Host header of the request is invalid.", "host_not_allowed");
    const target = parsed.pathname + parsed.search;
    if (!isGatewayPath(target)) return refusal(404, "This path has no WebSocket.", "not_found");
    const { hub, rules } = this.#options;
    const upgrade = { target, header: (name: string) => headers.get(name) };
    try {
      const identity = await admit(upgrade, rules);
      // An upgrade counts as a request, so that repeated connections do not bypass the rate limit.
      hub.deps.keyLimits?.countRequest(identity.key ?? identity.owner);
      const isLocal = this.#options.isLocal && !isForwarded(upgrade);
      const stream = (request as NodeUpgrade).runtime?.node?.upgrade?.socket;
      return { context: { identity, isLocal, stream } };
    } catch (thrown) {
      const error: ServiceError = toServiceError(thrown);
      // The target is not logged: its query may hold a key.
      hub.deps.log.info("a socket was refused", { reason: error.code });
      return refusal(error.row.http, error.message, error.code, error.retryAfterSeconds);
    }
  }

  #open(peer: Peer): void {
    const { hub } = this.#options;
    const { identity, isLocal, stream } = peer.context as unknown as PeerContext;
    const coalescer = stream && new WriteCoalescer(stream);
    const socket = peer.websocket;
    socket.binaryType = "arraybuffer";
    const connection = hub.connect({
      identity,
      transport: "ws",
      isLocal,
      wire: {
        send: (text) => {
          if (socket.readyState !== OPEN) return;
          coalescer?.cork();
          peer.send(text);
          if (peer.bufferedAmount > CORKED_BYTES) coalescer?.flush();
        },
        buffered: () => peer.bufferedAmount,
        close: (code, reason) => peer.close(code, reason),
      },
    });
    this.#accepted.set(peer, new Accepted(connection, socket as Partial<MessageSource>, this.#maxBytes));
    const forget = identity.validity?.onEnd(() => {
      connection.close(CLOSE.unauthorized, "the API key is no longer valid");
    });
    if (forget) connection.signal.addEventListener("abort", forget, { once: true });
  }
}

/** What the upgrade request passes on to its socket. */
interface PeerContext extends Record<string, unknown> {
  readonly identity: RpcIdentity;
  /** True when the request came from this machine, as far as the server knows. */
  readonly isLocal: boolean;
  /** The stream below the socket, on Node. */
  readonly stream: Corkable | undefined;
}

interface NodeUpgrade extends Request {
  readonly runtime?: { readonly node?: { readonly upgrade?: { readonly socket: Corkable } } };
}

/** Node's socket also provides the raw bytes of a message. */
interface MessageSource {
  on(event: "message", listener: (data: Uint8Array | ArrayBuffer) => void): void;
}

/** An accepted socket. */
class Accepted {
  readonly connection: Connection;
  readonly #maxBytes: number;
  /** The raw bytes of the current message, where the runtime provides them. */
  #bytes: Uint8Array | undefined;

  constructor(connection: Connection, source: Partial<MessageSource>, maxBytes: number) {
    this.connection = connection;
    this.#maxBytes = maxBytes;
    source.on?.("message", (data) => {
      this.#bytes = data instanceof Uint8Array ? data : undefined;
    });
  }

  take({ rawData }: Message): void {
    const bytes = this.#bytes;
    this.#bytes = undefined;
    if (typeof rawData !== "string") return this.#takeBinary(new Uint8Array(rawData as ArrayBuffer));
    // Decoding replaces invalid bytes by this character, but a valid text may contain it, too.
    if (bytes && rawData.includes("\uFFFD") && !isUtf8(bytes)) return this.connection.garbled(UNREADABLE);
    const size = bytes?.length ?? sizeOf(rawData, this.#maxBytes);
    if (this.#isTooBig(size)) return;
    this.connection.receive(rawData, size);
  }

  #takeBinary(bytes: Uint8Array): void {
    if (this.#isTooBig(bytes.length)) return;
    if (!isUtf8(bytes)) return this.connection.garbled(UNREADABLE);
    this.connection.receive(decoder.decode(bytes), bytes.length);
  }

  /** Node rejects such a message before it is complete; Deno delivers it. */
  #isTooBig(size: number): boolean {
    if (size <= this.#maxBytes) return false;
    this.connection.close(CLOSE.tooBig, "frame too large");
    return true;
  }
}

const decoder = new TextDecoder();

/** Returns the UTF-8 size. Far below the limit it returns the number of characters. */
function sizeOf(text: string, maxBytes: number): number {
  return text.length * 3 > maxBytes ? Buffer.byteLength(text) : text.length;
}

const STATUS_TEXTS: Readonly<Record<number, string>> = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  429: "Too Many Requests",
};

function refusal(status: number, message: string, code: string, retrySeconds?: number): Response {
  const body = JSON.stringify({ error: { message, code } });
  const headers = {
    connection: "close",
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    ...(retrySeconds === undefined ? {} : { "retry-after": String(retrySeconds) }),
  };
  const statusText = STATUS_TEXTS[status] ?? "Refused";
  return new Response(body, { status, statusText, headers });
}

/** A stream that can buffer its writes, as Node's sockets can. */
export interface Corkable {
  cork(): void;
  uncork(): void;
}

/**
 * Corks the stream, so that all writes of one event-loop turn are sent by one system call. Such a call costs more
 * than everything else that a short answer takes.
 */
export class WriteCoalescer {
  readonly #stream: Corkable;
  #isCorked = false;
  readonly #release = () => {
    this.#isCorked = false;
    this.#stream.uncork();
  };

  constructor(stream: Corkable) {
    this.#stream = stream;
  }

  /** Call before each write. */
  cork(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#stream.cork();
    setImmediate(this.#release);
  }

  /** Sends the corked writes now. */
  flush(): void {
    if (this.#isCorked) this.#release();
  }
}
