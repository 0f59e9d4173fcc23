/** GET /v1/sessions/{session_id}/export: a whole session as JSON, as lines of JSON or as Markdown. */
import { formatModel } from "../../../agent/model.ts";
import type { AssistantPart, Attachment, Message } from "../../../agent/engine.ts";
import { nameOfId, textOf } from "../../../agent/session/session.ts";
import { redact } from "../../../base/observe.ts";
import type { SessionRow } from "../../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { sessionOf, showMessage, showSession } from "./sessions.ts";

const EXTENSIONS = { json: "json", jsonl: "jsonl", markdown: "md" };

/** GET /v1/sessions/{session_id}/export: reads a page of messages whenever the client has read the one before. */
export async function exportSession(
  { path, query, ctx }: HttpRequest<"exportSession", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"exportSession">> {
  const row = await sessionOf(path.session_id, ctx, deps);
  const { format } = query;
  const name = `session-${row.id.replaceAll(/[^\w.-]+/g, "_").slice(0, 100)}.${EXTENSIONS[format]}`;
  const write = { json: toJson, jsonl: toJsonLines, markdown: toMarkdown }[format];
  return {
    status: 200,
    headers: { "content-disposition": `attachment; filename="${name}"` },
    raw: write(row, deps),
    contentType: "text/plain; charset=utf-8",
  };
}

async function* toJson(row: SessionRow, deps: HttpDeps): AsyncGenerator<string> {
  yield `{"session":${JSON.stringify(await showSession(row, deps))},"messages":[`;
  let separator = "\n";
  for await (const message of messagesOf(row, deps)) {
    yield separator + JSON.stringify(showMessage(message, true));
    separator = ",\n";
  }
  yield "\n]}\n";
}

async function* toJsonLines(row: SessionRow, deps: HttpDeps): AsyncGenerator<string> {
  yield `${JSON.stringify(await showSession(row, deps))}\n`;
  for await (const message of messagesOf(row, deps)) yield `${JSON.stringify(showMessage(message, true))}\n`;
}

async function* toMarkdown(row: SessionRow, deps: HttpDeps): AsyncGenerator<string> {
  const title = redact(row.title ?? nameOfId(row.id)).replaceAll(/\s+/g, " ");
  yield `# ${title}\n\n- session: ${nameOfId(row.id)}\n- model: ${row.model ?? formatModel(deps.models.default)}\n`;
  for await (const { content } of messagesOf(row, deps)) {
    const message = JSON.parse(content) as Message;
    yield `\n## ${headingOf(message)}\n\n${redact(markdownOf(message))}\n`;
  }
}

function headingOf(message: Message): string {
  if (message.role === "tool") return `Tool ${message.tool} (${message.status})`;
  if (message.role === "assistant") return message.interrupted ? "Assistant (interrupted)" : "Assistant";
  if (message.role === "system") return "Instructions";
  if (message.origin === "summary") return "Summary";
  return message.origin === "steer" ? "User (while it worked)" : "User";
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

/** Messages can have attachments of several megabytes, so few are read at a time. */
const PAGE_MESSAGES = 16;

async function* messagesOf({ id, last_message: last }: SessionRow, { agent }: HttpDeps) {
  for (let after = 0; ;) {
    const rows = await agent.sessions.reads.listMessages(id, { order: "asc", after, count: PAGE_MESSAGES });
    for (const row of rows) if (row.seq <= last) yield row;
    const end = rows.at(-1)?.seq ?? last;
    if (end >= last) return;
    after = end;
  }
}
