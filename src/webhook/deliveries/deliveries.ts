/** The record of deliveries, kept in step with their runs and messages, in whichever process those start and end. */
import { answerPayload, messagePayload } from "../../deliver/target.ts";
import { logMessage } from "../../deliver/targets/local.ts";
import { createId } from "../../base/text.ts";
import { RateLimiter } from "../../base/time.ts";
import { silentLog, type Log, redact } from "../../base/observe.ts";
import {
  deleteUnverified,
  findNewestDelivery,
  listDeliveries,
  type DeliveryFilter as RowFilter,
  type DeliverySummaryRow,
  messagesOf,
  type DeliveryMessage,
} from "../queries.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { DeliveryBodyRow, DeliveryRow, OutboxRow, RunRow } from "../../store/schema/tables.ts";
import type { VerifiedRequest, Evaluated, StageResult } from "../receive/evaluate.ts";
import {
  type Outcome,
  isRunDelivery,
  readDelivery,
  SILENT,
  type RunDelivery,
  type RunTrigger,
} from "../../agent/run/run.ts";
import { keepFailedMessages, releaseAllKeys, REPLAY_HEADER } from "../receive/event.ts";

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
  readonly owner: string;
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
  /** Its signature was wrong, or was not checked. */
  readonly isUnverified: boolean;
}

export interface DeliveryFilter extends RowFilter {
  readonly statuses?: readonly DeliveryStatus[];
}

const DELIVERY_ID = /^dlv_[0-9a-z]{26}$/;

/** Headers that carry credentials: the record keeps their names only. */
const SECRET_HEADERS = /cookie|token|signature|hmac|secret|passw|api[-_]?key|auth/i;
const MAX_PAYLOAD_CHARACTERS = 1_048_576;
const MAX_RENDERED_CHARACTERS = 100_000;
const MAX_REASON_CHARACTERS = 500;
/** Of records that are not written yet; above it, answers wait for the store. */
const MAX_UNWRITTEN_BYTES = 8 * 1_048_576;
/** The size of a record besides its body. */
const ROW_BYTES = 2_048;
const MAX_LIST = 500;
/** Of one route. */
const MAX_UNVERIFIED = 50;
const MAX_STRANGERS_HEADERS = 30;
const MAX_STRANGERS_CHARACTERS = 200;

/** The record of all deliveries: what came in, how each stage decided and how it ended. */
export class Deliveries {
  readonly #store: Store;
  readonly #log: Log;
  #unwrittenBytes = 0;
  readonly #ofRoute = new RateLimiter(10, { windowMs: 600_000 });
  readonly #ofAll = new RateLimiter(30, { windowMs: 600_000 });

  constructor(store: Store, log: Log = silentLog) {
    this.#store = store;
    this.#log = log;
  }

  /**
   * Records a request that a stage stopped. Its answer does not depend on the record, and does not wait for it unless
   * many records are unwritten. Never rejects, but for a replay, whose answer is the record.
   */
  async recordStopped(stopped: EvaluatedRequest): Promise<void> {
    if (stopped.request.replay) return this.#write(stopped, { durable: true });
    const bytes = stopped.request.body.byteLength + ROW_BYTES;
    this.#unwrittenBytes += bytes;
    const written = this.#record(stopped).finally(() => (this.#unwrittenBytes -= bytes));
    if (this.#unwrittenBytes > MAX_UNWRITTEN_BYTES) await written;
  }

  /**
   * Records a request whose sender is unknown, without its body. Strangers can send any number of them: in ten minutes it
   * records the first 10 of a route and 30 in all, and it keeps the newest 50 of a route. Never rejects.
   */
  async recordUnverified(stopped: EvaluatedRequest, nowMs: number): Promise<void> {
    if (this.#ofRoute.take(stopped.request.route.name, nowMs) || this.#ofAll.take("", nowMs)) return;
    const request = { ...stopped.request, headers: strangersHeaders(stopped.request.headers) };
    const { bodyText: _, ...evaluated } = stopped.evaluated;
    await this.#record({ ...stopped, request, evaluated }, { isUnverified: true });
  }

  async #record(stopped: EvaluatedRequest, how: { readonly isUnverified?: true } = {}): Promise<void> {
    try {
      await this.#write(stopped, { durable: false, ...how });
    } catch (error) {
      this.#log.warn("cannot record a webhook that a stage stopped", { error });
    }
  }

  async #write(
    stopped: EvaluatedRequest,
    { durable, isUnverified = false }: { readonly durable: boolean; readonly isUnverified?: boolean },
  ): Promise<void> {
    const status = statusOfStop(stopped.evaluated);
    await this.#store.write(
      async (tx) => {
        const id = idOf(stopped, tx.nowMs);
        await insertDelivery(tx, { ...stopped, id, status, endedAtMs: tx.nowMs, isUnverified });
        if (isUnverified) await deleteUnverified(tx, stopped.request.route.name, MAX_UNVERIFIED);
      },
      { durable },
    );
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
    return (await this.find(id)) ?? this.#whole(await findNewestDelivery(this.#store, id));
  }

  /** Returns a delivery by its own id. */
  async find(id: string): Promise<Delivery | undefined> {
    return this.#whole(await this.#store.find("deliveries", { id }));
  }

  async #whole(row: DeliveryRow | undefined): Promise<Delivery | undefined> {
    return row && toDelivery(row, await this.#store.find("delivery_bodies", { id: row.id }));
  }
}

/** Returns the id of the record of a request. */
export function idOf({ request }: Pick<EvaluatedRequest, "request">, nowMs: number): string {
  return request.replay?.id ?? createId("dlv", nowMs);
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
    readonly isUnverified?: boolean;
  },
): Promise<void> {
  const { request, evaluated, stages, id, status } = delivery;
  const replayOf = request.headers.get(REPLAY_HEADER);
  const row: DeliveryRow = {
    id,
    owner: request.route.owner,
    route: request.route.name,
    delivery_id: evaluated.deliveryId,
    event: evaluated.subject.event,
    status,
    reason: stages.find(({ result }) => result === "stop")?.detail?.slice(0, MAX_REASON_CHARACTERS) ?? null,
    stages: JSON.stringify(stages),
    headers: JSON.stringify(redactHeaders(request)),
    run_id: delivery.runId ?? null,
    outbox_id: delivery.outboxId ?? null,
    replay_of: request.replay?.of ?? (replayOf !== null && DELIVERY_ID.test(replayOf) ? replayOf : null),
    unverified: delivery.isUnverified === true ? 1 : null,
    created_at: tx.nowMs,
    ended_at: delivery.endedAtMs ?? null,
  };
  await tx.insert("deliveries", [row]);
  recordChange(tx, "delivery.created", row, request.replay?.by);
  await request.replay?.alsoRecord(tx);
  const { text } = evaluated;
  const rendered = text === undefined ? null : redact(text.slice(0, MAX_RENDERED_CHARACTERS));
  const payload = keptPayload(evaluated);
  if (payload !== null || rendered !== null) await tx.insert("delivery_bodies", [{ id, payload, rendered }]);
}

/**
 * Changes the delivery that equals `where`, and records that in the feed. Resolves to the changed row; undefined when no
 * delivery equals `where`.
 */
export async function changeDelivery(
  tx: Tx,
  where: Partial<DeliveryRow> & Pick<DeliveryRow, "id">,
  set: Partial<DeliveryRow>,
): Promise<DeliveryRow | undefined> {
  if ((await tx.update("deliveries", where, set)) === 0) return undefined;
  const row = await tx.find("deliveries", { id: where.id });
  if (row) recordChange(tx, "delivery.updated", row);
  return row;
}

function recordChange(
  tx: Tx,
  type: "delivery.created" | "delivery.updated",
  { id, owner, route, event, status, run_id: runId }: DeliveryRow,
  actor: string | null = null,
): void {
  tx.record({ type, ref: id, owner, actor, data: { route, event, status, run_id: runId } });
}

function statusOfStop({ stop }: Evaluated): DeliveryStatus {
  if (stop === undefined || stop.status !== 200) return "refused";
  return "status" in stop.body && stop.body.status === "duplicate" ? "duplicate" : "ignored";
}

function redactHeaders({ headers, route }: VerifiedRequest): Readonly<Record<string, string>> {
  const redacted: Record<string, string> = {};
  const isSecret = (name: string) => SECRET_HEADERS.test(name) || name === route.sender?.header;
  for (const [name, value] of headers) redacted[name] = isSecret(name) ? "[redacted]" : redact(value);
  return redacted;
}

/** Returns the beginning of what a stranger sent. It replays nothing, whatever it says. */
function strangersHeaders(headers: Headers): Headers {
  const cut = [...headers]
    .filter(([name]) => name !== REPLAY_HEADER)
    .slice(0, MAX_STRANGERS_HEADERS)
    .map(([name, value]) => [name, value.slice(0, MAX_STRANGERS_CHARACTERS)]);
  return new Headers(Object.fromEntries(cut));
}

/** Returns null for a body that cannot be kept as sent: a part of it would be another body. */
function keptPayload({ bodyText }: Evaluated): string | null {
  if (bodyText === undefined || bodyText.length > MAX_PAYLOAD_CHARACTERS) return null;
  return bodyText.includes("\u0000") ? null : bodyText;
}

function toSummary(row: DeliverySummaryRow): DeliverySummary {
  return {
    id: row.id,
    owner: row.owner,
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
    isUnverified: row.unverified !== null,
    ...(payload === null ? {} : { payload }),
    ...(rendered === null ? {} : { rendered }),
  };
}

/** Returns the trigger that updates the delivery of a run when the run starts, is requeued and ends. */
export function createWebhookTrigger({
  store,
  log,
}: {
  readonly store: Store;
  readonly log: Log;
}): RunTrigger {
  return {
    owns: isRunDelivery,

    async started(tx, run) {
      const { ref } = deliveryOf(run);
      await changeDelivery(tx, { id: ref, status: "accepted" }, { status: "running" });
    },

    async requeued(tx, run) {
      const { ref } = deliveryOf(run);
      await changeDelivery(tx, { id: ref, status: "running" }, { status: "accepted" });
    },

    /**
     * Enqueues the answer in the transaction that ends the run: from then on only the outbox is needed to send it. When
     * the run did not complete, its dedupe keys are released, so that the sender may send the delivery again.
     */
    async ended(tx, run, outcome) {
      const delivery = deliveryOf(run);
      const { ref } = delivery;
      const session = await tx.find("sessions", { id: run.session_id });
      const first = await enqueueAnswer(tx, store, delivery, {
        owner: run.owner,
        outcome,
        cwd: session?.cwd ?? null,
        log,
      });
      const status = outcome.status === "cancelled" ? "interrupted" : outcome.status;
      const reason = failureOf(outcome);
      const ended = { status, reason: reason ?? null, outbox_id: first ?? null, ended_at: tx.nowMs };
      const row = await changeDelivery(tx, { id: ref }, ended);
      if (status === "completed") return;
      if (row) await releaseAllKeys(tx, row);
      tx.afterCommit(() =>
        log.warn("the run of a webhook did not complete", {
          delivery: ref,
          route: row?.route,
          run: run.id,
          status,
          reason,
        }),
      );
    },
  };
}

function deliveryOf({ reply_to: replyTo }: RunRow): RunDelivery {
  return readDelivery(replyTo ?? "");
}

/** The sender of messages reads the files that an answer names. */
const FILE_LINE = /\bMEDIA:/;

/**
 * Resolves to the id of the first message. The log gets its message at once: the way through the outbox would take two
 * more transactions. An answer may send files of `cwd`, the working folder of its session. */
async function enqueueAnswer(
  tx: Tx,
  { outbox }: Store,
  delivery: RunDelivery,
  {
    owner,
    outcome,
    cwd,
    log,
  }: {
    readonly owner: string;
    readonly outcome: Outcome;
    readonly cwd: string | null;
    readonly log: Log;
  },
): Promise<string | undefined> {
  const { extra, ref } = delivery;
  const ids: string[] = [];
  for (const { target, text } of answersOf(delivery, outcome)) {
    const isAnswer = outcome.status === "completed";
    const payload = isAnswer ? answerPayload(text, { cwd, extra }) : messagePayload(text, extra);
    const message = { owner, target, payload, ref };
    const isLogged = target === "log" && !FILE_LINE.test(payload.text);
    // Before the commit: a line that is written twice is harmless, one that is missing is not.
    if (isLogged) logMessage(log, { ref, text: payload.text });
    ids.push(await (isLogged ? outbox.addDelivered(tx, message) : outbox.enqueue(tx, message)));
  }
  return ids[0];
}

function answersOf(
  { targets, failure, suppressesSilence }: RunDelivery,
  outcome: Outcome,
): readonly { readonly target: string; readonly text: string }[] {
  if (outcome.status !== "completed") {
    return failure.map(({ target, says }) => ({ target, text: failureText(outcome, says) }));
  }
  const text = outcome.set.output ?? "";
  if (suppressesSilence === true && text.includes(SILENT)) return [];
  return targets.map((target) => ({ target, text }));
}

/** A notice reveals nothing about this service: anyone may read it. */
function failureText(outcome: Outcome, says: "notice" | "reason"): string {
  const notice =
    outcome.status === "failed"
      ? "The agent could not finish this."
      : "The agent was interrupted and did not finish this.";
  const reason = says === "reason" ? failureOf(outcome) : undefined;
  return reason === undefined ? notice : `${notice} ${reason}`;
}

function failureOf({ event }: Outcome): string | undefined {
  const { error, reason } = event.data as {
    readonly error?: { readonly message: string };
    readonly reason?: string;
  };
  return error?.message ?? reason;
}

/**
 * Closes a direct delivery after the outbox sent or gave up its messages, or a person dropped them: the process that
 * received it is gone, or could not know the result. A failed one releases its dedupe keys, so that the sender may try
 * again. Messages of deliveries that are closed change nothing.
 */
export async function closeSettledDelivery(tx: Tx, { ref: id }: Pick<OutboxRow, "ref">): Promise<void> {
  if (id === null) return;
  const closed = await closeDelivery(tx, id);
  if (closed?.status !== "failed") return;
  const row = await tx.find("deliveries", { id });
  if (!row) return;
  await releaseAllKeys(tx, row);
  await keepFailedMessages(tx, { route: row.route, deliveryId: row.delivery_id }, closed.messages);
}

export interface ClosedDelivery {
  /** delivered: at least one target has it. unknown: no target confirmed it, and one may have it. */
  readonly status: "delivered" | "unknown" | "failed";
  readonly messages: readonly DeliveryMessage[];
}

/** Closes a direct delivery inside `tx`. Undefined: it is closed already, or a message is still pending. */
export async function closeDelivery(tx: Tx, id: string): Promise<ClosedDelivery | undefined> {
  // The update also locks the row: messages of one delivery may end at once in several processes.
  const open = await tx.update("deliveries", { id, ended_at: null }, { status: "accepted" });
  if (open === 0) return undefined;
  const messages = await messagesOf(tx, id);
  if (messages.some(({ status }) => status === "due" || status === "leased")) return undefined;
  const status = statusOfMessages(messages);
  const reason = status === "delivered" ? null : reasonOf(messages);
  await changeDelivery(tx, { id }, { status, reason, ended_at: tx.nowMs });
  return { status, messages };
}

function statusOfMessages(messages: readonly DeliveryMessage[]): ClosedDelivery["status"] {
  const has = (wanted: string) => messages.some(({ status }) => status === wanted);
  if (has("delivered")) return "delivered";
  return has("unknown") ? "unknown" : "failed";
}

function reasonOf(messages: readonly DeliveryMessage[]): string {
  const [only, ...others] = messages;
  const texts =
    only && others.length === 0
      ? [errorOf(only)]
      : messages.map((message) => `${message.target}: ${errorOf(message)}`);
  return texts.join(" ").slice(0, MAX_REASON_CHARACTERS);
}

/** The last error of a dropped message is not why it ended. */
function errorOf({ status, last_error: error }: DeliveryMessage): string {
  return status === "dropped" ? "It was dropped." : (error ?? "");
}
