/** Decides who may open a socket, from the upgrade request alone. Pure. */
import { ServiceError } from "../../base/errors.ts";
import {
  bearerKey,
  checkHost,
  isOwnOrigin,
  originNotAllowed,
  requireKey,
  type FindsKeys,
  type KeyValidity,
} from "../../base/net/request.ts";
import type { Tickets } from "../../config/keys.ts";
import type { RpcIdentity } from "../deps.ts";

/** A key. Without an owner, what it creates belongs to its name. */
interface Holder {
  readonly name: string;
  readonly owner?: string;
  readonly scopes: readonly string[];
  /** Absent: the key is valid as long as the server runs. */
  readonly validity?: KeyValidity;
}

export interface AdmissionRules {
  readonly keys: FindsKeys<Holder> & { readonly required: boolean };
  readonly tickets: Tickets<RpcIdentity>;
  /** Host names of this server; undefined: any, because it listens on every address. */
  readonly hosts: readonly string[] | undefined;
  /** Origins of web pages that may connect, besides the server's own; `*`: all. */
  readonly origins: readonly string[];
}

/** An upgrade request, as both runtimes provide it. */
export interface SocketRequest {
  /** Path and query. */
  readonly target: string;
  header(name: string): string | null;
}

/** The identity of every client while keys are off. */
const ANONYMOUS: RpcIdentity = { owner: "anonymous", scopes: ["admin"] };

/** Returns true for the paths of the gateway. */
export function isGatewayPath(target: string): boolean {
  return /^\/(?:api\/ws|v1\/tui\/ws)(?:\?|$)/.test(target);
}

/** Returns true when a proxy forwarded the request. Its sender may then be anywhere. */
export function isForwarded(request: SocketRequest): boolean {
  return FORWARDING.some((name) => request.header(name) !== null);
}

const FORWARDING = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/**
 * Returns the identity of an upgrade request. ServiceError `host_not_allowed` (DNS rebinding),
 * `origin_not_allowed`, `missing_api_key` or `invalid_api_key`.
 */
export function admit(request: SocketRequest, rules: AdmissionRules): RpcIdentity | Promise<RpcIdentity> {
  const query = new URLSearchParams(request.target.split("?")[1] ?? "");
  const ticket = query.get("ticket");
  // Every attempt uses up the ticket, so that a page that stole one gets no second try.
  const holder = ticket === null ? undefined : rules.tickets.take(ticket);
  checkHost(rules.hosts, request.header("host"));
  checkOrigin(request, rules.origins);
  if (!rules.keys.required) return ANONYMOUS;
  if (ticket !== null) {
    if (!holder)
      throw new ServiceError(
        "invalid_api_key",
        "This ticket is unknown, was used, or is older than 30 s. Request a new one.",
      );
    return holder;
  }
  const presented = bearerKey(request.header("authorization")) ?? query.get("token") ?? undefined;
  const found = requireKey(rules.keys, presented, { hint: HOW_TO_SEND });
  return found instanceof Promise ? found.then(toIdentity) : toIdentity(found);
}

function toIdentity({ name, owner = name, scopes, validity }: Holder): RpcIdentity {
  return { owner, key: name, scopes, ...(validity ? { validity } : {}) };
}

const HOW_TO_SEND =
  "Send `Authorization: Bearer <key>`, or connect with ?ticket= from POST /api/auth/ws-ticket.";

/** Checks the origin. Browsers always send one, programs do not. */
function checkOrigin(request: SocketRequest, origins: readonly string[]): void {
  const origin = request.header("origin");
  if (origin === null || origins.includes("*") || origins.includes(origin)) return;
  if (/^https?:/.test(origin) && isOwnOrigin(origin, request.header("host"))) return;
  throw originNotAllowed(origin, "connect");
}
