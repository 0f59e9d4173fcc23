import { createId } from "../../base/ids.ts";
import { silentLog, type Log } from "../../base/observe/log.ts";
import { redact } from "../../base/observe/redact.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { DeliveryBodyRow, DeliveryRow } from "../../store/schema/tables.ts";
import type { VerifiedRequest, Evaluated } from "../receive/evaluate.ts";
import type { StageResult } from "../receive/stage.ts";

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

export interface DeliveryFacts {
  readonly request: VerifiedRequest;
  readonly evaluated: Evaluated;
  readonly stages: readonly StageResult[];
}

/** A row of the record, as it is read. Times in milliseconds since the epoch. */
export interface DeliverySummary {
  readonly id: string;
  readonly route: string;
  /** The sender's id, or the request's where it has none. */
  readonly deliveryId: string;
  readonly event: string;
  readonly status: DeliveryStatus;
  /** Why it went no further, or how it failed. */
  readonly reason?: string;
  readonly runId?: string;
  readonly outboxId?: string;
  /** The delivery that this one repeats. */
  readonly replayOf?: string;
  readonly createdAtMs: number;
  /** Absent while it is open. */
  readonly endedAtMs?: number;
}

export interface Delivery extends DeliverySummary {
  readonly stages: readonly StageResult[];
  /** Names in lower case; values that prove who sends are redacted. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body exactly as it was sent, so that it can be repeated: redact it before it is shown. Absent: not kept. */
  readonly payload?: string;
  /** What the agent or the target got. */
  readonly rendered?: string;
}

export interface DeliveryFilter {
  readonly route?: string;
  readonly status?: DeliveryStatus;
  readonly deliveryId?: string;
  readonly event?: string;
  /** From this time on, and before that one. */
  readonly sinceMs?: number;
  readonly untilMs?: number;
}

/** Names the delivery that a request repeats; counts behind the signature only. */
export const REPLAY_HEADER = "x-agentd-replay-of";
const DELIVERY_ID = /^dlv_[0-9a-z]{26}$/;

/** Headers whose values prove who sends: the record holds only that they were there. */
const SECRET_HEADERS = /cookie|token|signature|secret|passw|api[-_]?key|auth/i;
const MAX_PAYLOAD_CHARACTERS = 1_048_576;
const MAX_RENDERED_CHARACTERS = 100_000;
const MAX_REASON_CHARACTERS = 500;
/** Of records that are not written yet; beyond, answers wait for the store. */
const MAX_WAITING_BYTES = 8 * 1_048_576;
/** What a record costs besides its body. */
const ROW_BYTES = 2_048;
const MAX_LIST = 500;

/** What the receiver took in, and what became of it. */
export class Deliveries {
  readonly #store: Store;
  readonly #log: Log;
  #waitingBytes = 0;

  constructor(store: Store, log: Log = silentLog) {
    this.#store = store;
    this.#log = log;
  }

  /**
   * Records a request that goes no further. What it was answered stands whether this gets on disk or not, so the answer
   * does not wait for it, unless very much is waiting already. Never rejects.
   */
  async stopped(facts: DeliveryFacts): Promise<void> {
    const bytes = facts.request.body.byteLength + ROW_BYTES;
    this.#waitingBytes += bytes;
    const written = this.#record(facts).finally(() => (this.#waitingBytes -= bytes));
    if (this.#waitingBytes > MAX_WAITING_BYTES) await written;
  }

  async #record(facts: DeliveryFacts): Promise<void> {
    const status = statusOf(facts.evaluated);
    try {
      await this.#store.write(
        (tx) => insertDelivery(tx, { ...facts, id: createId("dlv", tx.nowMs), status, endedAtMs: tx.nowMs }),
        { durable: false },
      );
    } catch (error) {
      this.#log.warn("a webhook that went no further could not be recorded", { error });
    }
  }

  /** Newest first, at most 500. `nextCursor` when there are more. */
  async list(
    filter: DeliveryFilter,
    page: { readonly limit: number; readonly cursor?: string | undefined },
  ): Promise<{ readonly deliveries: readonly DeliverySummary[]; readonly nextCursor?: string }> {
    const limit = Math.min(Math.max(1, page.limit), MAX_LIST);
    let query = this.#store.read.selectFrom("deliveries").select(SUMMARY);
    if (filter.route !== undefined) query = query.where("route", "=", filter.route);
    if (filter.status !== undefined) query = query.where("status", "=", filter.status);
    if (filter.deliveryId !== undefined) query = query.where("delivery_id", "=", filter.deliveryId);
    if (filter.event !== undefined) query = query.where("event", "=", filter.event);
    if (filter.sinceMs !== undefined) query = query.where("created_at", ">=", filter.sinceMs);
    if (filter.untilMs !== undefined) query = query.where("created_at", "<", filter.untilMs);
    if (page.cursor !== undefined) query = query.where("id", "<", page.cursor);
    const rows = await query
      .orderBy("id", "desc")
      .limit(limit + 1)
      .execute();
    const deliveries = rows.slice(0, limit).map(toSummary);
    const last = rows.length > limit ? deliveries.at(-1) : undefined;
    return { deliveries, ...(last ? { nextCursor: last.id } : {}) };
  }

  /** By the record's id (`dlv_...`), or by the sender's: the newest of that. */
  async show(id: string): Promise<Delivery | undefined> {
    const row =
      (await this.#store.find("deliveries", { id })) ??
      (await this.#store.read
        .selectFrom("deliveries")
        .selectAll()
        .where("delivery_id", "=", id)
        .orderBy("id", "desc")
        .limit(1)
        .executeTakeFirst());
    return row && toDelivery(row, await this.#store.find("delivery_bodies", { id: row.id }));
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
  const { request, evaluated, stages, id, status } = from;
  const replayOf = request.headers.get(REPLAY_HEADER);
  const row: DeliveryRow = {
    id,
    route: request.route.name,
    delivery_id: evaluated.deliveryId,
    event: evaluated.subject.event,
    status,
    reason: stages.find(({ verdict }) => verdict === "stop")?.detail?.slice(0, MAX_REASON_CHARACTERS) ?? null,
    stages: JSON.stringify(stages),
    headers: JSON.stringify(shownHeaders(request.headers)),
    run_id: from.runId ?? null,
    outbox_id: from.outboxId ?? null,
    replay_of: replayOf !== null && DELIVERY_ID.test(replayOf) ? replayOf : null,
    created_at: tx.nowMs,
    ended_at: from.endedAtMs ?? null,
  };
  await tx.insert("deliveries", [row]);
  const rendered =
    evaluated.text === undefined ? null : redact(evaluated.text.slice(0, MAX_RENDERED_CHARACTERS));
  const payload = keptPayload(evaluated);
  if (payload !== null || rendered !== null) await tx.insert("delivery_bodies", [{ id, payload, rendered }]);
}

function statusOf({ stop }: Evaluated): DeliveryStatus {
  const status = stop !== undefined && "status" in stop.body ? stop.body.status : undefined;
  return status === "ignored" || status === "duplicate" ? status : "refused";
}

function shownHeaders(headers: Headers): Readonly<Record<string, string>> {
  const shown: Record<string, string> = {};
  for (const [name, value] of headers) shown[name] = SECRET_HEADERS.test(name) ? "[redacted]" : redact(value);
  return shown;
}

/** Null for what cannot be kept as it is: half a body would be another one. */
function keptPayload({ bodyText }: Evaluated): string | null {
  if (bodyText === undefined || bodyText.length > MAX_PAYLOAD_CHARACTERS) return null;
  return bodyText.includes("\u0000") ? null : bodyText;
}

const SUMMARY = [
  "id",
  "route",
  "delivery_id",
  "event",
  "status",
  "reason",
  "run_id",
  "outbox_id",
  "replay_of",
  "created_at",
  "ended_at",
] as const satisfies readonly (keyof DeliveryRow)[];

function toSummary(row: Pick<DeliveryRow, (typeof SUMMARY)[number]>): DeliverySummary {
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
