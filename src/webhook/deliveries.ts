import { createId } from "../base/ids.ts";
import { redact } from "../base/redact.ts";
import type { Store, Tx } from "../store/store.ts";
import type { DeliveryRow } from "../store/tables.ts";
import type { BelievedRequest, Judged } from "./judge.ts";
import type { StageVerdict } from "./stage.ts";

export type DeliveryStatus =
  | "accepted"
  | "running"
  | "completed"
  | "failed"
  | "delivered"
  | "ignored"
  | "duplicate"
  | "refused"
  | "interrupted";

export interface DeliveryFacts {
  readonly request: BelievedRequest;
  readonly judged: Judged;
  readonly stages: readonly StageVerdict[];
}

/** Headers whose values prove who sends: the record holds only that they were there. */
const SECRET_HEADERS = /^(authorization|cookie|.*(token|signature).*|svix-.*|proxy-.*)$/i;
const MAX_PAYLOAD_CHARACTERS = 1_048_576;
const MAX_RENDERED_CHARACTERS = 100_000;

/** What the receiver took in, and what became of it. */
export class Deliveries {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Records a request that went no further. What was answered stands whether this is on disk or not. */
  async stopped(facts: DeliveryFacts): Promise<void> {
    const { stop } = facts.judged;
    const body = stop?.body as { readonly status?: string } | undefined;
    const isKept = body?.status === "ignored" || body?.status === "duplicate";
    const status = isKept ? (body.status as DeliveryStatus) : "refused";
    await this.#store.write(
      (tx) => insertDelivery(tx, { ...facts, id: createId("dlv", tx.nowMs), status, endedAtMs: tx.nowMs }),
      { durable: false },
    );
  }
}

/** Writes the row of a delivery, inside `tx`. */
export async function insertDelivery(
  tx: Tx,
  from: DeliveryFacts & {
    readonly id: string;
    readonly status: DeliveryStatus;
    readonly runId?: string;
    readonly outboxId?: string;
    readonly endedAtMs?: number;
  },
): Promise<void> {
  const { request, judged, stages, id, status } = from;
  const row: DeliveryRow = {
    id,
    route: request.route.name,
    delivery_id: judged.deliveryId,
    event: judged.subject.event,
    status,
    reason: stages.find(({ verdict }) => verdict === "stop")?.detail ?? null,
    stages: JSON.stringify(stages),
    headers: JSON.stringify(shownHeaders(request)),
    payload: textOf(request.body),
    rendered: judged.text === undefined ? null : redact(judged.text).slice(0, MAX_RENDERED_CHARACTERS),
    run_id: from.runId ?? null,
    outbox_id: from.outboxId ?? null,
    replay_of: null,
    created_at: tx.nowMs,
    ended_at: from.endedAtMs ?? null,
  };
  await tx.insert("deliveries", [row]);
}

function shownHeaders({ headers }: BelievedRequest): Readonly<Record<string, string>> {
  if (!(headers instanceof Headers)) return {};
  return Object.fromEntries(
    [...headers].map(([name, value]) => [name, SECRET_HEADERS.test(name) ? "[redacted]" : redact(value)]),
  );
}

/** Undefined for what is no text: such a body was refused, and there is nothing to repeat. */
function textOf(body: Uint8Array): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(body);
    return text.length <= MAX_PAYLOAD_CHARACTERS && !text.includes("\u0000") ? text : null;
  } catch {
    return null;
  }
}
