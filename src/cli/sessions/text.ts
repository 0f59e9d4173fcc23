/** Sessions and their messages as text, and text that is safe to print. */
import { formatUsd } from "../../agent/usage/usage.ts";
import type { RunUsage, Session, SessionMessage } from "../../client/http.ts";

/** The limit of one text in `show`. `export` writes the whole text. */
const MAX_SHOWN_CHARACTERS = 4000;

/** Returns a session as lines of names and values. */
export function sessionText(session: Session): string {
  const { status, queued, usage } = session;
  const rows: readonly (readonly [string, string | null])[] = [
    ["id", session.id],
    ["title", session.title],
    ["owner", session.owner],
    ["source", session.source],
    ["model", session.model],
    ["cwd", session.cwd],
    ["parent", session.parent_id],
    ["created", iso(session.created_at)],
    ["updated", iso(session.updated_at)],
    ["messages", String(session.message_count)],
    ["usage", usage === null ? null : usageText(usage)],
    ["status", queued > 0 ? `${status}, ${queued} queued` : status],
    ["run", session.run_id],
  ];
  return rows
    .flatMap(([name, value]) => (value === null ? [] : [`${name.padEnd(9)} ${oneLine(value)}`]))
    .join("\n");
}

/** Returns the usage in words: tokens in and out, what came from the cache, calls and the cost. */
function usageText(usage: RunUsage): string {
  const count = (value: number) => value.toLocaleString("en-US");
  const plural = (value: number, noun: string) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
  const { cached_input_tokens: cached, cost_usd: cost } = usage;
  return [
    `${plural(usage.input_tokens, "token")} in${cached > 0 ? ` (${count(cached)} from the cache)` : ""}`,
    `${count(usage.output_tokens)} out`,
    plural(usage.model_calls, "model call"),
    plural(usage.tool_calls, "tool call"),
    ...(typeof cost === "number" ? [formatUsd(cost)] : []),
  ].join(", ");
}

/** A message for the terminal; control characters, which could steer it, are made visible. */
export function messageText(message: SessionMessage): string {
  const { sequence, text, reasoning, tool_calls: calls, attachments } = message;
  const parts = [
    ...(reasoning === null ? [] : [cut(`(thought) ${reasoning}`)]),
    ...(text === null || text === "" ? [] : [cut(text)]),
    ...calls.map((call) => cut(`-> ${call.name} ${call.arguments}`)),
    ...attachments.map(({ kind, media_type: type, name }) => `[${kind} ${type}${name ? ` ${name}` : ""}]`),
  ];
  return visible(`[${sequence}] ${headingOf(message)}\n${parts.join("\n")}`.trimEnd());
}

function headingOf({ role, tool, status, is_summary: isSummary }: SessionMessage): string {
  if (role === "tool") return `Tool ${tool} (${status})`;
  if (role === "assistant") return "Assistant";
  if (role === "system") return "Instructions";
  return isSummary ? "Summary" : "User";
}

function cut(text: string): string {
  if (text.length <= MAX_SHOWN_CHARACTERS) return text;
  const left = text.length - MAX_SHOWN_CHARACTERS;
  return `${text.slice(0, MAX_SHOWN_CHARACTERS)}\n(${left} more characters; see \`agentd sessions export\`)`;
}

/** Returns the text as one line that is safe to print. */
export function oneLine(text: string): string {
  return visible(text.replace(/\s+/g, " ").trim());
}

/** Replaces control characters, which could steer a terminal, except tab and line feed. */
export function visible(text: string): string {
  return text.replace(CONTROL, "\uFFFD");
}

function iso(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** Control characters except tab and line feed, and characters that change the text direction. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
