/** Formats sessions and messages as text, Markdown and JSON, a page at a time. */
import { Sessions } from "../../agent/session/sessions.ts";
import { textOf } from "../../agent/session/session.ts";
import { formatUsd } from "../../agent/usage/usage.ts";
import type { NumberedMessage, AssistantPart, Attachment, Message } from "../../agent/engine.ts";
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";

/** The limit of one text in `show`. `export` writes the whole text. */
const MAX_SHOWN_CHARACTERS = 4000;

/** Returns the names and values to show of a session. */
export function sessionRows(row: SessionRow): readonly (readonly [string, string])[] {
  const rows: readonly (readonly [string, string | null])[] = [
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
    ["usage", row.usage === null ? null : usageText(row.usage)],
    ["state", row.lease_owner === null ? "idle" : "busy"],
  ];
  return rows.flatMap(([name, value]) => (value === null ? [] : [[name, oneLine(value)] as const]));
}

/** Returns the stored usage in words: tokens in and out, what came from the cache, calls and the cost. */
function usageText(json: string): string {
  const usage = JSON.parse(json) as Partial<RunUsage>;
  const count = (value: number | undefined) => (value ?? 0).toLocaleString("en-US");
  const plural = (value: number | undefined, noun: string) =>
    `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
  const { cached_input_tokens: cached = 0, cost_usd: cost } = usage;
  return [
    `${plural(usage.input_tokens, "token")} in${cached > 0 ? ` (${count(cached)} from the cache)` : ""}`,
    `${count(usage.output_tokens)} out`,
    plural(usage.model_calls, "model call"),
    plural(usage.tool_calls, "tool call"),
    ...(typeof cost === "number" ? [formatUsd(cost)] : []),
  ].join(", ");
}

/** Writes a JSON document with the session and its numbered messages. */
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
  for (const [name, value] of sessionRows(row)) yield `- ${name}: ${value}\n`;
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

/** Returns the text as one line that is safe to print. */
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

/** Returns a code block. Its fence is longer than any in the text (CommonMark 0.31, 4.5). */
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
  return `${text.slice(0, MAX_SHOWN_CHARACTERS)}\n(${left} more characters; see \`agentd sessions export\`)`;
}

/** Replaces control characters, which could steer a terminal, except tab and line feed. */
export function visible(text: string): string {
  return text.replace(CONTROL, "\uFFFD");
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** Control characters except tab and line feed, and characters that change the text direction. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Small, since a message may have attachments of several megabytes. */
const PAGE = 16;

type Pages = AsyncIterable<readonly NumberedMessage[]>;

/** Reads all messages that exist at the time of the call, oldest first. */
export async function* readPages(store: Store, { id, last_message: last }: SessionRow): Pages {
  // Undone messages leave gaps in the numbers. The filter drops messages of the previous window that fill the page.
  for (let from = 1; from <= last; from += PAGE) {
    const { messages } = await new Sessions(store).reads.transcript(id, { before: from + PAGE, limit: PAGE });
    const page = messages.filter(({ seq }) => seq >= from && seq <= last);
    if (page.length > 0) yield page;
  }
}

/** Reads the newest `count` messages, oldest first. Summaries do not count, so it may read several pages. */
export async function* newestMessages(store: Store, { id }: SessionRow, count: number): Pages {
  let found: readonly NumberedMessage[] = [];
  let before = Number.MAX_SAFE_INTEGER;
  for (let more = true; more && found.length < count;) {
    const page = await new Sessions(store).reads.transcript(id, { before, limit: count });
    found = [...page.messages, ...found];
    before = page.messages[0]?.seq ?? 0;
    more = page.hasMore && before > 0;
  }
  yield found.slice(-count);
}
