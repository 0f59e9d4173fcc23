import type { LimitedKey } from "../../agent/run/run.ts";
import { ServiceError } from "../../base/errors.ts";
import {
  bearerKey,
  isOwnOrigin,
  originNotAllowed,
  requireKey,
  type FindsKeys,
  type KeyValidity,
} from "../../base/net/request.ts";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import type { Headers as HeaderTable } from "./answer.ts";

/** The name and scopes of an API key. */
export interface KeyHolder {
  readonly name: string;
  /** Whose data the key reaches. Default: the key's name. */
  readonly owner?: string;
  readonly scopes: readonly string[];
  /** Absent: the key is valid as long as the server runs. */
  readonly validity?: KeyValidity;
  /** Id of the browser's session, for a request of the console. */
  readonly consoleSession?: string;
}

/** A key of the configuration, without its value. */
export type ConfiguredKey = KeyHolder & LimitedKey;

/** The API keys. */
export interface KeyRing extends FindsKeys<KeyHolder> {
  /** The keys of the configuration, with their limits. */
  readonly holders?: readonly ConfiguredKey[];
  /** Returns the SHA-256 of the value of a configured key, in hex. */
  digestOf?(name: string): string | undefined;
  /** Finds a created key by the SHA-256 of its value, in hex. */
  findDigest?(digest: string): KeyHolder | undefined | Promise<KeyHolder | undefined>;
  /** False: keys are off, which only a loopback address allows. */
  readonly required: boolean;
}

/** Returns the keys of both. Those of the configuration are looked up first: they need no database. */
export function joinKeys(
  configured: KeyRing,
  created: Required<Pick<KeyRing, "find" | "findDigest">>,
): KeyRing {
  return {
    ...configured,
    find: (presented) => configured.find(presented) ?? created.find(presented),
    findDigest: (digest) => created.findDigest(digest),
  };
}

/** The caller: a key, and the owner whose data it reaches. */
export interface Identity extends KeyHolder {
  readonly owner: string;
  /** False when the server requires no key. */
  readonly authenticated: boolean;
  /** True: the request reads the data of all owners. */
  readonly allOwners?: true;
}

/**
 * Returns the identity that a request with `X-Agent-Owner` acts as. ServiceError `insufficient_scope` without the scope
 * admin; `invalid_request` for `*` where only one owner makes sense.
 */
export function actAs(identity: Identity, owner: string | null, operation: OperationMeta): Identity {
  if (owner === null || operation.security.length === 0) return identity;
  const param = "X-Agent-Owner";
  if (!identity.scopes.includes("admin")) {
    throw new ServiceError(
      "insufficient_scope",
      `The key ${JSON.stringify(identity.name)} requires the scope "admin" to send ${param}.`,
      { param },
    );
  }
  if (owner === "*" && readsAllOwners(operation)) return { ...identity, allOwners: true };
  if (owner !== "*" && OWNER.test(owner)) return { ...identity, owner };
  const what =
    owner === "*"
      ? `${param}: * works only with GET of runs and of the control API. Name one owner.`
      : `${param} must be the name of one owner: 1 to 64 visible characters.`;
  throw new ServiceError("invalid_request", what, { param });
}

/** Runs are lenient about unknown query parameters, unlike the rest of the control API. */
function readsAllOwners({ method, strict, tags }: OperationMeta): boolean {
  return method === "GET" && (strict === true || tags.includes("Runs"));
}

const OWNER = /^[^*\p{Cc}]{1,64}$/u;

const ANONYMOUS: Identity = {
  name: "anonymous",
  owner: "anonymous",
  scopes: ["admin"],
  authenticated: false,
};

/**
 * Returns the identity of a bearer key (RFC 6750). ServiceError `missing_api_key`, `invalid_api_key`, and
 * `insufficient_scope` when the key lacks the operation's scope.
 */
export function authorize(
  keys: KeyRing,
  operation: OperationMeta,
  authorization: string | null,
): Identity | Promise<Identity> {
  if (operation.security.length === 0 || !keys.required) return ANONYMOUS;
  const holder = requireKey(keys, bearerKey(authorization), { hint: HOW_TO_SEND });
  return holder instanceof Promise
    ? holder.then((found) => identityOf(found, operation))
    : identityOf(holder, operation);
}

/** Returns the identity of a known caller. ServiceError `insufficient_scope` when it lacks the operation's scope. */
export function identityOf(holder: KeyHolder, { scope }: OperationMeta): Identity {
  const { name, owner = name, scopes, validity, consoleSession } = holder;
  if (scope !== undefined && !scopes.includes(scope) && !scopes.includes("admin")) {
    throw new ServiceError(
      "insufficient_scope",
      `The key ${JSON.stringify(name)} has no scope ${JSON.stringify(scope)}. Add it in api_server.keys.`,
    );
  }
  return {
    name,
    owner,
    scopes,
    authenticated: true,
    ...(validity ? { validity } : {}),
    ...(consoleSession === undefined ? {} : { consoleSession }),
  };
}

/** Who made a request inside the process. */
const localCallers = new WeakMap<Request, KeyHolder>();

/** Marks a request as made inside the process by `caller`, whose key was checked when it connected. */
export function markLocal(request: Request, caller: KeyHolder): void {
  localCallers.set(request, caller);
}

/** Returns who made a request inside the process; undefined for one that came over a connection. */
export function localCallerOf(request: Request): KeyHolder | undefined {
  return localCallers.get(request);
}

const HOW_TO_SEND =
  "Send `Authorization: Bearer <key>`; `agentd config path` shows the file that holds the key.";

/** Access to the headers of a request. */
export type HeaderReader = Pick<globalThis.Headers, "get">;

export interface CorsOptions {
  /** Origins of pages that may call, `*` for all; empty: CORS is off. */
  readonly origins: readonly string[];
  /** False: the server requires no key, so only the origin check stops a foreign page. */
  readonly requiresKey: boolean;
}

const METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS";
/** Headers that pages of any origin may send: those of this API, and those that OpenAI's clients set on every call. */
const REQUEST_HEADERS =
  /^(?:authorization|content-type|idempotency-key|if-match|if-none-match|last-event-id|x-request-id|user-agent|http-referer|x-title|(?:x-agent|x-stainless|openai)-[\w-]+)$/;
/** The name of a header (RFC 9110, 5.1), within reason. */
const HEADER_NAME = /^[!#$%&'*+.^`|~\w-]{1,128}$/;
const EXPOSED = [
  "X-Request-Id",
  "X-Agent-Run-Id",
  "X-Agent-Session-Id",
  "X-Agent-Session-Key",
  "X-Agent-Model",
  "Idempotency-Replayed",
  "ETag",
  "X-Agent-Event-Cursor",
  "X-Agent-Dry-Run",
  "Location",
  "Retry-After",
  "x-should-retry",
  "WWW-Authenticate",
].join(", ");
const MAX_HEADERS = 64;
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
    if (isOwnOrigin(origin, request.get("host")) || this.#allowed(origin) !== undefined) return;
    throw originNotAllowed(origin, "call this server");
  }

  /**
   * Returns the extra headers of a preflight answer; undefined when the request is not a preflight. Any path gets
   * this answer, so that the page can read the error of the actual request.
   */
  preflight(method: string, request: HeaderReader): HeaderTable | undefined {
    if (method !== "OPTIONS" || this.#origins.size === 0) return undefined;
    if (request.get("origin") === null || request.get("access-control-request-method") === null)
      return undefined;
    const requested = (request.get("access-control-request-headers") ?? "").toLowerCase().split(",");
    // A listed page is trusted with the key, so any header of its client is, too.
    const pattern = this.#origins.has(request.get("origin") ?? "") ? HEADER_NAME : REQUEST_HEADERS;
    const names = new Set(requested.slice(0, MAX_HEADERS).map((name) => name.trim()));
    const allowed = [...names].filter((name) => pattern.test(name));
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

/** Returns the origin as browsers write it: lower case, no default port, no slash at the end. */
function originOf(text: string): string | undefined {
  return text === "*" ? undefined : URL.parse(text)?.origin;
}
