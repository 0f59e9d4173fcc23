/**
 * Sends requests to other machines, through a guard that decides which ones they may reach. Touches the machine.
 */
import ipaddr from "ipaddr.js";
import { lookup as resolveName } from "node:dns/promises";
import type { IncomingMessage } from "node:http";
import { pipeline, type Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { abortable } from "../time.ts";

export interface GuardedFetchOptions {
  /** Default GET. */
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Covers everything from the first look-up to the last byte, redirects included. */
  readonly timeoutMs: number;
  /** Limit of the decompressed body; the rest is not read. */
  readonly maxBytes: number;
  /** Redirects to follow, default and at most 5. With 0 the redirect response itself is returned. */
  readonly maxRedirects?: number;
  readonly allowedPrivateHosts: readonly string[];
  /** See {@link GuardOptions}. */
  readonly hint?: string;
  /** For tests; see {@link GuardOptions}. */
  readonly lookup?: GuardOptions["lookup"];
  readonly signal?: AbortSignal;
}

export interface GuardedResponse {
  /** The URL after redirects. */
  readonly url: string;
  readonly status: number;
  /** By lower-case name; repeated headers are joined by commas. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** True when the body is longer than `maxBytes`. */
  readonly truncated: boolean;
}

/** A request without a readable response. The message is one sentence and contains no secret. */
export class FetchFailedError extends Error {
  override readonly name = "FetchFailedError";
  readonly reason: "url" | "connection" | "timeout" | "redirect" | "body";
  /** False: no part of the request left this machine, so a retry is safe. */
  readonly isSent: boolean;
  /** Status and headers of a response whose body cannot be read. */
  readonly head: Pick<GuardedResponse, "status" | "headers"> | undefined;

  constructor(
    reason: FetchFailedError["reason"],
    message: string,
    {
      isSent = false,
      head,
      ...options
    }: ErrorOptions & Partial<Pick<FetchFailedError, "isSent" | "head">> = {},
  ) {
    super(message, options);
    this.reason = reason;
    this.isSent = isSent;
    this.head = head;
  }
}

const MAX_REDIRECTS = 5;
const MAX_ADDRESSES = 4;
/** Time for an address to accept the connection while another address is left. */
const CONNECT_MS = 3_000;
const redirects = new Set([301, 302, 303, 307, 308]);
/** Only these follow a redirect to another origin: vendors send keys in headers of many names. */
const harmlessHeaders = new Set(["accept", "accept-language", "content-type", "user-agent"]);

/**
 * Fetches over http or https from public machines, and from private ones that are allowed by name. Resolves and checks
 * each hop, and connects to the address that it checked. Ignores proxies of the environment: they would resolve the
 * name a second time. Throws BlockedAddressError, UnresolvedNameError, {@link FetchFailedError}, or the reason of
 * `signal`.
 */
export async function guardedFetch(url: string, options: GuardedFetchOptions): Promise<GuardedResponse> {
  const deadline = AbortSignal.timeout(options.timeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, deadline]) : deadline;
  const progress = { isSent: false };
  try {
    return await follow(url, options, { signal, progress });
  } catch (error) {
    options.signal?.throwIfAborted();
    if (!deadline.aborted) throw error;
    const seconds = options.timeoutMs / 1000;
    const message = `The request got no complete answer within ${seconds} s.`;
    throw new FetchFailedError("timeout", message, progress);
  }
}

interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
}

/** The progress of a request. */
interface Way {
  readonly signal: AbortSignal;
  readonly progress: { isSent: boolean };
}

async function follow(given: string, options: GuardedFetchOptions, way: Way): Promise<GuardedResponse> {
  const { signal } = way;
  const most = Math.min(options.maxRedirects ?? MAX_REDIRECTS, MAX_REDIRECTS);
  let hop: Hop = { url: toUrl(given), method: "GET", ...pick(options) };
  for (let followed = 0; ; followed += 1) {
    const addresses = await checkedAddresses(hop.url, { ...options, signal });
    const response = await connect(hop, addresses, way);
    const target = most > 0 ? locationOf(response) : undefined;
    if (target === undefined) return await read(hop, response, options.maxBytes, signal);
    response.destroy();
    if (followed >= most)
      throw new FetchFailedError(
        "redirect",
        `The address redirects more than ${most} times, the last time to ${target}.`,
      );
    hop = redirected(hop, target, response.statusCode ?? 0);
  }
}

function pick({
  method,
  headers = {},
  body,
}: GuardedFetchOptions): Omit<Hop, "url" | "method"> & Partial<Hop> {
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  return { ...(method ? { method } : {}), headers: Object.fromEntries(named), body };
}

function toUrl(given: string, base?: URL): URL {
  if (!URL.canParse(given, base?.href)) throw new FetchFailedError("url", "The address is not a valid URL.");
  const url = new URL(given, base);
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw new FetchFailedError("url", `Only http and https are fetched, not ${url.protocol}`);
  if (url.username !== "" || url.password !== "")
    throw new FetchFailedError(
      "url",
      "An address with a user name or password in it is not fetched; leave them out.",
    );
  return url;
}

function locationOf({ statusCode, headers }: IncomingMessage): string | undefined {
  return redirects.has(statusCode ?? 0) ? headers.location : undefined;
}

/** Returns the next request, as browsers implement RFC 9110, 15.4: only 307 and 308 keep the body. */
function redirected(from: Hop, target: string, status: number): Hop {
  const url = toUrl(target, from.url);
  if (from.url.protocol === "https:" && url.protocol === "http:")
    throw new FetchFailedError(
      "redirect",
      `${from.url.host} redirects from https to http (${url.host}), refused.`,
    );
  const keepsBody = status === 307 || status === 308 || from.method === "GET" || from.method === "HEAD";
  const kept = Object.entries(from.headers).filter(
    ([name]) =>
      (url.origin === from.url.origin || harmlessHeaders.has(name)) &&
      (keepsBody || !name.startsWith("content-")),
  );
  const headers = Object.fromEntries(kept);
  return keepsBody ? { ...from, url, headers } : { url, method: "GET", headers };
}

/** Tries the addresses in turn until one accepts the connection; a later failure is final. */
async function connect(hop: Hop, addresses: readonly string[], way: Way): Promise<IncomingMessage> {
  const tried = addresses.slice(0, MAX_ADDRESSES);
  for (const [index, address] of tried.entries()) {
    const attempt = { isConnected: false, isLast: index === tried.length - 1 };
    try {
      return await send(hop, address, way, attempt);
    } catch (error) {
      way.signal.throwIfAborted();
      if (attempt.isConnected || attempt.isLast) throw unreachable(hop.url, error, way.progress);
    }
  }
  throw unreachable(hop.url, undefined, way.progress);
}

async function send(
  { url, method, headers, body }: Hop,
  address: string,
  { signal, progress }: Way,
  attempt: { isConnected: boolean; readonly isLast: boolean },
): Promise<IncomingMessage> {
  const name = url.hostname.replace(/^\[|\]$/g, "");
  const isSecure = url.protocol === "https:";
  const length = body === undefined ? undefined : String(Buffer.byteLength(body));
  // Imported on demand: Node needs tens of milliseconds for it, which would slow every start.
  const { request: open } = await (isSecure ? import("node:https") : import("node:http"));
  return new Promise((resolve, reject) => {
    const request = open({
      host: address,
      port: url.port === "" ? (isSecure ? 443 : 80) : Number(url.port),
      path: `${url.pathname}${url.search}`,
      method,
      headers: {
        "accept-encoding": "gzip, deflate, br",
        ...headers,
        host: url.host,
        ...(length === undefined ? {} : { "content-length": length }),
      },
      // A connection of its own: a pool would be keyed by address and outlive the check.
      agent: false,
      signal,
      // RFC 6066: a server name is a name, never an address.
      ...(isSecure && name !== address ? { servername: name.replace(/\.$/, "") } : {}),
    });
    const tooSlow = () => request.destroy(new Error("no connection in time"));
    const timer = attempt.isLast ? undefined : setTimeout(tooSlow, CONNECT_MS);
    request.on("socket", (socket) => {
      socket.once("connect", () => {
        attempt.isConnected = true;
        clearTimeout(timer);
      });
      // A TLS connection that fails has carried nothing of the request.
      socket.once(isSecure ? "secureConnect" : "connect", () => (progress.isSent = true));
    });
    request.once("response", resolve);
    request.once("close", () => {
      clearTimeout(timer);
      // An unrequested upgrade ends the connection without an error.
      reject(new Error("the connection ended without an answer"));
    });
    request.on("error", reject);
    request.end(body);
  });
}

function unreachable(url: URL, cause: unknown, { isSent }: Way["progress"]): FetchFailedError {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const detail = code === "" ? (cause instanceof Error ? cause.message : "no answer") : code;
  return new FetchFailedError("connection", `${url.host} could not be reached (${detail.slice(0, 200)}).`, {
    cause,
    isSent,
  });
}

async function read(
  { url, method }: Hop,
  response: IncomingMessage,
  maxBytes: number,
  signal: AbortSignal,
): Promise<GuardedResponse> {
  const head = { status: response.statusCode ?? 0, headers: flatHeaders(response) };
  const chunks: Uint8Array[] = [];
  let length = 0;
  let truncated = false;
  try {
    const isEmpty = method === "HEAD" || response.statusCode === 204 || response.statusCode === 304;
    for await (const chunk of (isEmpty ? response : decodedBody(response)) as AsyncIterable<Uint8Array>) {
      truncated = length + chunk.length > maxBytes;
      chunks.push(truncated ? chunk.subarray(0, maxBytes - length) : chunk);
      length += chunk.length;
      if (truncated) break;
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof FetchFailedError) throw error;
    throw new FetchFailedError("body", `The answer of ${url.host} broke off or is damaged.`, {
      cause: error,
      isSent: true,
      head,
    });
  } finally {
    response.destroy();
  }
  return { url: url.href, ...head, body: joined(chunks), truncated };
}

/**
 * Returns the body of a response without its content encoding. Throws {@link FetchFailedError} for an encoding that is
 * unknown.
 */
export function decodedBody(response: IncomingMessage): Readable {
  const codings = (response.headers["content-encoding"] ?? "")
    .toLowerCase()
    .split(",")
    .map((coding) => coding.trim())
    .filter((coding) => coding !== "" && coding !== "identity");
  if (codings.length > 1 || (codings[0] !== undefined && !decoders.has(codings[0]))) {
    response.destroy();
    throw new FetchFailedError(
      "body",
      `The content encoding ${codings.join(", ").slice(0, 100)} of the response is not supported.`,
      { isSent: true, head: { status: response.statusCode ?? 0, headers: flatHeaders(response) } },
    );
  }
  const decoder = decoders.get(codings[0] ?? "")?.();
  // A failure of either stream appears on the decoder.
  return decoder ? pipeline(response, decoder, () => {}) : response;
}

/** The decoders apply backpressure, so a decompression bomb expands only up to the limit. */
const decoders: ReadonlyMap<string, () => ReturnType<typeof createGunzip>> = new Map([
  ["gzip", () => createGunzip()],
  ["x-gzip", () => createGunzip()],
  ["deflate", () => createInflate()],
  ["br", () => createBrotliDecompress()],
]);

/** Returns the headers by lower-case name; repeated ones are joined by commas. */
export function flatHeaders({ headers }: IncomingMessage): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value ?? ""),
    ]),
  );
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(chunks));
}

// The guard

export interface GuardOptions {
  /** Hosts (`name` or `name:port`) that are allowed although their addresses are not public. */
  readonly allowedPrivateHosts: readonly string[];
  /** A sentence for the message of a refusal: what allows a host. Absent: nothing does. */
  readonly hint?: string | undefined;
  /** Resolves a name to all of its addresses; default: the system's resolver. */
  readonly lookup?: (name: string) => Promise<readonly string[]>;
  readonly signal: AbortSignal;
}

/** The guard refuses a host; the message says which and why, and how to allow it. */
export class BlockedAddressError extends Error {
  override readonly name = "BlockedAddressError";
  readonly host: string;

  constructor(host: string, why: string, { hint }: { readonly hint?: string | undefined } = {}) {
    super([`${host} is refused: ${why}.`, ...(hint === undefined ? [] : [hint])].join(" "));
    this.host = host;
  }
}

/** A name has no addresses, or cannot be resolved. */
export class UnresolvedNameError extends Error {
  override readonly name = "UnresolvedNameError";
}

/** Metadata services give the machine's credentials to its processes; the other known addresses are private anyway. */
const metadataAddresses = new Set(["169.254.169.254", "169.254.170.2", "168.63.129.16", "fd00:ec2::254"]);
const metadataNames = new Set([
  "instance-data",
  "instance-data.ec2.internal",
  "metadata",
  "metadata.azure.internal",
  "metadata.goog",
  "metadata.google.internal",
  "metadata.packet.net",
  "metadata.tencentyun.com",
]);

/**
 * Returns the checked addresses of the host of `url`. The caller MUST connect to one of these and MUST NOT resolve the
 * name again, since its addresses may change. One address that is not public refuses the host. Throws
 * {@link BlockedAddressError} and {@link UnresolvedNameError}.
 */
export async function checkedAddresses(url: URL, options: GuardOptions): Promise<readonly string[]> {
  const host = hostOf(url);
  const objection = objectionToHost(url, options.allowedPrivateHosts);
  const { hint } = options;
  if (objection !== undefined) throw new BlockedAddressError(host, `it is ${objection}`, { hint });
  const isAllowed = isListed(url, options.allowedPrivateHosts);
  const addresses = ipaddr.isValid(host) ? [host] : await resolve(host, options);
  for (const address of addresses) {
    if (isAllowed) assertNoHiddenMetadata(host, address);
    const why = isAllowed ? undefined : objectionTo(address);
    if (why === undefined) continue;
    throw new BlockedAddressError(host, `its address ${address} is ${why}`, { hint });
  }
  return addresses;
}

/**
 * Returns why the host of `url` is refused without a look-up; undefined when a look-up must decide. For early answers
 * only: before it connects, the caller uses {@link checkedAddresses}.
 */
export function objectionToHost(url: URL, allowedPrivateHosts: readonly string[]): string | undefined {
  const host = hostOf(url);
  if (isListed(url, allowedPrivateHosts)) return undefined;
  if (host === "localhost" || host.endsWith(".localhost")) return "this machine itself";
  if (metadataNames.has(host)) return "a metadata service";
  return ipaddr.isValid(host) ? objectionTo(host) : undefined;
}

/** Returns why an address is not on the public internet; undefined when it is. */
export function objectionTo(address: string): string | undefined {
  if (!ipaddr.isValid(address)) return "not an IP address";
  const parsed = ipaddr.process(address);
  if (metadataAddresses.has(parsed.toString())) return "a metadata service";
  const range = parsed.range();
  if (parsed instanceof ipaddr.IPv4) return range === "unicast" ? undefined : (words[range] ?? "reserved");
  if (range !== "unicast" && range !== "rfc6052") return words[range] ?? "reserved";
  if (parsed.match(wellKnownNat64)) {
    const embedded = objectionTo(ipaddr.fromByteArray(parsed.toByteArray().slice(12)).toString());
    return embedded === undefined ? undefined : `NAT64 for an address that is ${embedded}`;
  }
  // RFC 4291, 2.4: global unicast is allocated from 2000::/3 only; IPv4-compatible addresses, for one, are outside.
  return parsed.match(globalUnicast) ? undefined : "reserved";
}

const wellKnownNat64 = ipaddr.IPv6.parseCIDR("64:ff9b::/96");
const globalUnicast = ipaddr.IPv6.parseCIDR("2000::/3");

/** Ranges in words. 6to4 and Teredo are obsolete and reach any IPv4 address: refused completely. */
const words: Readonly<Record<string, string>> = {
  unspecified: "unspecified, which means this machine",
  broadcast: "for broadcast",
  multicast: "for multicast",
  linkLocal: "link-local",
  loopback: "this machine itself",
  carrierGradeNat: "in the shared range of a provider",
  private: "private",
  uniqueLocal: "private",
  deprecatedSiteLocal: "private",
  "6to4": "a 6to4 tunnel",
  teredo: "a Teredo tunnel",
  rfc6145: "a translated IPv4 address",
};

/** Throws when an allowed name resolves to a metadata service: only its address, when listed, allows that. */
function assertNoHiddenMetadata(host: string, address: string): void {
  if (host === address || metadataNames.has(host) || !metadataAddresses.has(plain(address))) return;
  throw new BlockedAddressError(host, `its address ${address} is a metadata service`, {
    hint: "No setting allows it for this name.",
  });
}

function plain(address: string): string {
  return ipaddr.isValid(address) ? ipaddr.process(address).toString() : address;
}

async function resolve(host: string, { lookup, signal }: GuardOptions): Promise<readonly string[]> {
  const find = lookup ?? systemLookup;
  signal.throwIfAborted();
  try {
    // The system's resolver cannot be stopped.
    const addresses = await abortable(find(host), signal);
    if (addresses.length > 0) return addresses;
  } catch (error) {
    signal.throwIfAborted();
    throw new UnresolvedNameError(`The name ${host} could not be resolved.`, { cause: error });
  }
  throw new UnresolvedNameError(`The name ${host} has no address.`);
}

async function systemLookup(name: string): Promise<readonly string[]> {
  const found = await resolveName(name, { all: true, order: "ipv4first" });
  return found.map(({ address }) => address);
}

/** Returns the host in one spelling: URL has already normalised case, punycode and dotted quads. */
function hostOf(url: URL): string {
  const bare = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  return ipaddr.isValid(bare) ? plain(bare) : bare;
}

function isListed(url: URL, allowedHosts: readonly string[]): boolean {
  const host = hostOf(url);
  return allowedHosts.some((entry) => matches(entry, host, url));
}

function matches(entry: string, host: string, url: URL): boolean {
  const isBareIpv6 = ipaddr.IPv6.isValid(entry);
  const [, name = "", port] = isBareIpv6 ? [entry, `[${entry}]`] : (/^(.*?)(?::(\d+))?$/.exec(entry) ?? []);
  if (!URL.canParse(`http://${name}`) || hostOf(new URL(`http://${name}`)) !== host) return false;
  return port === undefined || Number(port) === portOf(url);
}

function portOf({ port, protocol }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}

// Retry-After

/** Longer delays exceed what a timer can hold. */
const MAX_MS = 86_400_000;

/**
 * Parses the header `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3). Returns milliseconds from now, at most a
 * day; undefined when it is absent or invalid.
 */
export function parseRetryAfter(text: string | undefined, nowMs: number): number | undefined {
  const value = text?.trim() ?? "";
  if (/^\d{1,15}(\.\d{1,15})?$/.test(value)) return Math.min(Number(value) * 1000, MAX_MS);
  // `Date.parse` accepts almost any text; HTTP dates end in GMT.
  const dateMs = value.endsWith(" GMT") ? Date.parse(value) : Number.NaN;
  return Number.isNaN(dateMs) ? undefined : Math.min(Math.max(0, dateMs - nowMs), MAX_MS);
}
