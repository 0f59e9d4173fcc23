/** What the console reads from requests, and the headers of its pages. Pure. */
import type { H3Event } from "h3";
import { isLoopback } from "../../config/keys.ts";
import { isOwnOrigin } from "../../base/net/request.ts";
import { ServiceError } from "../../base/errors.ts";
import type { HeaderReader } from "../edge/access.ts";

/** A request, as far as the sign-in needs it. */
export interface BrowserRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: HeaderReader;
}

/** First parts of the paths that are pages. */
export const PAGES: readonly string[] =
  "chat sessions runs approvals webhooks schedule outbox platforms models usage logs settings keys".split(
    " ",
  );

/** Answers a request that is not for a page. */
export interface Fallback {
  requestIdOf(event: H3Event): string;
  answer(event: H3Event): Response | Promise<Response>;
}

/** Names of cookies begin with this. */
export const COOKIE_PREFIX = "agentd_";

/** The header with the half of a session that scripts of the page hold. */
export const TOKEN_HEADER = "x-agentd-console";

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** Headers of every page: it runs only its own scripts, and nothing else may embed it or learn its address. */
export const PAGE_HEADERS = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=()",
  "cache-control": "no-cache",
} as const;

/** Returns whether the browser reached this server over TLS, also through a proxy that ends it. */
export function isSecure({ url, headers }: BrowserRequest): boolean {
  const forwarded = headers.get("x-forwarded-proto")?.split(",")[0]?.trim().toLowerCase();
  return forwarded === "https" || url.startsWith("https:");
}

/** Returns whether others on the network can read what the browser sends: plain HTTP to another machine. */
export function isExposed(request: BrowserRequest): boolean {
  const host = (request.headers.get("host") ?? "").replace(/:\d+$/, "").toLowerCase();
  return !isSecure(request) && !isLoopback(host) && !host.endsWith(".localhost");
}

/** Why a sign-in over plain HTTP is refused, and what to do. */
export const EXPOSED =
  "This address uses plain HTTP, so others on the network could read your session. Put a TLS proxy in front that sets " +
  "X-Forwarded-Proto, or open a tunnel with `ssh -L 8642:127.0.0.1:8642 <host>` and use http://127.0.0.1:8642. " +
  "console.allow_plain_http allows it anyway.";

/** ServiceError `plain_http_not_allowed` when others could read the session. */
export function requirePrivate(
  request: BrowserRequest,
  { allowPlainHttp }: { allowPlainHttp: boolean },
): void {
  if (!allowPlainHttp && isExposed(request)) throw new ServiceError("plain_http_not_allowed", EXPOSED);
}

/**
 * Refuses requests of other pages: browsers send a cookie also for a page on another port of the same host. ServiceError
 * `origin_not_allowed`.
 */
export function requireOwnPage({ method, headers }: BrowserRequest): void {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  if (site === "same-origin") return;
  // Browsers send the site of a page over TLS and on this machine only.
  const isOwn = origin === null ? method === "GET" : isOwnOrigin(origin, headers.get("host"));
  if (site === null && isOwn) return;
  const what = "Only pages of the console may use its session. Open the console from this server.";
  throw new ServiceError("origin_not_allowed", what);
}

/** Returns the value of a cookie; undefined without one. */
export function cookieOf(headers: HeaderReader, name: string): string | undefined {
  for (const part of (headers.get("cookie") ?? "").split(";")) {
    const [key = "", value] = part.trim().split("=", 2);
    if (key === name) return value;
  }
  return undefined;
}

/** Returns a header that sets the cookie of a session, or deletes it with an age of 0. */
export function cookieHeader(
  name: string,
  value: string,
  { maxAgeSeconds, isTls }: { readonly maxAgeSeconds: number; readonly isTls: boolean },
): string {
  const parts = [`${name}=${value}`, "Path=/", `Max-Age=${maxAgeSeconds}`, "HttpOnly", "SameSite=Strict"];
  return [...parts, ...(isTls ? ["Secure"] : [])].join("; ");
}
