/** Every answer of the receiver, typed by the operations of specs/webhook.openapi.yaml. Pure. */
import type { OperationId, Operations } from "../../../generated/webhook/server.gen.ts";
import type {
  WebhookAccepted,
  WebhookCoalesced,
  WebhookDelivered,
  WebhookIgnored,
  WebhookRefusal,
  WebhookRefusalCode,
} from "../../../generated/webhook/types/types.gen.ts";

type Responses<K extends OperationId> = Operations[K]["response"];
type RefusalResponse = Extract<Responses<OperationId>, { readonly body: WebhookRefusal }>;
type KeyOf<T> = T extends unknown ? keyof T : never;
type RefusalHeader = KeyOf<NonNullable<RefusalResponse["headers"]>>;

/** What a handler of operation `K` may answer: the successes that the spec lists for it, and refusals. */
export type AnswerOf<K extends OperationId> =
  | Exclude<Responses<K>, { readonly body: WebhookRefusal }>
  | Refused;

export type WebhookAnswer = AnswerOf<"receiveWebhook">;

export interface Refused {
  readonly status: RefusalResponse["status"];
  readonly headers?: { readonly [Name in RefusalHeader]?: string };
  /** For the log only: the sender must not learn it. */
  readonly why?: string;
  /** The binder adds the request id. */
  readonly body: Omit<WebhookRefusal, "request_id">;
}

/** The texts, which senders compare word for word, with their statuses. */
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

/** A status that the spec lists for refusals, and that no code has, is a compile error here. */
type UnusedStatus = Exclude<Refused["status"], (typeof REFUSALS)[WebhookRefusalCode][0]>;
const refusals: [UnusedStatus] extends [never] ? typeof REFUSALS : never = REFUSALS;

/** Returns the refusal with the status and text of `code`. */
export function refuse(
  code: WebhookRefusalCode,
  more: Omit<Refused["body"], "error" | "code"> & { readonly retryAfterSeconds?: number } = {},
): Refused {
  const [status, error] = refusals[code];
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
