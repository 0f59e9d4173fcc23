import { createId } from "../../base/ids.ts";
import { silentLog, type Log } from "../../base/observe/log.ts";
import { redact } from "../../base/observe/redact.ts";
import {
  findNewestDelivery,
  listDeliveries,
  type DeliveryFilter as RowFilter,
  type DeliverySummaryRow,
} from "../queries.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { DeliveryBodyRow, DeliveryRow } from "../../store/schema/tables.ts";
import type { VerifiedRequest, Evaluated, StageResult } from "../receive/evaluate.ts";

export const DELIVERY_STATUSES = [
  "accepted",
  "running",
  "completed",
  "failed",
  "delivered",
  "unknown",
  "ignored",
  "duplicate",
  "refused",
  "interrupted",
] as const;

export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** A request with the results of all stages that it passed. */
export interface EvaluatedRequest {
  readonly request: VerifiedRequest;
  readonly evaluated: Evaluated;
  readonly stages: readonly StageResult[];
}

/** A delivery without its content. Times in milliseconds since the epoch. */
export interface DeliverySummary {
  readonly id: string;
  readonly route: string;
  /** The sender's id, or the request id when it gives none. */
  readonly deliveryId: string;
  readonly event: string;
  readonly status: DeliveryStatus;
  /** Why a stage stopped it, or how it failed. */
  readonly reason?: string;
  readonly runId?: string;
  readonly outboxId?: string;
  /** The delivery that this one replays. */
  readonly replayOf?: string;
  readonly createdAtMs: number;
  /** Absent while it is open. */
  readonly endedAtMs?: number;
}

export interface Delivery extends DeliverySummary {
  readonly stages: readonly StageResult[];
  /** Names in lower case; the values of credentials are redacted. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body as sent, for a replay: redact it before you show it. Absent when it is not kept. */
  readonly payload?: string;
  /** The text for the agent or the target. */
  readonly rendered?: string;
}

export interface DeliveryFilter extends RowFilter {
  readonly status?: DeliveryStatus;
}

/** Names the delivery that a request replays. Only requests with a valid signature are recorded. */
export const REPLAY_HEADER = "x-agentd-replay-of";
const DELIVERY_ID = /^dlv_[0-9a-z]{26}$/;

/** Headers that carry credentials: the record keeps their names only. */
const SECRET_HEADERS = /cookie|token|signature|secret|passw|api[-_]?key|auth/i;
const MAX_PAYLOAD_CHARACTERS = 1_048_576;
const MAX_RENDERED_CHARACTERS = 100_000;
const MAX_REASON_CHARACTERS = 500;
/** Of records that are not written yet; above it, answers wait for the store. */
const MAX_UNWRITTEN_BYTES = 8 * 1_048_576;
/** The size of a record besides its body. */
const ROW_BYTES = 2_048;
const MAX_LIST = 500;

/** The record of all deliveries: what came in, how each stage decided and how it ended. */
export class Deliveries {
  readonly #store: Store;
  readonly #log: Log;
  #unwrittenBytes = 0;

  constructor(store: Store, log: Log = silentLog) {
    this.#store = store;
    this.#log = log;
  }

  /**
   * Records a request that a stage stopped. Its answer does not depend on the record, and does not wait for it unless
   * many records are unwritten. Never rejects.
   */
  async recordStopped(stopped: EvaluatedRequest): Promise<void> {
    const bytes = stopped.request.body.byteLength + ROW_BYTES;
    this.#unwrittenBytes += bytes;
    const written = this.#record(stopped).finally(() => (this.#unwrittenBytes -= bytes));
    if (this.#unwrittenBytes > MAX_UNWRITTEN_BYTES) await written;
  }

  async #record(stopped: EvaluatedRequest): Promise<void> {
    const status = statusOf(stopped.evaluated);
    try {
      await this.#store.write(
        (tx) =>
          insertDelivery(tx, { ...stopped, id: createId("dlv", tx.nowMs), status, endedAtMs: tx.nowMs }),
        { durable: false },
      );
    } catch (error) {
      this.#log.warn("cannot record a webhook that a stage stopped", { error });
    }
  }

  /** Returns a page of deliveries, newest first, at most 500; `nextCursor` when more follow. */
  async list(
    filter: DeliveryFilter,
    page: { readonly limit: number; readonly cursor?: string | undefined },
  ): Promise<{ readonly deliveries: readonly DeliverySummary[]; readonly nextCursor?: string }> {
    const limit = Math.min(Math.max(1, page.limit), MAX_LIST);
    const rows = await listDeliveries(this.#store, filter, { limit: limit + 1, before: page.cursor });
    const deliveries = rows.slice(0, limit).map(toSummary);
    const last = rows.length > limit ? deliveries.at(-1) : undefined;
    return { deliveries, ...(last ? { nextCursor: last.id } : {}) };
  }

  /** Returns a delivery by its own id (`dlv_...`), or the newest one with the sender's id. */
  async show(id: string): Promise<Delivery | undefined> {
    const found = await this.#store.find("deliveries", { id });
    const row = found ?? (await findNewestDelivery(this.#store, id));
    return row && toDelivery(row, await this.#store.find("delivery_bodies", { id: row.id }));
  }
}

/** Inserts a delivery inside `tx`. */
export async function insertDelivery(
  tx: Tx,
  delivery: EvaluatedRequest & {
    readonly id: string;
    readonly status: DeliveryStatus;
    readonly runId?: string;
    readonly outboxId?: string;
    readonly endedAtMs?: number;
  },
): Promise<void> {
  const { request, evaluated, stages, id, status } = delivery;
  const replayOf = request.headers.get(REPLAY_HEADER);
  const row: DeliveryRow = {
    id,
    route: request.route.name,
    delivery_id: evaluated.deliveryId,
    event: evaluated.subject.event,
    status,
    reason: stages.find(({ result }) => result === "stop")?.detail?.slice(0, MAX_REASON_CHARACTERS) ?? null,
    stages: JSON.stringify(stages),
    headers: JSON.stringify(redactHeaders(request.headers)),
    run_id: delivery.runId ?? null,
    outbox_id: delivery.outboxId ?? null,
    replay_of: replayOf !== null && DELIVERY_ID.test(replayOf) ? replayOf : null,
    created_at: tx.nowMs,
    ended_at: delivery.endedAtMs ?? null,
  };
  await tx.insert("deliveries", [row]);
  const { text } = evaluated;
  const rendered = text === undefined ? null : redact(text.slice(0, MAX_RENDERED_CHARACTERS));
  const payload = keptPayload(evaluated);
  if (payload !== null || rendered !== null) await tx.insert("delivery_bodies", [{ id, payload, rendered }]);
}

function statusOf({ stop }: Evaluated): DeliveryStatus {
  const status = stop !== undefined && "status" in stop.body ? stop.body.status : undefined;
  return status === "ignored" || status === "duplicate" ? status : "refused";
}

function redactHeaders(headers: Headers): Readonly<Record<string, string>> {
  const redacted: Record<string, string> = {};
  for (const [name, value] of headers)
    redacted[name] = SECRET_HEADERS.test(name) ? "[redacted]" : redact(value);
  return redacted;
}

/** Returns null for a body that cannot be kept as sent: a part of it would be another body. */
function keptPayload({ bodyText }: Evaluated): string | null {
  if (bodyText === undefined || bodyText.length > MAX_PAYLOAD_CHARACTERS) return null;
  return bodyText.includes("\u0000") ? null : bodyText;
}

function toSummary(row: DeliverySummaryRow): DeliverySummary {
  return {
    id: row.id,
    route: row.route,
    deliveryId: row.delivery_id,
    event: row.event,
    status: row.status as DeliveryStatus,
    createdAtMs: row.created_at,
    ...(row.reason === null ? {} : { reason: row.reason }),
    ...(row.run_id === null ? {} : { runId: row.run_id }),
    ...(row.outbox_id === null ? {} : { outboxId: row.outbox_id }),
    ...(row.replay_of === null ? {} : { replayOf: row.replay_of }),
    ...(row.ended_at === null ? {} : { endedAtMs: row.ended_at }),
  };
}

function toDelivery(row: DeliveryRow, body: DeliveryBodyRow | undefined): Delivery {
  const { payload = null, rendered = null } = body ?? {};
  return {
    ...toSummary(row),
    stages: JSON.parse(row.stages) as readonly StageResult[],
    headers: JSON.parse(row.headers) as Readonly<Record<string, string>>,
    ...(payload === null ? {} : { payload }),
    ...(rendered === null ? {} : { rendered }),
  };
}
