/** What follows when a request passed every stage: a run of the agent, or a message to the targets. */
import { headOf, sha256, createSessionId } from "../../base/text.ts";
import type { RunDelivery } from "../../agent/run/run.ts";
import type { Prompt } from "../../agent/run/run.ts";
import { MAX_SESSION_NAME_LENGTH } from "../../agent/session/session.ts";
import { isOwnersAddress, resolveAddresses, type Homes } from "../../deliver/address.ts";
import { parseTarget, messagePayload } from "../../deliver/target.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow, OutboxRow } from "../../store/schema/tables.ts";
import { accepted, coalesced, type WebhookAnswer, type Evaluated, delivered, refuse } from "./evaluate.ts";
import type { NewEvent } from "./coalesce.ts";
import {
  changeDelivery,
  closeDelivery,
  idOf,
  insertDelivery,
  type EvaluatedRequest,
} from "../deliveries/deliveries.ts";
import {
  DuplicateDelivery,
  recordKey,
  commitKey,
  keepFailedMessages,
  releaseKey,
  requeueFailedMessage,
  reserveKey,
  type DedupeKey,
} from "./event.ts";
import type { WebhookDeps } from "../deps.ts";
import type { WebhookRoute } from "../routes/route.ts";
import { renderTemplate, renderTexts, missingFields } from "./template.ts";
import { ServiceError } from "../../base/errors.ts";
import { type AttemptEnd, storeAttempt } from "../../deliver/outbox/attempt.ts";
import type { NewMessage } from "../../store/outbox/outbox.ts";
import { isBlank } from "../../base/text.ts";

/** A request that passed every stage. */
export interface Admission extends EvaluatedRequest {
  readonly evaluated: Evaluated & { readonly text: string };
}

const MAX_TITLE_CHARACTERS = 100;

/**
 * Records a delivery, its dedupe key and its run in one transaction: once this resolves, nothing is lost. A run over a
 * concurrency limit waits in the store, and so does an event that is coalesced. Undefined: the delivery is a duplicate.
 *
 * ServiceError `server_draining`, `too_many_concurrent_runs` when too many runs wait, and `state_store_unavailable`:
 * nothing is recorded.
 */
export async function admit(deps: WebhookDeps, admission: Admission): Promise<WebhookAnswer | undefined> {
  const { evaluated, request } = admission;
  const route = request.route.name;
  const { deliveryId } = evaluated;
  const id = idOf(admission, deps.clock.now());
  const record = async (tx: Tx, run?: Pick<RunRow, "id" | "status">): Promise<void> => {
    await recordKey(tx, deps.store, { route, deliveryId, nonce: request.nonce, delivery: id });
    const status = run?.status === "running" ? "running" : "accepted";
    await insertDelivery(tx, { ...admission, id, status, ...(run ? { runId: run.id } : {}) });
  };
  const prompt = promptOf(deps, admission, id);
  const coalescing = coalescingOf(admission);
  const answer = { route, event: evaluated.subject.event, delivery_id: deliveryId };
  try {
    if (coalescing) {
      await deps.coalescer.put({ ...coalescing, route, delivery: id, prompt, record });
      return coalesced(answer);
    }
    await deps.runs.submit({ ...prompt, alsoRecord: record });
    return accepted(answer);
  } catch (error) {
    if (error instanceof DuplicateDelivery) return undefined;
    throw error;
  }
}

/** Returns how to coalesce an event. Undefined: the route does not, or the payload has no value for the key. */
function coalescingOf({
  request,
  evaluated: { subject },
}: Admission): Pick<NewEvent, "key" | "windowMs" | "maxWaitMs"> | undefined {
  const { coalesce } = request.route;
  if (!coalesce || missingFields(coalesce.key, subject).length > 0) return undefined;
  // Subscriptions do not get the defaults of the configuration.
  const { key, window_seconds: window = 30, max_wait_seconds: maxWait = 300 } = coalesce;
  return { key: renderTemplate(key, subject), windowMs: window * 1000, maxWaitMs: maxWait * 1000 };
}

/** Returns the prompt of the run. Each delivery has a session of its own, which is deleted with its run. */
function promptOf(deps: WebhookDeps, { request, evaluated }: Admission, id: string): Prompt {
  const { route } = request;
  const extra = renderTexts(route.deliverExtra, evaluated.subject) as Readonly<Record<string, unknown>>;
  const { homes } = deps;
  const targets = resolveAddresses(route.deliver, { extra, homes });
  const delivery: RunDelivery = {
    ref: id,
    targets,
    failure: failureTargets(route, targets, homes),
    extra,
    suppressesSilence: route.suppressesSilence,
  };
  const max = route.maxConcurrent;
  return {
    address: {
      owner: route.owner,
      // The key names the newest session of a delivery id. The session id is new even when the sender reuses its id.
      id: createSessionId(deps.clock.now()),
      key: sessionKeyOf(route.name, evaluated.deliveryId),
    },
    seed: {
      source: "webhook",
      title: headOf(`${route.name}: ${evaluated.subject.event}`, MAX_TITLE_CHARACTERS),
      transient: true,
    },
    kind: "run",
    input: {
      prompt: [{ role: "user", text: evaluated.text }],
      settings: {},
      answerable: false,
      isDetached: true,
      startsAgain: true,
      toolsets: toolsetsOf(route, deps),
      slot: { group: `webhook:${route.name}`, ...(max === undefined ? {} : { max }) },
    },
    delivery: JSON.stringify(delivery),
  };
}

/** Everyone can read the comments of a code host, and an outage would post one for each event. */
const PUBLIC_COMMENTS = "github_comment";

/** Returns who hears that a run did not complete. Only the owner's addresses get the reason. */
function failureTargets(
  { onFailure }: WebhookRoute,
  targets: readonly string[],
  homes: Homes,
): RunDelivery["failure"] {
  if (onFailure === "silent") return [];
  const isNotified = (target: string) =>
    onFailure === "notice" || parseTarget(target).platform !== PUBLIC_COMMENTS;
  return targets
    .filter(isNotified)
    .map((target) => ({ target, says: isOwnersAddress(target, homes) ? "reason" : "notice" }));
}

/** Returns `webhook:<route>:<delivery id>`, with a digest in place of an id that a header could not repeat. */
function sessionKeyOf(route: string, deliveryId: string): string {
  const key = `webhook:${route}:${deliveryId}`;
  const isPrintable = key.length <= MAX_SESSION_NAME_LENGTH && PRINTABLE.test(deliveryId);
  return isPrintable ? key : `webhook:${route}:sha256-${sha256(deliveryId)}`;
}

const PRINTABLE = /^[\u0020-\u007e]+$/;

/** Read access to the web and to pictures: nothing that changes, runs or remembers anything. */
const DEFAULT_TOOLSETS = ["web", "vision", "clarify"];

/** Returns the toolsets that the route names, without those that do not exist; by default the narrow ones. */
export function toolsetsOf(
  route: WebhookRoute,
  { toolsets, log }: Pick<WebhookDeps, "toolsets" | "log">,
): readonly string[] {
  if (route.toolsets === undefined) return DEFAULT_TOOLSETS;
  const offered = toolsets();
  const unknown = route.toolsets.filter((name) => !offered.includes(name));
  if (unknown.length > 0)
    log.warn("a webhook route names unknown toolsets", { route: route.name, toolsets: unknown.join(", ") });
  return route.toolsets.filter((name) => offered.includes(name));
}

/** How long the sender waits for the targets. Senders commonly give up after ten seconds. */
const SEND_MS = 8_000;
/** An attempt with less time would end as uncertain. */
const MIN_ATTEMPT_MS = 1_000;
/** After this time other processes take over the messages of a process that died. */
const LEASE_MS = 30_000;

/** A delivery whose messages are being sent while the sender waits. */
interface DirectDelivery {
  readonly admission: Admission;
  readonly id: string;
  readonly key: DedupeKey;
  readonly rows: readonly OutboxRow[];
}

interface Sent {
  readonly row: OutboxRow;
  readonly end: AttemptEnd;
}

/**
 * Sends the text without the agent, to all targets at once, while the sender waits. The messages are in the outbox first:
 * when the process dies, another one sends them, and a retry of the sender is a duplicate. When one target has the
 * message, or may have it, the outbox delivers the others. When none has it the messages are given up, and the sender may
 * try again with the same message ids. Undefined: the delivery is a duplicate.
 *
 * ServiceError `server_draining`, and `state_store_unavailable`.
 */
export async function deliverDirect(
  deps: WebhookDeps,
  admission: Admission,
): Promise<WebhookAnswer | undefined> {
  const direct = await enqueue(deps, admission);
  if (!direct) return undefined;
  const sent = await Promise.all(direct.rows.map((row) => sendInTime(deps, row)));
  const has = (...statuses: readonly AttemptEnd["status"][]) =>
    sent.some(({ end }) => statuses.includes(end.status));
  if (has("delivered")) return endDelivered(deps, direct, sent);
  if (has("stopped", "lost")) return endStopped(deps, direct, sent);
  return has("unknown") ? endUncertain(deps, direct, sent) : endFailed(deps, direct, sent);
}

/**
 * Sends a message. A platform that asks to slow down, for a time that the sender can wait, gets it once more: many senders
 * never send an event again.
 */
async function sendInTime(deps: WebhookDeps, row: OutboxRow): Promise<Sent> {
  const { clock, store } = deps;
  const endMs = clock.now() + SEND_MS;
  const end = await deps.send(row, SEND_MS);
  if (end.status !== "retry" || end.afterMs === undefined) return { row, end };
  if (clock.now() + end.afterMs + MIN_ATTEMPT_MS > endMs) return { row, end };
  await store.write((tx) => storeAttempt(tx, store, { row, end }));
  await clock.sleep(end.afterMs);
  // Parts of a long message may have arrived before the platform asked to slow down.
  const again = await store.find("outbox", { id: row.id });
  if (again === undefined) return { row, end };
  return { row: again, end: await deps.send(again, endMs - clock.now()) };
}

/** Enqueues and leases the messages; undefined when the delivery is a duplicate. */
async function enqueue(
  { store, runs, clock, homes }: WebhookDeps,
  admission: Admission,
): Promise<DirectDelivery | undefined> {
  if (runs.draining) throw new ServiceError("server_draining", "The server is shutting down.");
  const { request, evaluated } = admission;
  const { name: route, owner, deliver, deliverExtra } = request.route;
  const id = idOf(admission, clock.now());
  const key = { route, deliveryId: evaluated.deliveryId, nonce: request.nonce };
  const extra = renderTexts(deliverExtra, evaluated.subject) as Readonly<Record<string, unknown>>;
  const { text, pieces = [{ literal: text }] } = evaluated;
  const payload = messagePayload(isBlank(text) ? EMPTY_MESSAGE : pieces, extra);
  try {
    return await store.write(async (tx) => {
      await reserveKey(tx, store, key);
      const rows: OutboxRow[] = [];
      for (const target of resolveAddresses(deliver, { extra, homes })) {
        rows.push(await leaseNew(tx, store, { key, message: { owner, target, payload, ref: id } }));
      }
      const [first] = rows;
      await insertDelivery(tx, {
        ...admission,
        id,
        status: "running",
        ...(first ? { outboxId: first.id } : {}),
      });
      return { admission, id, key, rows };
    });
  } catch (error) {
    if (error instanceof DuplicateDelivery) return undefined;
    throw error;
  }
}

/** Targets would call it an empty answer, although no agent answered. */
const EMPTY_MESSAGE = "(The message was empty.)";

/** The message has no ordering key: the sender does not wait for older messages to the same chat. */
async function leaseNew(
  tx: Tx,
  { outbox }: Store,
  { key, message }: { readonly key: DedupeKey; readonly message: NewMessage & { readonly ref: string } },
): Promise<OutboxRow> {
  const id =
    (await requeueFailedMessage(tx, key, message)) ??
    (await outbox.enqueue(tx, { ...message, orderingKey: null }));
  const [row] = await outbox.claim(tx, { ids: [id], limit: 1, leaseMs: LEASE_MS });
  if (row) return row;
  throw new TypeError(`The message ${id} is gone in the transaction that created it.`);
}

/** The outbox delivers the other messages; it repeats an uncertain one only where the target supports idempotency. */
async function endDelivered(
  deps: WebhookDeps,
  { id, key, rows }: DirectDelivery,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  const { store } = deps;
  await store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await commitKey(tx, store, { ...key, delivery: id });
    await changeDelivery(tx, { id }, { status: "delivered", ended_at: tx.nowMs });
  });
  warnOfErrors(deps, key, { id, sent });
  const target = rows.map((row) => row.target).join(",");
  return delivered({ route: key.route, target, delivery_id: key.deliveryId });
}

/** A target may have the message: the sender must not send it again, and the record shows the uncertainty. */
async function endUncertain(
  deps: WebhookDeps,
  { admission, id, key }: DirectDelivery,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  const { store } = deps;
  await store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await commitKey(tx, store, { ...key, delivery: id });
    await closeDelivery(tx, id);
  });
  warnOfErrors(deps, key, { id, sent });
  const { event } = admission.evaluated.subject;
  return accepted({ route: key.route, event, delivery_id: key.deliveryId });
}

/** The log gets the errors of the targets, the sender does not. */
async function endFailed(
  deps: WebhookDeps,
  { id, key }: DirectDelivery,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  const { store } = deps;
  warnOfErrors(deps, key, { id, sent });
  await store.write(async (tx) => {
    for (const { row, end } of sent) {
      await storeAttempt(tx, store, { row, end });
      await store.outbox.dead(tx, row.id, errorOf(end) ?? "");
    }
    // A process that took over a lease ends its message, and releases the key.
    const closed = await closeDelivery(tx, id);
    if (closed?.status !== "failed") return;
    await releaseKey(tx, store, key);
    await keepFailedMessages(tx, key, closed.messages);
  });
  return refuse("delivery_failed", { status: "error", delivery_id: key.deliveryId });
}

/** A shutdown cut the attempt: the messages stay in the outbox under their ids, and the key stays taken. */
async function endStopped(
  deps: WebhookDeps,
  { id }: DirectDelivery,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  await deps.store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await closeDelivery(tx, id);
  });
  return refuse("draining", { retryAfterSeconds: 1 });
}

function warnOfErrors(
  { log }: WebhookDeps,
  { route }: DedupeKey,
  { id, sent }: { readonly id: string; readonly sent: readonly Sent[] },
): void {
  for (const { row, end } of sent) {
    const reason = errorOf(end);
    if (reason === undefined) continue;
    log.warn("a message could not be delivered", { delivery: id, route, target: row.target, reason });
  }
}

const errorOf = (end: AttemptEnd): string | undefined => ("error" in end ? end.error : undefined);
