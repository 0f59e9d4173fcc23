/** Fields of a request, by their dotted names. Pure. */
import { isExactNumber } from "../../base/json/exact-json.ts";

/** What filters and templates look at. */
export interface WebhookSubject {
  /** Parsed body: any JSON value. */
  readonly payload: unknown;
  /** Resolved type of the event. */
  readonly event: string;
  readonly headers: { get(name: string): string | null };
}

/** Stands for a field that is not there; null is there. */
export const MISSING = Symbol("missing");

/**
 * What a filter's `field` means: `event` and `event_type` the type of the event, `headers.<Name>` a header in any case,
 * `payload.<x>` a field of the top-level `payload` when there is one, else of the root, and anything else a field of the
 * root. Empty segments do not count; numbers go into lists.
 */
export function fieldOf({ payload, event, headers }: WebhookSubject, path: string): unknown {
  const [first, ...rest] = segmentsOf(path);
  if (first === undefined) return MISSING;
  if ((first === "event" || first === "event_type") && rest.length === 0) return event;
  if (first === "headers") return headerOf(headers, rest.join("."));
  if (first === "payload") return walk(hasOwn(payload, "payload") ? payload["payload"] : payload, rest);
  return walk(payload, [first, ...rest]);
}

/** The value behind segments: names of objects, positions in lists. */
export function walk(from: unknown, segments: readonly string[]): unknown {
  let value = from;
  for (const segment of segments) {
    if (Array.isArray(value)) {
      if (!POSITION.test(segment) || Number(segment) >= value.length) return MISSING;
      value = value[Number(segment)];
    } else if (hasOwn(value, segment)) value = value[segment];
    else return MISSING;
  }
  return value;
}

const POSITION = /^\d{1,9}$/;

export function segmentsOf(path: string): readonly string[] {
  return path.split(".").filter((segment) => segment !== "");
}

function headerOf(headers: WebhookSubject["headers"], name: string): unknown {
  // Headers refuse to be asked for what is no name at all.
  return HEADER_NAME.test(name) ? (headers.get(name) ?? MISSING) : MISSING;
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Own fields alone: `constructor` and its like are none of a payload's. */
function hasOwn(value: unknown, name: string): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !isExactNumber(value) && Object.hasOwn(value, name);
}
