/** Reads request bodies; touches Node's own request where there is one, because that is four times cheaper there. */
import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Clock } from "../clock.ts";
import { ServiceError } from "../errors.ts";

export interface BodyLimits {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** The settings behind the limits, for the messages of errors. */
  readonly settings: { readonly maxBytes: string; readonly timeoutMs: string };
}

/** A request as the server library hands it over. */
export interface ArrivingRequest {
  readonly req: Request;
  /** Node's own request, where Node serves. */
  readonly runtime?: { readonly node?: { readonly req?: unknown } | undefined } | undefined;
}

/**
 * The bytes of the body. ServiceError `body_too_large` before reading when the length is declared, else as soon as the
 * limit is passed; `request_timeout` when the client does not finish in time (Deno and Bun have no such timer).
 */
export async function readBody(event: ArrivingRequest, limits: BodyLimits): Promise<Uint8Array> {
  const declared = event.req.headers.get("content-length");
  const incoming = event.runtime?.node?.req as IncomingMessage | undefined;
  if (declared !== null && !(Number(declared) <= limits.maxBytes)) {
    if (incoming) discard(incoming, limits);
    throw tooLarge(limits);
  }
  const late = Promise.withResolvers<never>();
  const reading = incoming ? readIncoming(incoming, limits) : readStream(event.req.body, limits);
  const cancel = limits.clock.after(limits.timeoutMs, () => {
    late.reject(tooSlow(limits));
    reading.stop();
  });
  reading.body.catch(() => {}); // the loser of the race below must not count as unhandled
  try {
    return await Promise.race([reading.body, late.promise]);
  } finally {
    cancel();
  }
}

interface Reading {
  readonly body: Promise<Uint8Array>;
  /** Takes no more of it; a body that nobody reads any more keeps no connection and no memory. */
  stop(): void;
}

function readIncoming(request: IncomingMessage, limits: BodyLimits): Reading {
  let stop = () => {};
  const body = new Promise<Uint8Array>((resolve, reject) => {
    const pieces = new Pieces();
    const settle = (act: () => void) => {
      request.off("data", onData).off("end", onEnd).off("error", onError).off("close", onClose);
      act();
    };
    const onData = (chunk: Buffer) => {
      pieces.take(chunk);
      if (pieces.size <= limits.maxBytes) return;
      settle(() => {
        discard(request, limits);
        reject(tooLarge(limits));
      });
    };
    const onEnd = () => settle(() => resolve(pieces.whole()));
    const onError = (cause: Error) => settle(() => reject(clientLeft(cause)));
    const onClose = () => settle(() => reject(clientLeft()));
    request.on("data", onData).on("end", onEnd).on("error", onError).on("close", onClose);
    stop = () => settle(() => request.pause().on("error", () => {}));
  });
  return { body, stop };
}

/**
 * Lets a client send the rest of a body that is refused already, unread: many look for the answer only when they have
 * sent all, and a connection that is closed before that takes the answer away from them. Not for ever, though.
 */
function discard(request: IncomingMessage, { maxBytes, timeoutMs, clock }: BodyLimits): void {
  let left = Math.max(DISCARD_BYTES, 4 * maxBytes);
  const giveUp = () => request.socket.destroy();
  const cancel = clock.after(timeoutMs, giveUp);
  request.on("data", (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) giveUp();
  });
  request.once("end", cancel).once("close", cancel).on("error", cancel);
}

const DISCARD_BYTES = 16 * 1_048_576;

function readStream(stream: ReadableStream<Uint8Array> | null, limits: BodyLimits): Reading {
  const reader = stream?.getReader();
  return {
    body: reader ? readAll(reader, limits) : Promise.resolve(new Uint8Array()),
    stop: () => void reader?.cancel().catch(() => {}),
  };
}

async function readAll(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  limits: BodyLimits,
): Promise<Uint8Array> {
  const pieces = new Pieces();
  for (;;) {
    const { done, value } = await reader.read().catch((cause: unknown) => {
      throw clientLeft(cause);
    });
    if (done) return pieces.whole();
    pieces.take(value);
    if (pieces.size > limits.maxBytes) {
      reader.cancel().catch(() => {});
      throw tooLarge(limits);
    }
  }
}

/**
 * A body as it arrives. A client chooses how small its pieces are, and one of a single byte costs hundreds: so many of
 * them are kept as one.
 */
class Pieces {
  readonly #folded: Uint8Array[] = [];
  #fresh: Uint8Array[] = [];
  size = 0;

  take(piece: Uint8Array): void {
    this.size += piece.byteLength;
    this.#fresh.push(piece);
    if (this.#fresh.length < MAX_FRESH) return;
    this.#folded.push(Buffer.concat(this.#fresh));
    this.#fresh = [];
  }

  whole(): Uint8Array {
    const [only, ...others] = this.#fresh;
    const isOne = only !== undefined && others.length === 0 && this.#folded.length === 0;
    return isOne ? only : Buffer.concat([...this.#folded, ...this.#fresh]);
  }
}

const MAX_FRESH = 256;

function tooLarge({ maxBytes, settings }: BodyLimits): ServiceError {
  return new ServiceError(
    "body_too_large",
    `The body must be at most ${maxBytes} bytes (${settings.maxBytes}).`,
  );
}

function tooSlow({ timeoutMs, settings }: BodyLimits): ServiceError {
  return new ServiceError(
    "request_timeout",
    `The body did not arrive within ${timeoutMs / 1000} seconds (${settings.timeoutMs}).`,
  );
}

/** Nothing but the client's leaving, or its breaking the protocol, makes reading fail. */
function clientLeft(cause?: unknown): ServiceError {
  return new ServiceError("invalid_request", "The client left before the body was whole.", { cause });
}
