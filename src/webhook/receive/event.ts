/** What a request tells of, and what it is called. */
import { isRecord } from "../../base/json/schema.ts";
import { sha256 } from "../../base/digest.ts";
import { WEBHOOK_SOURCES } from "./source.ts";

interface HeaderLike {
  get(name: string): string | null;
}

/** What a sender may say of itself in a name. */
const MAX_NAME_CHARACTERS = 200;

/** The first that is not empty: a header of a known service, `event_type` or `type` of the payload, else `unknown`. */
export function eventTypeOf(headers: HeaderLike, payload: unknown): string {
  for (const { eventHeader } of WEBHOOK_SOURCES) {
    const named = headers.get(eventHeader);
    if (named) return named.slice(0, MAX_NAME_CHARACTERS);
  }
  const fields = isRecord(payload) ? [payload["event_type"], payload["type"]] : [];
  for (const field of fields) {
    const named = typeof field === "string" ? plain(field) : "";
    if (named !== "") return named;
  }
  return "unknown";
}

const DELIVERY_HEADERS = [
  ...WEBHOOK_SOURCES.flatMap(({ deliveryHeader }) => deliveryHeader ?? []),
  "svix-id",
  "webhook-id",
  "x-request-id",
];

/**
 * What the sender calls this delivery. Undefined when it has no name for it: then it is given one that no other has,
 * and attempts at it are not told apart from new ones.
 */
export function deliveryIdOf(headers: HeaderLike): string | undefined {
  for (const name of DELIVERY_HEADERS) {
    const id = headers.get(name)?.trim();
    if (id) return bounded(id);
  }
  return undefined;
}

/** A long id stays another than all others, and the same with each attempt. */
function bounded(id: string): string {
  return id.length <= MAX_NAME_CHARACTERS ? id : `${id.slice(0, 100)}-${sha256(id)}`;
}

/** The name goes into tables, variables of scripts and titles: not all of them take whatever JSON can say. */
function plain(name: string): string {
  return name.slice(0, MAX_NAME_CHARACTERS).replaceAll(CONTROL, "").toWellFormed();
}

const CONTROL = /\p{Cc}/gu;
