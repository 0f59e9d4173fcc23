import { createId } from "../base/ids.ts";
import type { RunDelivery } from "../agent/run-delivery.ts";
import { sha256 } from "../base/digest.ts";
import type { Tx } from "../store/store.ts";
import type { RunRow } from "../store/tables.ts";
import type { WebhookSubject } from "./field.ts";
import type { WebhookRoom } from "./room.ts";
import type { WebhookRoute } from "./route.ts";
import { renderTexts } from "./template.ts";

export interface Admission {
  readonly route: WebhookRoute;
  readonly deliveryId: string;
  readonly subject: WebhookSubject;
  /** The prompt. */
  readonly text: string;
}

/** How long a delivery id is known. */
const KNOWN_MS = 3_600_000;
/** The narrow default: whoever writes what the agent reads here is a stranger. */
const TOOLSETS = ["web", "vision", "clarify"];

/**
 * Records a delivery, that its id is taken, and its run, in one transaction. Once this resolves nothing is lost. False:
 * the same delivery was taken before.
 */
export async function admit(room: WebhookRoom, admission: Admission): Promise<boolean> {
  const { store, turns, owner, clock } = room;
  const { route, deliveryId, subject, text } = admission;
  const id = createId("dlv", clock.now());
  const delivery: RunDelivery = {
    target: route.deliver,
    extra: renderTexts(route.deliverExtra, subject) as Readonly<Record<string, unknown>>,
    ref: id,
    suppressesSilence: route.suppressesSilence,
  };
  try {
    await turns.submit({
      address: { owner, key: `webhook:${route.name}:${deliveryId}` },
      seed: { source: "webhook", title: `${route.name}: ${subject.event}`.slice(0, 100) },
      kind: "run",
      input: {
        prompt: [{ role: "user", text }],
        settings: {},
        answerable: false,
        isDetached: true,
        toolsets: route.toolsets ?? TOOLSETS,
      },
      delivery: JSON.stringify(delivery),
      alsoRecord: async (tx, run) => record(tx, { ...admission, id, run, store }),
    });
    return true;
  } catch (error) {
    if (error instanceof KnownDelivery) return false;
    throw error;
  }
}

class KnownDelivery extends Error {
  override readonly name = "KnownDelivery";
}

async function record(
  tx: Tx,
  {
    id,
    run,
    store,
    route,
    deliveryId,
    subject,
    text,
  }: Admission & { id: string; run: RunRow } & Pick<WebhookRoom, "store">,
): Promise<void> {
  const name = { scope: `webhook:${route.name}`, key: deliveryId };
  const claim = await store.ledger.claim(tx, { ...name, fingerprint: sha256(deliveryId), leaseMs: KNOWN_MS });
  if (!claim.claimed) throw new KnownDelivery();
  await store.ledger.finish(tx, name, { result: { delivery: id }, keepMs: KNOWN_MS });
  await tx.insert("deliveries", [
    {
      id,
      route: route.name,
      delivery_id: deliveryId,
      event: subject.event,
      status: "accepted",
      reason: null,
      stages: "[]",
      headers: "{}",
      payload: JSON.stringify(subject.payload),
      rendered: text,
      run_id: run.id,
      outbox_id: null,
      replay_of: null,
      created_at: tx.nowMs,
      ended_at: null,
    },
  ]);
}
