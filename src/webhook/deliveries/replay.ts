/** A recorded delivery once more. */
import { REPLAY_HEADER, type Delivery } from "./deliveries.ts";
import { evaluate, type VerifiedRequest, type Evaluated, type EvaluationPorts } from "../receive/evaluate.ts";
import type { WebhookRoute } from "../routes/route.ts";
import type { StageName } from "../receive/stage.ts";

/** The request as it was, without what proved who sent it. Undefined: its body was not kept. */
export function requestOf(delivery: Delivery, route: WebhookRoute): VerifiedRequest | undefined {
  if (delivery.payload === undefined) return undefined;
  return {
    route,
    headers: new Headers(delivery.headers),
    body: new TextEncoder().encode(delivery.payload),
    requestId: delivery.deliveryId,
  };
}

/**
 * What the route would make of a recorded delivery now, up to a stage; its script runs. Nothing is written, and that it
 * was taken before does not stop it.
 */
export async function rehearse(
  request: VerifiedRequest,
  ports: Omit<EvaluationPorts, "knownAs">,
  options: { readonly upTo?: StageName } = {},
): Promise<Evaluated> {
  return evaluate(request, { ...ports, knownAs: async () => undefined }, options);
}

/** Of the connection, the signature and the first delivery's name: none of it is good for another request. */
const OF_ONE_REQUEST =
  /^(host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|content-length|content-encoding|accept-encoding|x-forwarded-.*|forwarded|x-request-id|x-request-uuid|.*-delivery|(svix|webhook)-(id|timestamp)|x-webhook-timestamp)$/i;
const REDACTED = "[redacted]";

/** The headers with which a recorded delivery is posted again; the signature is the caller's. */
export function replayHeaders({ id, headers }: Delivery): Readonly<Record<string, string>> {
  const again = Object.entries(headers).filter(
    ([name, value]) => !OF_ONE_REQUEST.test(name) && value !== REDACTED,
  );
  return { ...Object.fromEntries(again), [REPLAY_HEADER]: id };
}
