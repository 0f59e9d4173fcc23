/** What a request tells of. Pure. */
import { WEBHOOK_SOURCES } from "./source.ts";

interface HeaderLike {
  get(name: string): string | null;
}

/** The first that is not empty: a header of a known service, `event_type` or `type` of the payload, else `unknown`. */
export function eventTypeOf(headers: HeaderLike, payload: unknown): string {
  const fields = isObject(payload) ? [payload["event_type"], payload["type"]] : [];
  const named = [...WEBHOOK_SOURCES.map(({ eventHeader }) => headers.get(eventHeader)), ...fields];
  return named.find((name): name is string => typeof name === "string" && name !== "") ?? "unknown";
}

const DELIVERY_HEADERS = [
  ...WEBHOOK_SOURCES.flatMap(({ deliveryHeader }) => deliveryHeader ?? []),
  "svix-id",
  "webhook-id",
  "x-request-id",
];
/** What an id may have; a longer one is cut, and is still the same for each attempt. */
const MAX_ID_CHARACTERS = 200;

/**
 * What the sender calls this delivery. Undefined when it has no name for it: then it is given one that no other has,
 * and attempts at it are not told apart from new ones.
 */
export function deliveryIdOf(headers: HeaderLike): string | undefined {
  for (const name of DELIVERY_HEADERS) {
    const id = headers.get(name)?.trim();
    if (id) return id.slice(0, MAX_ID_CHARACTERS);
  }
  return undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
