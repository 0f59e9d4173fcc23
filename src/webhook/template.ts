/** Texts with fields of a request in them. Pure. */
import { MISSING, segmentsOf, walk, type WebhookSubject } from "./field.ts";

/** Bounds of the interface: what a template may take over of a payload. */
const MAX_PAYLOAD_CHARACTERS = 4_000;
const MAX_VALUE_CHARACTERS = 2_000;

const TOKEN = /\{([A-Za-z0-9_.]+)\}/g;

/**
 * The text with each `{a.b}` replaced by that field of the payload, `{__raw__}` by all of it and `{event_type}` by the
 * type of the event. What names no field stays as it is; what a field says is not looked at again.
 */
export function renderTemplate(template: string, subject: WebhookSubject): string {
  return template.replaceAll(TOKEN, (token, path: string) => {
    if (path === "__raw__") return cut(toJson(subject.payload), MAX_PAYLOAD_CHARACTERS);
    if (path === "event_type") return subject.event;
    const segments = segmentsOf(path);
    const value = segments.length === 0 ? MISSING : walk(subject.payload, segments);
    return value === MISSING ? token : shown(value);
  });
}

/** The prompt of a route that has no template: what happened, and the payload. */
export function defaultPrompt(route: string, { event, payload }: WebhookSubject): string {
  const text = cut(toJson(payload), MAX_PAYLOAD_CHARACTERS);
  return `Webhook event '${event}' on route '${route}':\n\n\`\`\`json\n${text}\n\`\`\``;
}

/** Templates in the texts of a value, however deep; anything else stays. */
export function renderTexts(value: unknown, subject: WebhookSubject): unknown {
  if (typeof value === "string") return renderTemplate(value, subject);
  if (Array.isArray(value)) return value.map((each) => renderTexts(each, subject));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, renderTexts(each, subject)]));
}

function shown(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "object" && value !== null) return cut(toJson(value), MAX_VALUE_CHARACTERS);
  return String(value);
}

function toJson(value: unknown): string {
  return JSON.stringify(value, undefined, 2) ?? "null";
}

/** Never between the halves of a character. */
function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  const isHalf = /[\uD800-\uDBFF]/.test(text[max - 1] ?? "");
  return text.slice(0, isHalf ? max - 1 : max);
}
