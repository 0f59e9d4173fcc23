import type { RunDelivery } from "../agent/run-delivery.ts";
import { createId } from "../base/ids.ts";
import type { Tx } from "../store/store.ts";
import { accepted, type WebhookAnswer } from "./answer.ts";
import { insertDelivery, type DeliveryFacts } from "./deliveries.ts";
import type { Judged } from "./judge.ts";
import { keepName, KnownDelivery, reserveName } from "./known.ts";
import type { WebhookRoom } from "./room.ts";
import { renderTexts } from "./template.ts";

export interface Admission extends DeliveryFacts {
  readonly judged: Judged & { readonly text: string };
  /** The signature itself, of a scheme that binds the time. */
  readonly once: string | undefined;
}

/** The narrow default: whoever writes what the agent reads here is a stranger. */
const TOOLSETS = ["web", "vision", "clarify"];
const MAX_TITLE_CHARACTERS = 100;

/**
 * Records a delivery, that its id is taken, and its run, in one transaction. Once this resolves nothing is lost.
 * Undefined: the same delivery was taken before.
 */
export async function admit(room: WebhookRoom, admission: Admission): Promise<WebhookAnswer | undefined> {
  const { request, judged } = admission;
  const { route } = request;
  const id = createId("dlv", room.clock.now());
  const delivery: RunDelivery = {
    target: route.deliver,
    extra: renderTexts(route.deliverExtra, judged.subject) as Readonly<Record<string, unknown>>,
    ref: id,
    suppressesSilence: route.suppressesSilence,
  };
  const alsoRecord = async (tx: Tx, run: { readonly id: string }): Promise<void> => {
    const name = { route: route.name, deliveryId: judged.deliveryId, once: admission.once };
    await reserveName(tx, room.store, name);
    await keepName(tx, room.store, name);
    await insertDelivery(tx, { ...admission, id, status: "accepted", runId: run.id });
  };
  try {
    await room.turns.submit({
      address: { owner: room.owner, key: `webhook:${route.name}:${judged.deliveryId}` },
      seed: {
        source: "webhook",
        title: `${route.name}: ${judged.subject.event}`.slice(0, MAX_TITLE_CHARACTERS),
      },
      kind: "run",
      input: {
        prompt: [{ role: "user", text: judged.text }],
        settings: {},
        answerable: false,
        isDetached: true,
        toolsets: route.toolsets ?? TOOLSETS,
      },
      delivery: JSON.stringify(delivery),
      alsoRecord,
    });
  } catch (error) {
    if (error instanceof KnownDelivery) return undefined;
    throw error;
  }
  return accepted({ route: route.name, event: judged.subject.event, delivery_id: judged.deliveryId });
}
