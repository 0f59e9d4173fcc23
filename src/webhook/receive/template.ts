/** Texts with fields of a request in them. Pure. */
import { headOf } from "../../base/text.ts";
import { MISSING, segmentsOf, walk, type WebhookSubject } from "./field.ts";
import { jsonExcerpt } from "./json-excerpt.ts";

/** What a route says, or without a template what happened. */
export interface RenderedRoute {
  readonly name: string;
  /** Absent: the payload itself. */
  readonly prompt: string | undefined;
}

/** Marks what the sender wrote. */
export type Fence = (text: string) => string;

/** Bounds of the interface: what a template may take over of a payload. */
const MAX_PAYLOAD_CHARACTERS = 4_000;
const MAX_OBJECT_CHARACTERS = 2_000;
/** Of all texts of one payload together: a template may name the same one many times. */
const MAX_VALUES_CHARACTERS = 1_048_576;

const TOKEN = /\{([A-Za-z0-9_.]+)\}/g;

/** The text of a route, for the agent (`fence`) or as the message itself. */
export function renderRoute(route: RenderedRoute, subject: WebhookSubject, fence: Fence = unmarked): string {
  return route.prompt === undefined
    ? withoutTemplate(route.name, subject, fence)
    : renderTemplate(route.prompt, subject, fence);
}

/**
 * The text with each `{a.b}` replaced by that field of the payload, `{__raw__}` by all of it and `{event_type}` by the
 * type of the event. What names no field stays as it is; what a field says is not looked at again.
 */
export function renderTemplate(template: string, subject: WebhookSubject, fence: Fence = unmarked): string {
  let left = MAX_VALUES_CHARACTERS;
  return template.replaceAll(TOKEN, (token, path: string) => {
    const value = valueOf(subject, path);
    if (value === undefined) return token;
    const text = headOf(value, left);
    left -= text.length;
    return fence(text);
  });
}

/** Whether a template names a field that there is not. */
export function lacksField(template: string, subject: WebhookSubject): boolean {
  return [...template.matchAll(TOKEN)].some(([, path = ""]) => valueOf(subject, path) === undefined);
}

/** Templates in the texts of a value, however deep; anything else stays. */
export function renderTexts(value: unknown, subject: WebhookSubject): unknown {
  if (typeof value === "string") return renderTemplate(value, subject);
  if (Array.isArray(value)) return value.map((each) => renderTexts(each, subject));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, renderTexts(each, subject)]));
}

function withoutTemplate(route: string, { event, payload }: WebhookSubject, fence: Fence): string {
  const block = `\`\`\`json\n${jsonExcerpt(payload, MAX_PAYLOAD_CHARACTERS)}\n\`\`\``;
  return `Webhook event '${fence(event)}' on route '${route}':\n\n${fence(block)}`;
}

/** Undefined for what names no field. */
function valueOf({ payload, event }: WebhookSubject, path: string): string | undefined {
  if (path === "__raw__") return jsonExcerpt(payload, MAX_PAYLOAD_CHARACTERS);
  if (path === "event_type") return event;
  const segments = segmentsOf(path);
  const value = segments.length === 0 ? MISSING : walk(payload, segments);
  if (value === MISSING) return undefined;
  if (typeof value === "string") return value;
  if (typeof value === "object" && value !== null) return jsonExcerpt(value, MAX_OBJECT_CHARACTERS);
  return String(value);
}

function unmarked(text: string): string {
  return text;
}
