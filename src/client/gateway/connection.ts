import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { GatewayReadyPayload } from "../../../generated/gateway/types/types.gen.ts";
import type { Answer } from "./calls.ts";
import type { ReceivedQuestion } from "./questions.ts";
import { TransportError, type GatewayTransport, type TransportLink } from "./transport.ts";
import type { GatewayClock } from "./types.ts";

/** Receives the frames of a connection. */
interface ConnectionSink {
  /** `size` is the length of its frame. */
  event(event: GatewayEvent, size: number): void;
  question(question: ReceivedQuestion): void;
  answer(answer: Answer): void;
}

/** Any frame of the gateway. */
interface Frame extends Partial<Answer> {
  readonly method?: string;
  readonly params?: unknown;
}

/** The protocol version of this client. */
export const VERSION = 1;
const READY_MS = 30_000;
const PING_MS = 15_000;
/** A socket without a frame for this long is dead, whatever its state. */
const SILENCE_MS = 45_000;

/** One connection to the gateway. */
export class GatewayConnection {
  readonly #clock: GatewayClock;
  readonly #sink: ConnectionSink;
  /** Resolves with the first event; rejects when the connection ends earlier. */
  readonly ready = Promise.withResolvers<GatewayReadyPayload>();
  /** Resolves to the reason when the connection has ended. */
  readonly cut = Promise.withResolvers<Error>();
  readonly #end = new AbortController();
  readonly #opened: Promise<void>;
  #link: TransportLink | undefined;
  #cancelTimer: () => void;
  #heardMs = 0;

  constructor(transport: GatewayTransport, clock: GatewayClock, sink: ConnectionSink) {
    this.#clock = clock;
    this.#sink = sink;
    this.#cancelTimer = clock.after(READY_MS, () => this.end("The gateway is not ready."));
    this.#opened = this.#open(transport);
  }

  get isCut(): boolean {
    return this.#end.signal.aborted;
  }

  send(text: string): void {
    if (!this.isCut) this.#link?.send(text);
  }

  /** Closes the connection; `cut` resolves when it has ended. */
  close(): void {
    if (this.#link) this.#link.close();
    else this.end("closed");
  }

  /** Ends the connection at once. */
  end(message: string, retryable = true): void {
    this.#over(new TransportError(message, { retryable }));
    this.#link?.close();
  }

  async #open(transport: GatewayTransport): Promise<void> {
    const frame = (text: string) => {
      if (this.isCut) return;
      try {
        this.#frame(text);
      } catch {
        this.end("Invalid frame.");
      }
    };
    const cut = (error: Error) => this.#over(error);
    try {
      this.#link = await transport.open({ frame, cut }, this.#end.signal);
      if (this.isCut) this.#link.close();
    } catch (error) {
      cut(error as Error);
    }
  }

  #over(error: Error): void {
    this.#cancelTimer();
    this.#end.abort();
    this.ready.reject(error);
    this.cut.resolve(error);
  }

  #frame(text: string): void {
    this.#heardMs = this.#clock.now();
    const frame = JSON.parse(text) as Frame;
    const { id, method, params } = frame;
    if (method === "event") this.#event(params as GatewayEvent, text.length);
    else if (method) this.#sink.question(frame as ReceivedQuestion);
    // Responses to frames that the gateway could not parse have no id.
    else if (id) this.#sink.answer(frame as Answer);
  }

  #event(event: GatewayEvent, size: number): void {
    if (event.type === "gateway.ready") {
      const { protocol, heartbeat } = event.payload;
      if (protocol.min_version > VERSION) return this.end("The gateway needs a newer client.", false);
      this.#cancelTimer();
      if (heartbeat) this.#beat();
      // Frames may arrive before the transport has returned its link.
      void this.#opened.then(() => this.ready.resolve(event.payload));
    }
    this.#sink.event(event, size);
  }

  #beat(): void {
    this.#cancelTimer = this.#clock.after(PING_MS, () => {
      if (this.#clock.now() - this.#heardMs >= SILENCE_MS) return this.end("The gateway is silent.");
      this.send('{"jsonrpc":"2.0","id":"ping","method":"gateway.ping"}');
      this.#beat();
    });
  }
}
