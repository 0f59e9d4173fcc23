/** Recorded deliveries as new requests. */
import { REPLAY_HEADER, type Delivery } from "./deliveries.ts";
import {
  evaluate,
  type Evaluated,
  type EvaluationPorts,
  type StageName,
  type VerifiedRequest,
} from "../receive/evaluate.ts";
import type { WebhookRoute } from "../routes/route.ts";

/** Returns the recorded request without its credentials. Undefined: the body was not kept. */
export function requestOf(delivery: Delivery, route: WebhookRoute): VerifiedRequest | undefined {
  if (delivery.payload === undefined) return undefined;
  return {
    route,
    headers: new Headers(delivery.headers),
    body: new TextEncoder().encode(delivery.payload),
    requestId: delivery.deliveryId,
  };
}

/** Evaluates a request as the route is now, up to a stage. Its script runs, nothing is recorded, and nothing is a duplicate. */
export async function rehearse(
  request: VerifiedRequest,
  ports: Omit<EvaluationPorts, "findDuplicate">,
  options: { readonly upTo?: StageName } = {},
): Promise<Evaluated> {
  return evaluate(request, { ...ports, findDuplicate: async () => undefined }, options);
}

/** Headers of the connection, the signature and the delivery id: a new request needs its own. */
const OF_ONE_REQUEST =
  /^(host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|content-length|content-encoding|accept-encoding|x-forwarded-.*|forwarded|x-request-id|x-request-uuid|.*-delivery|(svix|webhook)-(id|timestamp)|x-webhook-timestamp)$/i;
const REDACTED = "[redacted]";

/** Returns the headers for a replay of a delivery; the caller adds the signature. */
export function replayHeaders({ id, headers }: Delivery): Readonly<Record<string, string>> {
  const again = Object.entries(headers).filter(
    ([name, value]) => !OF_ONE_REQUEST.test(name) && value !== REDACTED,
  );
  return { ...Object.fromEntries(again), [REPLAY_HEADER]: id };
}
