/** The event of a request: its name, its payload, its id, and whether it is a duplicate. */
import type { Clock } from "../../base/time.ts";
import { isRecord, isExactNumber, parseExactJson } from "../../base/data.ts";
import { sha256 } from "../../base/text.ts";
import { deleteDedupeKeys, type DeliveryMessage } from "../queries.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { DeliveryRow } from "../../store/schema/tables.ts";
import { getAtPath } from "../../base/data.ts";
import type { Sender } from "./schemes.ts";

interface HeaderLike {
  get(name: string): string | null;
}

/** A service that names its events in headers of its own. */
export interface WebhookSource {
  readonly eventHeader: string;
  /** The same for every attempt at one delivery. */
  readonly deliveryHeader?: string;
  /** Carries the secret itself. */
  readonly tokenHeader?: string;
}

/**
 * The services, in the order in which their headers are looked up; header names in lower case. The placeholder names of
 * the interface's description are rows too, so that its examples work as written.
 */
export const WEBHOOK_SOURCES: readonly WebhookSource[] = [
  { eventHeader: "x-github-event", deliveryHeader: "x-github-delivery" },
  { eventHeader: "x-gitlab-event", tokenHeader: "x-gitlab-token" },
  { eventHeader: "x-hosta-event", deliveryHeader: "x-hosta-delivery" },
  { eventHeader: "x-hostb-event", tokenHeader: "x-hostb-token" },
  { eventHeader: "x-gitea-event", deliveryHeader: "x-gitea-delivery" },
  { eventHeader: "x-forgejo-event", deliveryHeader: "x-forgejo-delivery" },
  { eventHeader: "x-gogs-event", deliveryHeader: "x-gogs-delivery" },
  { eventHeader: "x-event-key", deliveryHeader: "x-request-uuid" },
  { eventHeader: "linear-event", deliveryHeader: "linear-delivery" },
  { eventHeader: "x-shopify-topic", deliveryHeader: "x-shopify-webhook-id" },
  { eventHeader: "sentry-hook-resource", deliveryHeader: "request-id" },
  { eventHeader: "x-amz-sns-message-type", deliveryHeader: "x-amz-sns-message-id" },
];

const MAX_NAME_CHARACTERS = 200;

/**
 * Returns the event type from a header, else from the fields of the payload where the sender has it, else from
 * `event_type` or `type` of the payload, else `unknown`.
 */
export function eventTypeOf(
  headers: HeaderLike,
  payload: unknown,
  sender?: Pick<Sender, "eventFields">,
): string {
  for (const { eventHeader } of WEBHOOK_SOURCES) {
    const type = headers.get(eventHeader);
    if (type) return type.slice(0, MAX_NAME_CHARACTERS);
  }
  for (const field of [...(sender?.eventFields ?? []), "event_type", "type"]) {
    const value = getAtPath(payload, field.split("."));
    const type = typeof value === "string" ? cleanName(value) : "";
    if (type !== "") return type;
  }
  return "unknown";
}

/** Headers with the sender's id of a delivery, in the order in which they are looked up; names in lower case. */
export const DELIVERY_HEADERS: readonly string[] = [
  ...WEBHOOK_SOURCES.flatMap(({ deliveryHeader }) => deliveryHeader ?? []),
  "svix-id",
  "webhook-id",
  "x-atlassian-webhook-identifier",
  "i-twilio-idempotency-token",
  // GitLab, which keeps it for each attempt; draft-ietf-httpapi-idempotency-key-header.
  "idempotency-key",
];
/** Names the delivery that a request replays. It has an id of its own. */
export const REPLAY_HEADER = "x-agentd-replay-of";
/** Proxies give each attempt an id of its own: it comes last. */
const REQUEST_ID_HEADER = "x-request-id";

/**
 * Returns the sender's id of the delivery: from a header, else from the field of the payload where the sender has it.
 * Undefined: the sender gives none, and its retries count as new deliveries.
 */
export function deliveryIdOf(
  headers: HeaderLike,
  payload?: unknown,
  sender?: Pick<Sender, "idField">,
): string | undefined {
  for (const name of DELIVERY_HEADERS) {
    const id = headers.get(name)?.trim();
    if (id) return boundedId(id);
  }
  const isReplay = headers.get(REPLAY_HEADER) !== null;
  const path = isReplay ? undefined : sender?.idField;
  const field = path === undefined ? undefined : getAtPath(payload, path.split("."));
  const id = isExactNumber(field)
    ? field.rawJSON
    : ["string", "number"].includes(typeof field)
      ? String(field)
      : "";
  return cleanName(id) || boundedId(headers.get(REQUEST_ID_HEADER)?.trim() ?? "") || undefined;
}

/** Shortens a long id so that it stays unique, and the same for each attempt. */
function boundedId(id: string): string {
  return id.length <= MAX_NAME_CHARACTERS ? id : `${id.slice(0, 100)}-${sha256(id)}`;
}

/** Removes what tables, environment variables and titles cannot hold. */
function cleanName(name: string): string {
  return name
    .slice(0, MAX_NAME_CHARACTERS)
    .replaceAll(/\p{Cc}/gu, "")
    .toWellFormed();
}

/** `text` is the body as sent; absent when it is not UTF-8, or was not decoded. */
export type ParsedBody =
  | { readonly payload: unknown; readonly text: string }
  | { readonly problem: PayloadProblem; readonly text?: string };

export type PayloadProblem = "malformed" | "type" | "encoding" | "too_deep" | "too_many_fields";

/** Deeper values are refused: code that walks them recursively must not run out of stack. */
const MAX_DEPTH = 200;
const MAX_FORM_FIELDS = 10_000;

/**
 * Parses a body by its content type: JSON, text that is JSON, or a form. A form becomes an object of its fields, or the
 * JSON in its field `payload`. An empty body is an empty object.
 */
export function parsePayload(body: Uint8Array, headers: HeaderLike): ParsedBody {
  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? "";
  if (encoding !== "" && encoding !== "identity") return { problem: "encoding" };
  const text = decode(body);
  if (text === undefined) return { problem: "malformed" };
  const type = (headers.get("content-type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (type === "application/x-www-form-urlencoded") return fromForm(text);
  if (!isJsonType(type)) return { problem: "type", text };
  return text.trim() === "" ? { payload: {}, text } : fromJson(text);
}

function isJsonType(type: string): boolean {
  return type === "" || type === "text/plain" || type === "application/json" || type.endsWith("+json");
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function decode(body: Uint8Array): string | undefined {
  try {
    return utf8.decode(body);
  } catch {
    return undefined;
  }
}

/** Parses JSON with the limits of a JSON body. */
export function fromJson(text: string): ParsedBody {
  try {
    const payload = parseExactJson(text);
    return isTooDeep(payload) ? { problem: "too_deep", text } : { payload, text };
  } catch {
    return { problem: "malformed", text };
  }
}

function fromForm(text: string): ParsedBody {
  if (hasTooManyFields(text)) return { problem: "too_many_fields", text };
  const form = Object.fromEntries(new URLSearchParams(text));
  const inner = form["payload"] === undefined ? undefined : fromJson(form["payload"]);
  return { payload: inner && "payload" in inner ? inner.payload : form, text };
}

/** Counts before anything is built: a megabyte can hold half a million fields. */
function hasTooManyFields(form: string): boolean {
  let fields = 1;
  for (let at = form.indexOf("&"); at !== -1; at = form.indexOf("&", at + 1)) {
    if (++fields > MAX_FORM_FIELDS) return true;
  }
  return false;
}

/** The JSON parser takes any depth. Checking its result costs a fifth of checking the text. */
function isTooDeep(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return !isExactNumber(value);
  if (Array.isArray(value)) return value.some((each) => isTooDeep(each, levels - 1));
  // A list of the values would cost more than the check itself. What JSON.parse returns inherits no keys.
  for (const key in value) if (isTooDeep((value as Record<string, unknown>)[key], levels - 1)) return true;
  return false;
}

/** Thrown inside a transaction, which it rolls back: another delivery has the key. */
export class DuplicateDelivery extends Error {
  override readonly name = "DuplicateDelivery";
}

/** How long the sender's id identifies a delivery. */
const ID_KEEP_MS = 3_600_000;
/** Twice the largest tolerance of a route. After that the signature is stale. */
const SIGNATURE_KEEP_MS = 1_800_000;

export interface DedupeKey {
  readonly route: string;
  readonly deliveryId: string;
  /** Identifies the signature, when its scheme signs the time. */
  readonly nonce: string | undefined;
}

/** `delivery`: the id of the record, `dlv_...`. */
type RecordedKey = DedupeKey & { readonly delivery: string };

/** Claims the key inside `tx`, until {@link commitKey} or {@link releaseKey}. DuplicateDelivery when it is taken. */
export async function reserveKey(tx: Tx, { ledger }: Store, key: DedupeKey): Promise<void> {
  for (const { keepMs, ...entry } of entriesOf(key)) {
    const claim = await ledger.claim(tx, { ...entry, fingerprint: key.deliveryId, leaseMs: keepMs });
    if (!claim.claimed) throw new DuplicateDelivery();
  }
}

/** Reserves and commits the key in one step, for a delivery that `tx` records completely. */
export async function recordKey(tx: Tx, { ledger }: Store, { delivery, ...key }: RecordedKey): Promise<void> {
  for (const entry of entriesOf(key)) {
    const claim = await ledger.record(tx, { ...entry, fingerprint: key.deliveryId, result: delivery });
    if (!claim.claimed) throw new DuplicateDelivery();
  }
}

/** Keeps a reserved key for its whole time, inside `tx`. */
export async function commitKey(tx: Tx, { ledger }: Store, { delivery, ...key }: RecordedKey): Promise<void> {
  for (const { keepMs, ...entry } of entriesOf(key))
    await ledger.finish(tx, entry, { result: delivery, keepMs });
}

/** Frees a reserved key, so that the sender may try again. */
export async function releaseKey(tx: Tx, { ledger }: Store, dedupeKey: DedupeKey): Promise<void> {
  for (const { scope, key } of entriesOf(dedupeKey)) await ledger.release(tx, { scope, key });
}

/** Frees every key of a delivery, in any process and without its signature. */
export async function releaseAllKeys(
  tx: Tx,
  { id, route, delivery_id: deliveryId }: Pick<DeliveryRow, "id" | "route" | "delivery_id">,
): Promise<void> {
  await deleteDedupeKeys(tx, { scopes: [idScope(route), signatureScope(route)], deliveryId, delivery: id });
}

/** Resolves to the id of the delivery that has the key. Undefined: the request is new. */
export type FindDuplicate = (dedupeKey: DedupeKey) => Promise<string | undefined>;

export function createFindDuplicate({
  store,
  clock,
}: {
  readonly store: Store;
  readonly clock: Pick<Clock, "now">;
}): FindDuplicate {
  return async (dedupeKey) => {
    for (const { scope, key } of entriesOf(dedupeKey)) {
      const row = await store.find("ledger", { scope, key });
      if (row && row.expires_at > clock.now()) return row.fingerprint;
    }
    return undefined;
  };
}

function entriesOf({ route, deliveryId, nonce }: DedupeKey) {
  const id = { scope: idScope(route), key: deliveryId, keepMs: ID_KEEP_MS };
  if (nonce === undefined) return [id];
  return [id, { scope: signatureScope(route), key: sha256(nonce), keepMs: SIGNATURE_KEEP_MS }];
}

const idScope = (route: string): string => `webhook:${route}`;
const signatureScope = (route: string): string => `webhook-signature:${route}`;

type FailedDelivery = Pick<DedupeKey, "route" | "deliveryId">;

/**
 * Keeps the message ids of a failed delivery for as long as its own id would be kept, inside `tx`. When the sender tries
 * again, the targets get the same ids.
 */
export async function keepFailedMessages(
  tx: Tx,
  failed: FailedDelivery,
  messages: readonly Pick<DeliveryMessage, "id" | "target">[],
): Promise<void> {
  const key = failedKey(failed);
  const result = JSON.stringify(Object.fromEntries(messages.map(({ id, target }) => [target, id])));
  const set = { result, expires_at: tx.nowMs + ID_KEEP_MS };
  if ((await tx.update("ledger", key, set)) > 0) return;
  const entry = { ...key, ...set, fingerprint: failed.deliveryId, status: "done" };
  await tx.insert("ledger", [{ ...entry, owner: "", created_at: tx.nowMs }]);
}

/**
 * Enqueues a message again under the id with which it failed, inside `tx`. Undefined: it did not fail, or it failed with
 * another text. A target that received that text without saying so would drop this one as a repeat.
 */
export async function requeueFailedMessage(
  tx: Tx,
  failed: FailedDelivery,
  message: { readonly target: string; readonly payload: unknown; readonly ref: string },
): Promise<string | undefined> {
  const entry = await tx.find("ledger", failedKey(failed));
  if (!entry?.result || entry.expires_at <= tx.nowMs) return undefined;
  const ids = JSON.parse(entry.result) as unknown;
  const id = isRecord(ids) && Object.hasOwn(ids, message.target) ? String(ids[message.target]) : undefined;
  const row = id === undefined ? undefined : await tx.find("outbox", { id });
  if (row?.status !== "dead" || row.payload !== JSON.stringify(message.payload)) return undefined;
  const due = { status: "due", attempts: 0, available_at: tx.nowMs, retried_at: tx.nowMs, done_at: null };
  const again = { ...due, ref: message.ref, last_error: null };
  const changed = await tx.update("outbox", { id: row.id, status: "dead" }, again);
  return changed === 1 ? row.id : undefined;
}

const failedKey = ({ route, deliveryId }: FailedDelivery) => ({
  scope: `webhook-failed:${route}`,
  key: deliveryId,
});
