import { isExactNumber } from "../../base/data.ts";
import { headOf, Fence } from "../../base/text.ts";
import type { TextPiece } from "../../deliver/target.ts";

/** What filters and templates read. */
export interface WebhookSubject {
  /** Parsed body: any JSON value. */
  readonly payload: unknown;
  readonly event: string;
  readonly headers: { get(name: string): string | null };
}

/** The parts of a route that its text needs. */
export interface RenderedRoute {
  readonly name: string;
  /** Undefined: the payload itself. */
  readonly prompt: string | undefined;
}

export interface PromptedRoute extends RenderedRoute {
  /** True: the sender's text counts like the route's own, and is not marked as data. */
  readonly trustsSender: boolean;
}

/** Marks text of the sender. */
type Mark = (text: string) => string;

/** Limits on what a template may take from a payload. */
const MAX_PAYLOAD_CHARACTERS = 4_000;
const MAX_OBJECT_CHARACTERS = 2_000;
/** For all values of one template together: it may name the same field many times. */
const MAX_VALUES_CHARACTERS = 1_048_576;

const TOKEN = /\{([A-Za-z0-9_.]+)\}/g;

/**
 * Returns the prompt for the agent: the skill, then the route's text with the sender's text between marks that the sender
 * cannot know. A signature proves who sent an event, not that the titles and comments in it are harmless.
 */
export function renderPrompt(
  route: PromptedRoute,
  subject: WebhookSubject,
  skill?: { readonly prompt: string },
): string {
  const fence = new Fence("webhook-data");
  const mark: Mark = (text) => (isPlain(text) ? text : fence.around(text));
  const text = renderRoute(route, subject, route.trustsSender ? undefined : mark);
  return [
    ...(skill ? [skill.prompt] : []),
    ...(fence.isUsed ? [fence.notice("was written by the sender of this event")] : []),
    text,
  ].join("\n\n");
}

/** A word, a number, a hash or a short path: too little to carry instructions, and easier to read without marks. */
const PLAIN = /^[A-Za-z0-9_.:/@#+-]{1,100}$/;
const HASH = /^[0-9a-f]{7,64}$/;
/** Dashes and dots can separate the words of a sentence. */
const MAX_WORDS = 4;

function isPlain(text: string): boolean {
  if (!PLAIN.test(text)) return false;
  return HASH.test(text) || text.split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])/).filter(Boolean).length <= MAX_WORDS;
}

/** Returns the text of a route for the agent. */
function renderRoute(route: RenderedRoute, subject: WebhookSubject, mark: Mark = unmarked): string {
  if (route.prompt !== undefined) return renderTemplate(route.prompt, subject, mark);
  const block = `\`\`\`json\n${jsonExcerpt(subject.payload, MAX_PAYLOAD_CHARACTERS)}\n\`\`\``;
  return `Webhook event '${mark(subject.event)}' on route '${route.name}':\n\n${mark(block)}`;
}

/**
 * Returns the text of a route as a message: the words of the template are Markdown, and what the sender wrote is literal, so
 * that it reaches people as it is.
 */
export function renderMessage(route: RenderedRoute, subject: WebhookSubject): readonly TextPiece[] {
  if (route.prompt !== undefined) return renderPieces(route.prompt, subject);
  return [
    { markdown: "Webhook event '" },
    { literal: subject.event },
    { markdown: `' on route '${route.name}':\n\n\`\`\`json\n` },
    { literal: jsonExcerpt(subject.payload, MAX_PAYLOAD_CHARACTERS) },
    { markdown: "\n```" },
  ];
}

/**
 * Replaces each `{a.b}` by that field of the payload, `{__raw__}` by the whole payload and `{event_type}` by the event
 * type. Names of missing fields stay as written. Values are not expanded again.
 */
export function renderTemplate(template: string, subject: WebhookSubject, mark: Mark = unmarked): string {
  return renderPieces(template, subject)
    .map((piece) => ("literal" in piece ? mark(piece.literal) : piece.markdown))
    .join("");
}

/** Like {@link renderTemplate}, with the values apart from the words of the template. */
function renderPieces(template: string, subject: WebhookSubject): readonly TextPiece[] {
  const pieces: TextPiece[] = [];
  let left = MAX_VALUES_CHARACTERS;
  let from = 0;
  for (const { 0: token, 1: path = "", index } of template.matchAll(TOKEN)) {
    const value = valueOf(subject, path);
    if (value === undefined) continue;
    const literal = headOf(value, left);
    left -= literal.length;
    pieces.push({ markdown: template.slice(from, index) }, { literal });
    from = index + token.length;
  }
  return [...pieces, { markdown: template.slice(from) }];
}

/** Returns the fields that a template names and the payload does not have, as they are written. */
export function missingFields(template: string, subject: WebhookSubject): readonly string[] {
  const tokens = [...template.matchAll(TOKEN)];
  return tokens.flatMap(([token, path = ""]) => (valueOf(subject, path) === undefined ? [token] : []));
}

/** Renders the templates in all texts of `value`, at any depth. */
export function renderTexts(value: unknown, subject: WebhookSubject): unknown {
  if (typeof value === "string") return renderTemplate(value, subject);
  if (Array.isArray(value)) return value.map((each) => renderTexts(each, subject));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, renderTexts(each, subject)]));
}

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

/** The value of a field that does not exist; null is a value. */
export const MISSING = Symbol("missing");

/**
 * Returns the value of a filter's `field`: `event` and `event_type` are the event type, `headers.<Name>` a header in any
 * case, `payload.<x>` a field of the top-level `payload` or else of the root, and anything else a field of the root.
 * Empty segments do not count; numbers index lists.
 */
export function fieldOf({ payload, event, headers }: WebhookSubject, path: string): unknown {
  const [first, ...rest] = segmentsOf(path);
  if (first === undefined) return MISSING;
  if ((first === "event" || first === "event_type") && rest.length === 0) return event;
  if (first === "headers") return headerOf(headers, rest.join("."));
  if (first === "payload") return walk(hasOwn(payload, "payload") ? payload["payload"] : payload, rest);
  return walk(payload, [first, ...rest]);
}

/** Follows segments: names of objects, positions in lists. */
function walk(from: unknown, segments: readonly string[]): unknown {
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

function segmentsOf(path: string): readonly string[] {
  return path.split(".").filter((segment) => segment !== "");
}

function headerOf(headers: WebhookSubject["headers"], name: string): unknown {
  // `Headers.get` throws for text that cannot be a header name.
  return HEADER_NAME.test(name) ? (headers.get(name) ?? MISSING) : MISSING;
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Own fields only: `constructor` and the like are not fields of a payload. */
function hasOwn(value: unknown, name: string): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !isExactNumber(value) && Object.hasOwn(value, name);
}

const INDENT = "  ";

/**
 * Returns the first `max` characters of `JSON.stringify(value, undefined, 2)`, never splitting a character. It does not
 * visit what comes after them: a long payload costs no more than a short one.
 */
export function jsonExcerpt(value: unknown, max: number): string {
  const excerpt = new Excerpt(max);
  excerpt.write(value, "\n");
  return headOf(excerpt.text, max);
}

class Excerpt {
  readonly #max: number;
  text = "";

  constructor(max: number) {
    this.#max = max;
  }

  get #left(): number {
    return this.#max - this.text.length;
  }

  /** `line` starts each line of the enclosing value: a line break and its indent. */
  write(value: unknown, line: string): void {
    if (typeof value === "string") this.#string(value);
    else if (Array.isArray(value)) this.#list(value, line);
    else if (typeof value === "object" && value !== null && !isExactNumber(value)) this.#object(value, line);
    else this.text += JSON.stringify(value) ?? "null";
  }

  /** JSON text is never shorter than the string, so the rest of a long string does not count. */
  #string(value: string): void {
    this.text += JSON.stringify(value.slice(0, Math.max(0, this.#left + 2)));
  }

  #list(list: readonly unknown[], line: string): void {
    if (list.length === 0) {
      this.text += "[]";
      return;
    }
    let before = "[";
    for (const each of list) {
      if (this.#left < 0) return;
      this.text += before + line + INDENT;
      this.write(each, line + INDENT);
      before = ",";
    }
    this.text += `${line}]`;
  }

  #object(object: object, line: string): void {
    let before = "{";
    // `Object.entries` would copy all of a large object for the few names that are shown.
    for (const name in object) {
      if (!Object.hasOwn(object, name)) continue;
      if (this.#left < 0) return;
      this.text += before + line + INDENT;
      this.#string(name);
      this.text += ": ";
      this.write(object[name as keyof typeof object], line + INDENT);
      before = ",";
    }
    this.text += before === "{" ? "{}" : `${line}}`;
  }
}
