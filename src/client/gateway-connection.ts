import type { GatewayEvent } from "../../generated/gateway/host.gen.ts";
import type { GatewayReadyPayload } from "../../generated/gateway/types/types.gen.ts";
import type { WireError } from "./gateway-error.ts";
import type { AskedQuestion } from "./gateway-questions.ts";
import { TransportError, type GatewayTransport, type TransportLink } from "./gateway-transport.ts";
import type { GatewayClock } from "./gateway-types.ts";

/** What comes on a connection. */
export interface ConnectionSink {
  /** `size` is the length of its frame. */
  event(event: GatewayEvent, size: number): void;
  question(question: AskedQuestion): void;
  answer(answer: Answer): void;
}

export interface Answer {
  readonly id: string;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: WireError;
}

/** A frame of the gateway, whichever. */
interface Frame {
  readonly id?: string | number | null;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: Answer["result"];
  readonly error?: WireError;
}

/** The version of the protocol that is spoken here. */
const VERSION = 1;
const READY_MS = 30_000;
const PING_MS = 15_000;
/** A socket that is silent for so long is dead, whatever it says of itself. */
const SILENCE_MS = 45_000;

/** One connection, from its first frame to its end. */
export class GatewayConnection {
  /** Resolves with the first event. */
  readonly ready: Promise<GatewayReadyPayload>;
  /** Resolves when the connection has ended. */
  readonly cut: Promise<TransportError>;
  readonly #clock: GatewayClock;
  readonly #sink: ConnectionSink;
  readonly #ready = Promise.withResolvers<GatewayReadyPayload>();
  readonly #cut = Promise.withResolvers<TransportError>();
  readonly #unwanted = new AbortController();
  #link: TransportLink | undefined;
  #cancelTimer: () => void;
  #heardMs: number;
  #isCut = false;

  constructor(transport: GatewayTransport, clock: GatewayClock, sink: ConnectionSink) {
    this.#clock = clock;
    this.#sink = sink;
    this.#heardMs = clock.now();
    this.ready = this.#ready.promise;
    this.cut = this.#cut.promise;
    this.ready.catch(() => {});
    this.#cancelTimer = clock.after(READY_MS, () => this.end("The gateway did not say that it is ready."));
    void this.#open(transport);
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  send(text: string): void {
    if (!this.#isCut) this.#link?.send(text);
  }

  /** Asks for the end; `cut` says when it has come. */
  close(): void {
    if (this.#link) this.#link.close();
    else this.end("The connection is wanted no more.");
  }

  /** Ends the connection at once, from our side. */
  end(message: string, isFinal = false): void {
    this.#over(new TransportError(message, { isFinal }));
    this.#link?.close();
  }

  async #open(transport: GatewayTransport): Promise<void> {
    const sink = {
      frame: (text: string) => this.#frame(text),
      cut: (error: TransportError) => this.#over(error),
    };
    try {
      this.#link = await transport.open(sink, this.#unwanted.signal);
      if (this.#isCut) this.#link.close();
    } catch (error) {
      this.#over(
        error instanceof TransportError ? error : new TransportError("It cannot connect.", { cause: error }),
      );
    }
  }

  #over(error: TransportError): void {
    if (this.#isCut) return;
    this.#isCut = true;
    this.#cancelTimer();
    this.#unwanted.abort();
    this.#ready.reject(error);
    this.#cut.resolve(error);
  }

  #frame(text: string): void {
    if (this.#isCut) return;
    this.#heardMs = this.#clock.now();
    let frame: Frame;
    try {
      frame = JSON.parse(text) as Frame;
    } catch {
      return this.end("The other side sent what is no JSON: it is no gateway.");
    }
    const { id, method, params } = frame;
    if (method === "event") return this.#event(params as GatewayEvent, text.length);
    if (method !== undefined) return this.#sink.question({ id, method, params } as AskedQuestion);
    // Answers to pings, and to frames that the gateway could not read, belong to nobody.
    if (typeof id === "string") this.#sink.answer(frame as Answer);
  }

  #event(event: GatewayEvent, size: number): void {
    if (event.type === "gateway.ready") {
      const { protocol, heartbeat } = event.payload;
      if (protocol.min_version > VERSION) {
        return this.end(`The gateway speaks version ${protocol.min_version}: take a newer client.`, true);
      }
      this.#cancelTimer();
      if (heartbeat) this.#beat();
      this.#ready.resolve(event.payload);
    }
    this.#sink.event(event, size);
  }

  #beat(): void {
    this.#cancelTimer = this.#clock.after(PING_MS, () => {
      if (this.#clock.now() - this.#heardMs >= SILENCE_MS) {
        return this.end("The gateway has been silent for too long.");
      }
      this.send('{"jsonrpc":"2.0","id":"ping","method":"gateway.ping"}');
      this.#beat();
    });
  }
}
