/** Decides who may open a socket, from the upgrade request alone. Pure. */
import { ServiceError } from "../../base/errors.ts";
import type { Tickets } from "../../config/tickets.ts";
import type { RpcIdentity } from "./peer.ts";

export interface AdmissionRules {
  readonly keys: {
    readonly required: boolean;
    find(presented: string): { readonly name: string; readonly scopes: readonly string[] } | undefined;
  };
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
export function admit(request: SocketRequest, rules: AdmissionRules): RpcIdentity {
  const query = new URLSearchParams(request.target.split("?")[1] ?? "");
  const ticket = query.get("ticket");
  // Every attempt uses the ticket up, so that a page that got hold of one has no second try.
  const holder = ticket === null ? undefined : rules.tickets.take(ticket);
  checkHost(request.header("host"), rules.hosts);
  checkOrigin(request, rules.origins);
  if (!rules.keys.required) return ANONYMOUS;
  if (ticket !== null) {
    if (!holder)
      throw invalidKey("This ticket is unknown, was used, or is older than 30 s. Request a new one.");
    return holder;
  }
  const presented =
    /^bearer +(\S+) *$/i.exec(request.header("authorization") ?? "")?.[1] ?? query.get("token");
  if (presented === null || presented === "") {
    const ways =
      "Send `Authorization: Bearer <key>`, or connect with ?ticket= from POST /api/auth/ws-ticket.";
    throw new ServiceError("missing_api_key", `No API key. ${ways}`);
  }
  const key = rules.keys.find(presented);
  if (!key) throw invalidKey("This API key is not valid.");
  return { owner: key.name, scopes: key.scopes };
}

function checkHost(host: string | null, hosts: readonly string[] | undefined): void {
  const name = (host ?? "").replace(/:\d+$/, "").toLowerCase();
  if (hosts === undefined || hosts.includes(name)) return;
  throw new ServiceError(
    "host_not_allowed",
    `The host name ${JSON.stringify(name.slice(0, 256))} is not allowed here. Add it to api_server.allowed_hosts.`,
  );
}

/** Checks the origin. Browsers always send one, programs do not. */
function checkOrigin(request: SocketRequest, origins: readonly string[]): void {
  const origin = request.header("origin");
  if (origin === null || origins.includes("*") || origins.includes(origin)) return;
  const host = (request.header("host") ?? "").toLowerCase();
  if (host !== "" && /^https?:/.test(origin) && URL.parse(origin)?.host === host) return;
  throw new ServiceError(
    "origin_not_allowed",
    `Pages of the origin ${JSON.stringify(origin.slice(0, 256))} may not connect. Add the origin to api_server.cors_origins.`,
  );
}

function invalidKey(message: string): ServiceError {
  return new ServiceError("invalid_api_key", message);
}
