import type { LimitedKey } from "../../agent/run/concurrency.ts";
import { ServiceError } from "../../base/errors.ts";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import type { Headers as HeaderTable } from "./answer.ts";

/** The name and scopes of an API key. */
export interface KeyHolder {
  readonly name: string;
  readonly scopes: readonly string[];
}

/** The configured API keys. */
export interface KeyRing {
  /** Finds the key that equals `presented`. Compares in constant time. */
  find(presented: string): KeyHolder | undefined;
  /** All keys with their limits. Absent: keys have no limits. */
  readonly holders?: readonly LimitedKey[];
  /** False: keys are off, which only a loopback address allows. */
  readonly required: boolean;
}

/** The caller. Runs and sessions belong to the key's name. */
export interface Identity extends KeyHolder {
  /** False when the server requires no key. */
  readonly authenticated: boolean;
}

const ANONYMOUS: Identity = { name: "anonymous", scopes: ["admin"], authenticated: false };

/**
 * Returns the identity of a bearer key (RFC 6750). ServiceError `missing_api_key`, `invalid_api_key`, and
 * `insufficient_scope` when the key lacks the operation's scope.
 */
export function authorize(keys: KeyRing, operation: OperationMeta, authorization: string | null): Identity {
  if (operation.security.length === 0 || !keys.required) return ANONYMOUS;
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
      "No API key. Send `Authorization: Bearer <key>`; `agentd config path` shows the file that holds the key.",
    );
  }
  const key = keys.find(presented);
  if (!key) throw new ServiceError("invalid_api_key", "This API key is not valid.");
  return { name: key.name, scopes: key.scopes, authenticated: true };
}

/**
 * Checks the host name of a request while keys are off. A web page could otherwise point its own name at this
 * address and drive the agent (DNS rebinding). ServiceError `host_not_allowed`.
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

/** Access to the headers of a request. */
export type HeaderReader = Pick<globalThis.Headers, "get">;

export interface CorsOptions {
  /** Origins of pages that may call, `*` for all; empty: CORS is off. */
  readonly origins: readonly string[];
  /** False: the server requires no key, so only the origin check stops a foreign page. */
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
/** How long a browser may cache a preflight answer. */
const MAX_AGE_SECONDS = "600";

/**
 * Decides about pages of other origins. It never allows credentials in the browser's sense (cookies): keys travel
 * in a header that the page sets itself.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>;
  readonly #requiresKey: boolean;

  constructor({ origins, requiresKey }: CorsOptions) {
    this.#origins = new Set(origins.map((origin) => originOf(origin) ?? origin));
    this.#requiresKey = requiresKey;
  }

  /** Returns the CORS headers of an answer. Error answers carry them, too, so that the page can read the error. */
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
   * Rejects pages of origins that are not allowed: ServiceError `origin_not_allowed`. Pages of this server always
   * pass. While CORS is off and keys are required, every origin passes: the browser hides the answer, and its page
   * cannot send the key. Without keys this check is needed, because a page can send a request that it cannot read.
   */
  check(request: HeaderReader): void {
    const origin = request.get("origin");
    if (origin === null || (this.#origins.size === 0 && this.#requiresKey)) return;
    if (isOwn(origin, request.get("host")) || this.#allowed(origin) !== undefined) return;
    throw new ServiceError(
      "origin_not_allowed",
      `Pages of the origin ${JSON.stringify(origin.slice(0, 256))} may not call this server. Add the origin to api_server.cors_origins.`,
    );
  }

  /**
   * Returns the extra headers of a preflight answer; undefined when the request is no preflight. Any path gets
   * this answer, so that the page can read the error of the actual request.
   */
  preflight(method: string, request: HeaderReader): HeaderTable | undefined {
    if (method !== "OPTIONS" || this.#origins.size === 0) return undefined;
    if (request.get("origin") === null || request.get("access-control-request-method") === null)
      return undefined;
    const requested = (request.get("access-control-request-headers") ?? "").toLowerCase().split(",");
    const allowed = [...new Set(requested.map((name) => name.trim()))].filter((name) =>
      REQUEST_HEADERS.test(name),
    );
    return {
      "access-control-allow-methods": METHODS,
      "access-control-allow-headers": allowed.length === 0 ? undefined : allowed.join(", "),
      "access-control-allow-private-network": this.#allowsPrivateNetwork(request) ? "true" : undefined,
      "access-control-max-age": MAX_AGE_SECONDS,
    };
  }

  /** Returns the page's origin when it is listed, and `*` when all are allowed. */
  #allowed(origin: string | null): string | undefined {
    if (origin === null) return undefined;
    if (this.#origins.has(origin)) return origin;
    return this.#origins.has("*") ? "*" : undefined;
  }

  /** Allows a public page to reach a private network only if its origin is listed, never by `*`. */
  #allowsPrivateNetwork(request: HeaderReader): boolean {
    const isRequested = request.get("access-control-request-private-network") === "true";
    return isRequested && this.#origins.has(request.get("origin") ?? "");
  }
}

/** Returns true when the page came from this server: its origin names the host of this request. */
function isOwn(origin: string, host: string | null): boolean {
  const page = URL.parse(origin);
  return host !== null && page !== null && page.host !== "" && page.host === host.toLowerCase();
}

/** Returns the origin as browsers write it: lower case, no default port, no slash at the end. */
function originOf(text: string): string | undefined {
  return text === "*" ? undefined : URL.parse(text)?.origin;
}
