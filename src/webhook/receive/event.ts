/** The event of a request and its name. */
import { isRecord } from "../../base/json/schema.ts";
import { sha256 } from "../../base/digest.ts";
import { isExactNumber, parseExactJson } from "../../base/json/exact-json.ts";

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
  { eventHeader: "x-event-key", deliveryHeader: "x-request-uuid" },
];

const MAX_NAME_CHARACTERS = 200;

/** Returns the event type from a header, else from `event_type` or `type` of the payload, else `unknown`. */
export function eventTypeOf(headers: HeaderLike, payload: unknown): string {
  for (const { eventHeader } of WEBHOOK_SOURCES) {
    const type = headers.get(eventHeader);
    if (type) return type.slice(0, MAX_NAME_CHARACTERS);
  }
  const fields = isRecord(payload) ? [payload["event_type"], payload["type"]] : [];
  for (const field of fields) {
    const type = typeof field === "string" ? cleanName(field) : "";
    if (type !== "") return type;
  }
  return "unknown";
}

const DELIVERY_HEADERS = [
  ...WEBHOOK_SOURCES.flatMap(({ deliveryHeader }) => deliveryHeader ?? []),
  "svix-id",
  "webhook-id",
  "x-request-id",
];

/** Returns the sender's id of the delivery. Undefined: the sender gives none, and its retries count as new deliveries. */
export function deliveryIdOf(headers: HeaderLike): string | undefined {
  for (const name of DELIVERY_HEADERS) {
    const id = headers.get(name)?.trim();
    if (id) return boundedId(id);
  }
  return undefined;
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
  const inner: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const each of inner) if (isTooDeep(each, levels - 1)) return true;
  return false;
}
