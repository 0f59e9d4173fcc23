/** How frames come and go. A transport makes one connection after the other; the client asks for the next one. */
export interface GatewayTransport {
  /**
   * Opens a connection. MUST hand each frame to `sink.frame` in order, as text without a line break, and MUST call
   * `sink.cut` once when the connection ends, whoever ended it; nothing after that. MAY reject instead, when nothing was
   * opened; with a TransportError that is not `retryable`, when trying again is of no use. `signal` aborts when the connection
   * is wanted no more before this resolves.
   */
  open(sink: TransportSink, signal: AbortSignal): Promise<TransportLink>;
}

export interface TransportSink {
  frame(text: string): void;
  cut(error: TransportError): void;
}

export interface TransportLink {
  /** One JSON value. MUST NOT throw when the connection has ended. */
  send(text: string): void;
  /** Asks for the end; `sink.cut` says when it has come. */
  close(): void;
}

/** Why a connection ended or did not come about. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  /** False: trying again is of no use, as the key is wrong or the pipe is gone. */
  readonly retryable: boolean;

  constructor(
    message: string,
    { retryable = true, cause }: { readonly retryable?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.retryable = retryable;
  }
}
