/** Every answer of the receiver: its status, and a flat body. Pure. */
import type {
  WebhookAccepted,
  WebhookCoalesced,
  WebhookDelivered,
  WebhookDuplicate,
  WebhookIgnored,
  WebhookRefusalCode,
} from "../../../generated/webhook/types/types.gen.ts";

export type WebhookAnswer =
  | { readonly status: 202; readonly body: WebhookAccepted | WebhookCoalesced }
  | { readonly status: 200; readonly body: WebhookDelivered | WebhookIgnored | WebhookDuplicate }
  | Refused;

export interface Refused {
  readonly status: 400 | 401 | 403 | 404 | 405 | 408 | 413 | 415 | 429 | 500 | 502 | 503;
  readonly headers?: Readonly<Record<string, string>>;
  /** For the log alone: what a stranger is not told. */
  readonly why?: string;
  readonly body: {
    readonly error: string;
    readonly code: WebhookRefusalCode;
    readonly status?: "error";
    readonly route?: string;
    readonly reason?: string;
    readonly delivery_id?: string;
  };
}

/** Texts that senders know, word for word, with their statuses. */
const REFUSALS = {
  unknown_route: [404, "Unknown route"],
  route_disabled: [403, "Route disabled"],
  no_secret: [403, "Webhook route is missing a webhook secret"],
  invalid_signature: [401, "Invalid signature"],
  rate_limited: [429, "Rate limit exceeded"],
  body_too_large: [413, "Payload too large"],
  body_timeout: [408, "The body did not arrive in time"],
  bad_request: [400, "Bad request"],
  unparsable_body: [400, "Cannot parse body"],
  unsupported_type: [415, "Send JSON, or a form, without a content encoding"],
  method_not_allowed: [405, "Method not allowed"],
  not_found: [404, "Not found"],
  script_failed: [503, "The route's script failed"],
  delivery_failed: [502, "Delivery failed"],
  draining: [503, "The receiver is shutting down"],
  store_unavailable: [503, "The receiver cannot record this now"],
  internal: [500, "Internal error"],
} as const satisfies Readonly<Record<WebhookRefusalCode, readonly [Refused["status"], string]>>;

export function refuse(
  code: WebhookRefusalCode,
  more: Omit<Refused["body"], "error" | "code"> & { readonly retryAfterSeconds?: number } = {},
): Refused {
  const [status, error] = REFUSALS[code];
  const { retryAfterSeconds, ...rest } = more;
  return {
    status,
    body: { error, code, ...rest },
    ...(retryAfterSeconds === undefined ? {} : { headers: { "retry-after": String(retryAfterSeconds) } }),
  };
}

export const accepted = (body: Omit<WebhookAccepted, "status">): WebhookAnswer => ({
  status: 202,
  body: { status: "accepted", ...body },
});

export const coalesced = (body: Omit<WebhookCoalesced, "status">): WebhookAnswer => ({
  status: 202,
  body: { status: "coalesced", ...body },
});

export const ignored = (body: Omit<WebhookIgnored, "status">): WebhookAnswer => ({
  status: 200,
  body: { status: "ignored", ...body },
});

export const duplicate = (deliveryId: string): WebhookAnswer => ({
  status: 200,
  body: { status: "duplicate", delivery_id: deliveryId },
});

export const delivered = (body: Omit<WebhookDelivered, "status">): WebhookAnswer => ({
  status: 200,
  body: { status: "delivered", ...body },
});
