/**
 * What each HTTP request and WebSocket upgrade passes: key, host name, origin and body. On Node the body is read from the
 * native request, which is four times cheaper.
 */
import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Clock } from "../time.ts";
import { ServiceError } from "../errors.ts";

/** A key ring of any surface. */
export interface FindsKeys<Holder> {
  /**
   * Finds the key that equals `presented`. Compares in constant time. Keys of the configuration are found at once, others
   * may need the database.
   */
  find(presented: string): Holder | undefined | Promise<Holder | undefined>;
}

/** Whether a key that can be revoked is still valid. */
export interface KeyValidity {
  /**
   * Calls `end` once when the key is revoked, has expired or gets other scopes, within five seconds. The returned function
   * stops that.
   */
  onEnd(end: () => void): () => void;
}

/** Returns the key of an `Authorization` header (RFC 6750); undefined without one. */
export function bearerKey(authorization: string | null): string | undefined {
  return authorization?.match(/^bearer +(\S+) *$/i)?.[1];
}

/**
 * Returns the holder of a presented key. `hint` names the ways to send one. ServiceError `missing_api_key`,
 * `invalid_api_key`.
 */
export function requireKey<Holder>(
  keys: FindsKeys<Holder>,
  presented: string | undefined,
  { hint }: { readonly hint: string },
): Holder | Promise<Holder> {
  if (presented === undefined || presented === "")
    throw new ServiceError("missing_api_key", `No API key. ${hint}`);
  const holder = keys.find(presented);
  return holder instanceof Promise ? holder.then(requireValid) : requireValid(holder);
}

function requireValid<Holder>(holder: Holder | undefined): Holder {
  if (holder !== undefined) return holder;
  throw new ServiceError("invalid_api_key", "This API key is not valid.");
}

/**
 * Checks the host name that a request was sent to. A web page could otherwise point its own name at this address and
 * drive the agent (DNS rebinding). `allowed` undefined: any. ServiceError `host_not_allowed`.
 */
export function checkHost(allowed: readonly string[] | undefined, host: string | null): void {
  if (allowed === undefined) return;
  const name = (host ?? "").replace(/:\d+$/, "").toLowerCase();
  if (allowed.includes(name)) return;
  throw new ServiceError(
    "host_not_allowed",
    `The host name ${JSON.stringify(name.slice(0, 256))} is not allowed here. Add it to api_server.allowed_hosts.`,
  );
}

/** Returns true when a page came from this server: its origin names the host of the request. */
export function isOwnOrigin(origin: string, host: string | null): boolean {
  const page = URL.parse(origin);
  return host !== null && page !== null && page.host !== "" && page.host === host.toLowerCase();
}

/** Returns the error for a page of an origin that is not allowed. `what`: `call this server`, `connect`. */
export function originNotAllowed(origin: string, what: string): ServiceError {
  return new ServiceError(
    "origin_not_allowed",
    `Pages of the origin ${JSON.stringify(origin.slice(0, 256))} may not ${what}. Add the origin to api_server.cors_origins.`,
  );
}

export interface BodyLimits {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Names of the settings behind the limits, for error messages. */
  readonly settings: { readonly maxBytes: string; readonly timeoutMs: string };
}

/** A request as the server library passes it. */
export interface ArrivingRequest {
  readonly req: Request;
  /** Node's native request, on Node. */
  readonly runtime?: { readonly node?: { readonly req?: unknown } | undefined } | undefined;
}

/**
 * Returns the bytes of the body. ServiceError `body_too_large` before reading when the length is declared, else as soon
 * as the limit is exceeded; `request_timeout` when the client does not finish in time (Deno and Bun have no such
 * timer).
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
  reading.body.catch(() => {}); // the loser of the race must not become an unhandled rejection
  try {
    return await Promise.race([reading.body, late.promise]);
  } finally {
    cancel();
  }
}

interface Reading {
  readonly body: Promise<Uint8Array>;
  /** Stops reading, so an abandoned body keeps neither connection nor memory. */
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
 * Discards the rest of a rejected body: many clients read the response only after they have sent everything, and
 * closing the connection earlier would lose it. Bounded in bytes and time.
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
 * A body as it arrives. A client controls the size of its pieces, and a piece of one byte costs hundreds: small ones
 * are joined.
 */
class Pieces {
  readonly #merged: Uint8Array[] = [];
  #fresh: Uint8Array[] = [];
  size = 0;

  take(piece: Uint8Array): void {
    this.size += piece.byteLength;
    this.#fresh.push(piece);
    if (this.#fresh.length < MAX_FRESH) return;
    this.#merged.push(Buffer.concat(this.#fresh));
    this.#fresh = [];
  }

  whole(): Uint8Array {
    const [only, ...others] = this.#fresh;
    const isOne = only !== undefined && others.length === 0 && this.#merged.length === 0;
    return isOne ? only : Buffer.concat([...this.#merged, ...this.#fresh]);
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

/** Reading fails only when the client disconnects or breaks the protocol. */
function clientLeft(cause?: unknown): ServiceError {
  return new ServiceError("invalid_request", "The client left before the body was whole.", { cause });
}
