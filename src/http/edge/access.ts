import type { LimitedKey } from "../../agent/run/key-limits.ts";
import { ServiceError } from "../../base/errors.ts";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import type { Headers as HeaderTable } from "./answer.ts";

/** A key that was found: whose it is, and what it may do. */
export interface KeyHolder {
  readonly name: string;
  readonly scopes: readonly string[];
}

/** The keys of the configuration. */
export interface KeyRing {
  /** The key that was presented, compared in constant time. */
  find(presented: string): KeyHolder | undefined;
  /** All of them, with their limits. Absent: none is limited. */
  readonly holders?: readonly LimitedKey[];
  /** False: keys are switched off, on a loopback address only. */
  readonly required: boolean;
}

/** Who is asking. Runs and sessions belong to the name of the key that made them. */
export interface Identity extends KeyHolder {
  /** False when the server asks for no key at all. */
  readonly authenticated: boolean;
}

const ANYBODY: Identity = { name: "anonymous", scopes: ["admin"], authenticated: false };

/**
 * Bearer key -> identity with scopes (RFC 6750). ServiceError `missing_api_key` or `invalid_api_key`, and
 * `insufficient_scope` when the key may not do what the operation needs.
 */
export function authorize(keys: KeyRing, operation: OperationMeta, authorization: string | null): Identity {
  if (operation.security.length === 0 || !keys.required) return ANYBODY;
  const identity = identify(keys, authorization);
  const { scope } = operation;
  if (scope !== undefined && !identity.scopes.includes(scope) && !identity.scopes.includes("admin")) {
    throw new ServiceError(
      "insufficient_scope",
      `The key ${JSON.stringify(identity.name)} has no scope ${JSON.stringify(scope)}. Add it in api_server.keys.`,
    );
  }
  return identity;
}

function identify(keys: KeyRing, authorization: string | null): Identity {
  const presented = authorization?.match(/^bearer +(\S+) *$/i)?.[1];
  if (presented === undefined) {
    throw new ServiceError(
      "missing_api_key",
      "No API key. Send `Authorization: Bearer <key>`; `agentd config path` shows where the key is kept.",
    );
  }
  const key = keys.find(presented);
  if (!key) throw new ServiceError("invalid_api_key", "This API key is not valid.");
  return { name: key.name, scopes: key.scopes, authenticated: true };
}

/**
 * Without a key, a web page that points its own name at this address could drive the agent (DNS rebinding), so only
 * known host names are answered then. ServiceError `host_not_allowed`.
 */
export function checkHost(allowed: readonly string[] | undefined, host: string | null): void {
  if (allowed === undefined) return;
  const name = (host ?? "").replace(/:\d+$/, "").toLowerCase();
  if (allowed.includes(name)) return;
  throw new ServiceError(
    "host_not_allowed",
    `The host name ${JSON.stringify(name)} is not allowed here. Add it to api_server.allowed_hosts.`,
  );
}

/** The headers of a request, as far as this looks at them. */
export type HeaderReader = Pick<globalThis.Headers, "get">;

export interface CorsOptions {
  /** Origins of pages that may call, `*` for all; empty: CORS is off. */
  readonly origins: readonly string[];
  /** False: the server asks for no key, so the origin of a page is all that holds it back. */
  readonly requiresKey: boolean;
}

const METHODS = "GET, POST, PATCH, DELETE, OPTIONS";
const REQUEST_HEADERS =
  /^(?:authorization|content-type|idempotency-key|last-event-id|x-request-id|x-agent-[\w-]+|x-stainless-[\w-]+)$/;
const EXPOSED = [
  "X-Request-Id",
  "X-Agent-Run-Id",
  "X-Agent-Session-Id",
  "X-Agent-Session-Key",
  "X-Agent-Model",
  "Idempotency-Replayed",
  "Location",
  "Retry-After",
  "x-should-retry",
  "WWW-Authenticate",
].join(", ");
/** How long a browser may remember what it was told. */
const MAX_AGE_SECONDS = "600";

/**
 * The rule for pages of other origins. Credentials in the browser's sense (cookies) are never allowed: there are none,
 * keys travel in a header that the page sets itself.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>;
  readonly #requiresKey: boolean;

  constructor({ origins, requiresKey }: CorsOptions) {
    this.#origins = new Set(origins.map((origin) => originOf(origin) ?? origin));
    this.#requiresKey = requiresKey;
  }

  /** For every answer, errors too: a page may read the answer when it may call. Nothing while CORS is off. */
  headers(request: HeaderReader): HeaderTable {
    if (this.#origins.size === 0) return {};
    const allowed = this.#allowed(request.get("origin"));
    if (allowed === undefined) return { vary: "Origin" };
    return {
      vary: "Origin",
      "access-control-allow-origin": allowed,
      "access-control-expose-headers": EXPOSED,
    };
  }

  /**
   * Refuses the page of an origin that is not allowed: ServiceError `origin_not_allowed`. Pages of this server itself
   * are always let in. While CORS is off and a key is asked for, every origin passes: its browser withholds the answer,
   * and a page cannot send the key without leave. Without a key that would not do: a page can send, if not read.
   */
  check(request: HeaderReader): void {
    const origin = request.get("origin");
    if (origin === null || (this.#origins.size === 0 && this.#requiresKey)) return;
    if (isOwn(origin, request.get("host")) || this.#allowed(origin) !== undefined) return;
    throw new ServiceError(
      "origin_not_allowed",
      `Pages of the origin ${JSON.stringify(origin.slice(0, 256))} may not call this server. Add it to api_server.cors_origins.`,
    );
  }

  /**
   * The headers of the answer to a preflight, besides those of every answer; undefined when the request is none. It is
   * answered for any path, so that the page can read what the request itself is answered.
   */
  preflight(method: string, request: HeaderReader): HeaderTable | undefined {
    if (method !== "OPTIONS" || this.#origins.size === 0) return undefined;
    if (request.get("origin") === null || request.get("access-control-request-method") === null)
      return undefined;
    const asked = (request.get("access-control-request-headers") ?? "").toLowerCase().split(",");
    const allowed = [...new Set(asked.map((name) => name.trim()))].filter((name) =>
      REQUEST_HEADERS.test(name),
    );
    return {
      "access-control-allow-methods": METHODS,
      "access-control-allow-headers": allowed.length === 0 ? undefined : allowed.join(", "),
      "access-control-allow-private-network": this.#allowsPrivateNetwork(request) ? "true" : undefined,
      "access-control-max-age": MAX_AGE_SECONDS,
    };
  }

  /** What the page is told: its own origin when it is listed, `*` when all are. */
  #allowed(origin: string | null): string | undefined {
    if (origin === null) return undefined;
    if (this.#origins.has(origin)) return origin;
    return this.#origins.has("*") ? "*" : undefined;
  }

  /** From a public page into a private network: for origins that were named, never for "all". */
  #allowsPrivateNetwork(request: HeaderReader): boolean {
    const questions = request.get("access-control-request-private-network") === "true";
    return questions && this.#origins.has(request.get("origin") ?? "");
  }
}

/** Whether the page came from this server: its origin is the name that this request is sent to. */
function isOwn(origin: string, host: string | null): boolean {
  const page = URL.parse(origin);
  return host !== null && page !== null && page.host !== "" && page.host === host.toLowerCase();
}

/** As browsers write it: lower case, no default port, no slash at the end. */
function originOf(text: string): string | undefined {
  return text === "*" ? undefined : URL.parse(text)?.origin;
}
