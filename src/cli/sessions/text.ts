/** Sessions and messages as people and programs read them. Pure. */
import { type NumberedMessage, readTranscript } from "../../agent/session/transcript.ts";
import { textOf, type AssistantPart, type Attachment, type Message } from "../../agent/message.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";

/** What `show` prints of one text; `export` writes all of it. */
const MAX_SHOWN_CHARACTERS = 4000;

/** Name and value of what there is to know of a session. */
export function factsOf(row: SessionRow): readonly (readonly [string, string])[] {
  const facts: readonly (readonly [string, string | null])[] = [
    ["id", row.id],
    ["title", row.title],
    ["owner", row.owner],
    ["source", row.source],
    ["model", row.model],
    ["cwd", row.cwd],
    ["parent", row.parent_id],
    ["created", iso(row.created_at)],
    ["updated", iso(row.updated_at)],
    ["messages", String(row.last_message)],
    ["usage", row.usage],
    ["state", row.lease_owner === null ? "idle" : "busy"],
  ];
  return facts.flatMap(([name, value]) => (value === null ? [] : [[name, oneLine(value)] as const]));
}

/** One JSON document: the session's facts, and all messages with their numbers. */
export async function* toJson(row: SessionRow, pages: Pages): AsyncGenerator<string> {
  const session = {
    id: row.id,
    title: row.title,
    owner: row.owner,
    session_key: row.session_key,
    source: row.source,
    model: row.model,
    cwd: row.cwd,
    parent_id: row.parent_id,
    settings: JSON.parse(row.meta) as unknown,
    usage: row.usage === null ? null : (JSON.parse(row.usage) as unknown),
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
    is_busy: row.lease_owner !== null,
  };
  yield `{\n"session": ${JSON.stringify(session, null, 2)},\n"messages": [`;
  let separator = "\n";
  for await (const page of pages) {
    for (const { seq, message } of page) {
      yield `${separator}${JSON.stringify({ seq, ...message })}`;
      separator = ",\n";
    }
  }
  yield "\n]\n}\n";
}

export async function* toMarkdown(row: SessionRow, pages: Pages): AsyncGenerator<string> {
  yield `# ${oneLine(row.title ?? row.id)}\n\n`;
  for (const [name, value] of factsOf(row)) yield `- ${name}: ${value}\n`;
  for await (const page of pages) {
    for (const { message } of page) yield `\n## ${headingOf(message)}\n\n${markdownOf(message)}\n`;
  }
}

/** A message for the terminal; control characters, which could steer it, are made visible. */
export function messageText({ seq, message }: NumberedMessage): string {
  const body =
    message.role === "assistant"
      ? message.parts.map((part) => cut(partText(part))).join("\n")
      : [cut(message.text), ...attachmentLines(message)].join("\n");
  return visible(`[${seq}] ${headingOf(message)}\n${body}`.trimEnd());
}

/** For one line of a terminal. */
export function oneLine(text: string): string {
  return visible(text.replace(/\s+/g, " ").trim());
}

function headingOf(message: Message): string {
  if (message.role === "tool") return `Tool ${message.tool} (${message.status})`;
  if (message.role === "assistant") return message.interrupted ? "Assistant (interrupted)" : "Assistant";
  if (message.role === "system") return "Instructions";
  return message.origin === "steer" ? "User (while it worked)" : "User";
}

function partText(part: AssistantPart): string {
  if (part.type === "text") return part.text;
  if (part.type === "reasoning") return `(thought) ${part.text}`;
  return `-> ${part.tool} ${JSON.stringify(part.input)}`;
}

function markdownOf(message: Message): string {
  if (message.role === "tool") return fenced(message.text, "");
  if (message.role !== "assistant") return [textOf(message), ...attachmentLines(message)].join("\n\n");
  return message.parts.map(markdownPart).join("\n\n");
}

function markdownPart(part: AssistantPart): string {
  if (part.type === "text") return part.text;
  if (part.type === "reasoning") return part.text.replace(/^/gm, "> ");
  return `Calls \`${part.tool}\`:\n\n${fenced(JSON.stringify(part.input, null, 2), "json")}`;
}

/** The fence is longer than any in the text (CommonMark 0.31, 4.5). */
function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
}

function attachmentLines(message: Message): readonly string[] {
  const attachments: readonly Attachment[] = message.role === "user" ? (message.attachments ?? []) : [];
  return attachments.map(({ type, mediaType, name }) => `[${type} ${mediaType}${name ? ` ${name}` : ""}]`);
}

function cut(text: string): string {
  if (text.length <= MAX_SHOWN_CHARACTERS) return text;
  const left = text.length - MAX_SHOWN_CHARACTERS;
  return `${text.slice(0, MAX_SHOWN_CHARACTERS)}\n(${left} more characters; \`agentd sessions export\` has all)`;
}

function visible(text: string): string {
  return text.replace(CONTROL, "\uFFFD");
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** All but tab and line feed, and those that turn the direction of the text around. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Few, since a message may carry files of some megabytes. */
const PAGE = 16;

export type Pages = AsyncIterable<readonly NumberedMessage[]>;

/** All that there are at the time of the call, oldest first. */
export async function* readPages(store: Store, { id, last_message: last }: SessionRow): Pages {
  // Each window of numbers holds at most a page; what was taken back leaves gaps, which the page before then fills.
  for (let from = 1; from <= last; from += PAGE) {
    const { messages } = await readTranscript(store, id, { before: from + PAGE, limit: PAGE });
    const page = messages.filter(({ seq }) => seq >= from && seq <= last);
    if (page.length > 0) yield page;
  }
}

/** The newest `count`, oldest first. Summaries are no messages, so more is read until there are enough. */
export async function* newestMessages(store: Store, { id }: SessionRow, count: number): Pages {
  let found: readonly NumberedMessage[] = [];
  let before = Number.MAX_SAFE_INTEGER;
  for (let more = true; more && found.length < count;) {
    const page = await readTranscript(store, id, { before, limit: count });
    found = [...page.messages, ...found];
    before = page.messages[0]?.seq ?? 0;
    more = page.hasMore && before > 0;
  }
  yield found.slice(-count);
}
