/** The gateway on a WebSocket: one JSON value a message, from one source on either runtime. Touches the machine. */
import { isUtf8 } from "node:buffer";
import type { Hooks, Message, Peer } from "crossws";
import { toServiceError, type ServiceError } from "../../base/errors.ts";
import { admit, isForwarded, isGatewayPath, type AdmissionRules } from "./admission.ts";
import { CLOSE, type Connection } from "./connection.ts";
import type { RpcHub } from "../events/hub.ts";
import type { RpcIdentity } from "./peer.ts";

export interface SocketGateOptions {
  readonly hub: RpcHub;
  readonly rules: AdmissionRules;
  /** Only this machine reaches the listener. */
  readonly isLocal: boolean;
}

/** How often a quiet socket is asked whether it is still there; it has as long to say so. */
const PING_SECONDS = 30;
/** How long the other side has to answer a close, on Node; Deno waits as long as it sees fit. */
const CLOSE_MS = 5_000;
/** As much may be gathered before it leaves. */
const GATHERED_BYTES = 65_536;
const OPEN = 1;
const UNREADABLE = "This message is not UTF-8.";

/** Lets sockets in. */
export class SocketGate {
  readonly #options: SocketGateOptions;
  readonly #accepted = new WeakMap<Peer, Accepted>();

  constructor(options: SocketGateOptions) {
    this.#options = options;
  }

  /** A plugin for the server, which then takes upgrades; those of paths that are not the gateway's are refused. */
  async plugin() {
    const { plugin } = await import("crossws/server");
    const sockets = plugin({ ...this.#hooks(), options: this.#runtimeOptions() });
    return (server: Parameters<typeof sockets>[0]) => {
      try {
        sockets(server);
      } catch (error) {
        // A bundle made for Node has no sockets on Deno; everything else it has.
        this.#options.hub.deps.log.error("there are no WebSockets here: run the source", { error });
      }
    };
  }

  /** A hook that threw would end the process. */
  #hooks(): Partial<Hooks> {
    const guarded = (peer: Peer, run: () => void) => {
      try {
        run();
      } catch (error) {
        this.#options.hub.deps.log.error("a socket could not be served", { error });
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
      // What is wrong with a frame, such as its size, has closed the socket with its code already.
      error: () => {},
    };
  }

  #runtimeOptions() {
    const serverOptions = {
      maxPayload: this.#maxBytes,
      perMessageDeflate: false,
      // A broken message is answered, not the end of the connection.
      skipUTF8Validation: true,
      closeTimeout: CLOSE_MS,
    };
    // Without a name for all, a request whose host is no host would throw where nobody catches.
    const common = { idleTimeout: PING_SECONDS, getNamespace: () => "gateway" };
    return { node: { ...common, serverOptions }, deno: common };
  }

  get #maxBytes(): number {
    return this.#options.hub.deps.settings.limits.max_frame_bytes;
  }

  /** Before a socket is accepted the answer is plain HTTP. */
  #upgrade(request: Request): Response | { readonly context: PeerContext } {
    const { url, headers } = request;
    const parsed = URL.parse(url);
    if (!parsed) return refusal(403, "The request names no host that can be.", "host_not_allowed");
    const target = parsed.pathname + parsed.search;
    if (!isGatewayPath(target)) return refusal(404, "There is no socket at this path.", "not_found");
    const { hub, rules } = this.#options;
    const asked = { target, header: (name: string) => headers.get(name) };
    try {
      const identity = admit(asked, rules);
      // A request like any: who connects again and again gets no more by it.
      hub.deps.keyLimits?.countRequest(identity.owner);
      const isLocal = this.#options.isLocal && !isForwarded(asked);
      const stream = (request as NodeUpgrade).runtime?.node?.upgrade?.socket;
      return { context: { identity, isLocal, stream } };
    } catch (thrown) {
      const error: ServiceError = toServiceError(thrown);
      // The target stays out of the log: its query may hold a key.
      hub.deps.log.info("a socket was refused", { reason: error.code });
      return refusal(error.row.http, error.message, error.code, error.retryAfterSeconds);
    }
  }

  #open(peer: Peer): void {
    const { hub } = this.#options;
    const { identity, isLocal, stream } = peer.context as unknown as PeerContext;
    const together = stream && new WriteCoalescer(stream);
    const socket = peer.websocket;
    socket.binaryType = "arraybuffer";
    const connection = hub.connect({
      identity,
      transport: "ws",
      isLocal,
      wire: {
        send: (text) => {
          if (socket.readyState !== OPEN) return;
          together?.gather();
          peer.send(text);
          if (peer.bufferedAmount > GATHERED_BYTES) together?.flush();
        },
        buffered: () => peer.bufferedAmount,
        close: (code, reason) => peer.close(code, reason),
      },
    });
    this.#accepted.set(peer, new Accepted(connection, socket as Partial<MessageSource>, this.#maxBytes));
  }
}

/** What the request for an upgrade leaves to the socket that comes of it. */
interface PeerContext extends Record<string, unknown> {
  readonly identity: RpcIdentity;
  /** It came from this machine, as far as can be seen. */
  readonly isLocal: boolean;
  /** Under the socket, on Node. */
  readonly stream: Corkable | undefined;
}

interface NodeUpgrade extends Request {
  readonly runtime?: { readonly node?: { readonly upgrade?: { readonly socket: Corkable } } };
}

/** The socket of Node tells of a message's bytes besides. */
interface MessageSource {
  on(event: "message", listener: (data: Uint8Array | ArrayBuffer) => void): void;
}

/** A socket that was let in. */
class Accepted {
  readonly connection: Connection;
  readonly #maxBytes: number;
  /** What the text under way was before it was decoded, where the runtime tells. */
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
    // Decoding puts this character where the bytes were broken, but it may stand in the text itself.
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

  /** Node refuses such a message before it is whole; Deno hands it over. */
  #isTooBig(size: number): boolean {
    if (size <= this.#maxBytes) return false;
    this.connection.close(CLOSE.tooBig, "frame too large");
    return true;
  }
}

const decoder = new TextDecoder();

/** Bytes of UTF-8; counted only where the limit is near, else the characters. */
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

/** A stream that can hold its writes back; Node's sockets can. */
export interface Corkable {
  cork(): void;
  uncork(): void;
}

/**
 * What is written to the stream in one turn of the event loop leaves by one call of the system. Such a call costs more
 * than all else that a short answer takes, most of it to wake the reader.
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

  /** To be called before each write. */
  gather(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#stream.cork();
    setImmediate(this.#release);
  }

  /** Lets go what was gathered: it is worth a call of its own. */
  flush(): void {
    if (this.#isCorked) this.#release();
  }
}
