import type { Clock } from "../../base/time.ts";
import {
  FetchFailedError,
  guardedFetch,
  type GuardedFetchOptions,
  BlockedAddressError,
  UnresolvedNameError,
  parseRetryAfter,
} from "../../base/net/fetch.ts";
import { isWebhookSecret, signWebhook } from "../../base/net/standard-webhook.ts";
import type { SendOutcome, Target } from "../target.ts";

export interface WebhookTargetOptions {
  readonly clock: Clock;
  /** Of agentd, for the header `user-agent`. */
  readonly version: string;
  /** Signs payloads without a secret of their own. */
  readonly secret?: string;
  /** Private hosts (`name` or `name:port`) that are allowed. */
  readonly allowedPrivateHosts: readonly string[];
  /** Default 10 s. */
  readonly timeoutMs?: number;
  /** For tests; see the guard. */
  readonly lookup?: GuardedFetchOptions["lookup"];
}

/**
 * The payload of a webhook event. A message `{ text, extra: { url } }` is also accepted and sent as `{ "text": ... }`.
 */
interface WebhookPayload {
  readonly url: string;
  /** Header `webhook-id`: the id of the event; default: the id of the message. */
  readonly id?: string;
  readonly secret?: string;
  /** The JSON text to send, exactly as it is signed. */
  readonly body: string;
}

const TIMEOUT_MS = 10_000;
/** Five attempts in just under three minutes: receivers wait for events. */
const RETRY_DELAYS_MS = [2_000, 8_000, 32_000, 128_000];
/** Most bytes of a response that are read; none are kept. */
const MAX_ANSWER_BYTES = 65_536;
const MAX_RETRY_AFTER_MS = 3_600_000;
const passing = new Set([408, 425, 429]);

/**
 * POSTs JSON, signed according to Standard Webhooks 1.0, to public addresses. Redirects are not followed: only the
 * owner of the secret decides where an event goes.
 */
export function createWebhookTarget(options: WebhookTargetOptions): Target {
  return {
    name: "webhook",
    isOrdered: false,
    // Receivers deduplicate by the header webhook-id.
    supportsIdempotency: true,
    retryDelaysMs: RETRY_DELAYS_MS,
    async send(delivery, { signal, span }) {
      const payload = toPayload(delivery.payload);
      const secret = payload?.secret ?? options.secret;
      if (!payload)
        return {
          status: "permanent",
          error: "The message has no URL. Set deliver_extra.url.",
        };
      if (secret === undefined || !isWebhookSecret(secret)) {
        return {
          status: "permanent",
          error: "No secret is configured to sign the request. Set api_server.webhook_secret.",
        };
      }
      const nowMs = options.clock.now();
      const headers = await headersOf(payload, {
        id: payload.id ?? delivery.id,
        secret,
        nowMs,
        version: options.version,
        traceparent: span.traceparent,
      });
      try {
        const answer = await guardedFetch(payload.url, {
          method: "POST",
          headers,
          body: payload.body,
          timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
          maxBytes: MAX_ANSWER_BYTES,
          maxRedirects: 0,
          allowedPrivateHosts: options.allowedPrivateHosts,
          hint: "If it is meant to be reached, add it to api_server.webhook_allowed_hosts.",
          ...(options.lookup ? { lookup: options.lookup } : {}),
          signal,
        });
        span.set({ "http.response.status_code": answer.status });
        return outcomeOf(answer.status, parseRetryAfter(answer.headers["retry-after"], nowMs));
      } catch (error) {
        return failureOf(error);
      }
    },
  };
}

interface HeaderOptions {
  readonly id: string;
  readonly secret: string;
  readonly nowMs: number;
  /** Version of agentd. */
  readonly version: string;
  readonly traceparent: string | undefined;
}

async function headersOf(
  { body }: WebhookPayload,
  { id, secret, nowMs, version, traceparent }: HeaderOptions,
): Promise<Readonly<Record<string, string>>> {
  const content = { id, timestamp: String(Math.floor(nowMs / 1000)), body };
  return {
    "content-type": "application/json",
    "user-agent": `agentd/${version}`,
    "webhook-id": content.id,
    "webhook-timestamp": content.timestamp,
    "webhook-signature": await signWebhook(content, secret),
    ...(traceparent === undefined ? {} : { traceparent }),
  };
}

function outcomeOf(status: number, askedMs: number | undefined): SendOutcome {
  if (status >= 200 && status < 300) return { status: "delivered" };
  const error = `The receiver answered ${status}.`;
  if (status === 410) return { status: "permanent", error: "The receiver is gone (410)." };
  if (status >= 300 && status < 400) {
    return { status: "permanent", error: `${error} Redirects are not followed. Set the final URL.` };
  }
  if (status < 500 && !passing.has(status)) return { status: "permanent", error };
  if (askedMs === undefined) return { status: "retry", error };
  return { status: "retry", error, afterMs: Math.min(askedMs, MAX_RETRY_AFTER_MS) };
}

function failureOf(error: unknown): SendOutcome {
  if (error instanceof BlockedAddressError) return { status: "permanent", error: error.message };
  if (error instanceof UnresolvedNameError) return { status: "retry", error: error.message };
  if (error instanceof FetchFailedError) {
    return { status: error.reason === "url" ? "permanent" : "retry", error: error.message };
  }
  throw error;
}

function toPayload(value: unknown): WebhookPayload | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { text, extra } = value as { readonly text?: unknown; readonly extra?: { readonly url?: unknown } };
  if (typeof text === "string" && typeof extra?.url === "string") {
    return { url: extra.url, body: JSON.stringify({ text }) };
  }
  const { url, body, id, secret } = value as Partial<Record<keyof WebhookPayload, unknown>>;
  if (typeof url !== "string" || typeof body !== "string") return undefined;
  return {
    url,
    body,
    ...(typeof id === "string" ? { id } : {}),
    ...(typeof secret === "string" ? { secret } : {}),
  };
}
