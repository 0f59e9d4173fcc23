import { admit } from "./admit.ts";
import { accepted, duplicate, ignored, refuse, type WebhookAnswer } from "./answer.ts";
import { deliveryIdOf, eventTypeOf } from "./event.ts";
import type { WebhookSubject } from "./field.ts";
import { passesFilters } from "./filter.ts";
import { parsePayload, type PayloadFlaw } from "./payload.ts";
import type { WebhookRoom } from "./room.ts";
import type { WebhookRoute } from "./route.ts";
import { verifySignature } from "./signature.ts";
import { defaultPrompt, renderTemplate } from "./template.ts";

/** A request, with its body read. */
export interface Arrival {
  readonly route: WebhookRoute;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** Ours, for the log and the answer. */
  readonly requestId: string;
}

/** The pipeline behind the body, a line a stage, in the order of the interface. */
export async function receive(room: WebhookRoom, arrival: Arrival): Promise<WebhookAnswer> {
  const { route, headers, body } = arrival;
  const nowMs = room.clock.now();
  if (route.secrets !== "none") {
    const { secrets, toleranceSeconds, takesBearer } = route;
    const verdict = verifySignature({ headers, body }, { secrets, toleranceSeconds, takesBearer, nowMs });
    if (verdict.status === "invalid") return refuse("invalid_signature");
  }
  const waitSeconds = room.rate.take(route.name, nowMs);
  if (waitSeconds !== undefined) return refuse("rate_limited", { retryAfterSeconds: waitSeconds });
  const parsed = parsePayload(body, headers);
  if ("flaw" in parsed) return refuse(FLAWS[parsed.flaw]);
  const subject: WebhookSubject = {
    payload: parsed.payload,
    event: eventTypeOf(headers, parsed.payload),
    headers,
  };
  if (route.events.length > 0 && !route.events.includes(subject.event)) {
    return ignored({ event: subject.event });
  }
  if (!passesFilters(route.filters, subject, portsOf(room, route))) {
    return ignored({ reason: "filter", route: route.name });
  }
  const text =
    route.prompt === undefined ? defaultPrompt(route.name, subject) : renderTemplate(route.prompt, subject);
  const deliveryId = deliveryIdOf(headers) ?? arrival.requestId;
  const admitted = await admit(room, { route, deliveryId, subject, text });
  if (!admitted) return duplicate(deliveryId);
  return accepted({ route: route.name, event: subject.event, delivery_id: deliveryId });
}

const FLAWS = {
  malformed: "unparsable_body",
  too_deep: "unparsable_body",
  type: "unsupported_type",
  encoding: "unsupported_type",
} as const satisfies Readonly<Record<PayloadFlaw, string>>;

function portsOf({ log }: WebhookRoom, { name }: WebhookRoute) {
  return {
    valuesIn: () => undefined,
    warn: (flaw: string) => log.warn("a filter cannot be used", { route: name, flaw }),
  };
}
