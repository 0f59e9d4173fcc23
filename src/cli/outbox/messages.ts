/** Outbound messages as text. */
import { redact } from "../../base/observe.ts";
import { suggest } from "../../base/suggest.ts";
import { shorten } from "../../base/text.ts";
import type { Message, MessageAttempt } from "../../client/http.ts";
import { messageHint, statusOfShown } from "../../deliver/outbox/message.ts";
import { formatTarget, parseTarget, platforms } from "../../deliver/target.ts";
import type { Api } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { listTime } from "../kit/output.ts";
import { readPages } from "../kit/pages.ts";
import { oneLine } from "../sessions/text.ts";

/** Characters of an address in a list: an address may be private. */
const SHOWN_ADDRESS = 12;
const SHOWN_ERROR = 80;
/** Most characters of a text that are printed; `--json` prints the whole text. */
const MAX_SHOWN_CHARACTERS = 4_000;

export const MESSAGE_HEAD = [
  "ID",
  "CREATED",
  "TARGET",
  "ATTEMPTS",
  "STATUS",
  "NEXT ATTEMPT",
  "LAST ERROR",
] as const;

type Query = NonNullable<NonNullable<Parameters<Api["client"]["listMessages"]>[0]>["query"]>;

/** Returns the messages of a query, newest first, and after which id more follow. */
export async function listMessages(
  { client, anyOwner: headers }: Api,
  filter: Query,
  { limit, before }: { readonly limit: number; readonly before?: string | undefined },
): Promise<{ readonly messages: readonly Message[]; readonly next: string | null }> {
  const read = (page: object) => client.listMessages({ query: { ...filter, ...page }, headers });
  const { rows: messages, next } = await readPages(read, { limit, after: before });
  return { messages, next };
}

/** Returns the cells of a message in a table with {@link MESSAGE_HEAD}. */
export function messageCells(message: Message, nowMs: number): readonly string[] {
  const { id, created_at: createdAt, target, attempts, status, last_error: error } = message;
  return [
    id,
    listTime(createdAt * 1000, nowMs),
    oneLine(shortTarget(target)),
    String(attempts),
    status,
    nextAttempt(message, nowMs, (atMs) => listTime(atMs, nowMs)),
    shorten(oneLine(redact(error ?? "")), SHOWN_ERROR),
  ];
}

export function messageText(message: Message, nowMs: number): string {
  const {
    id,
    target,
    status,
    ref,
    attempts,
    parts_sent: partsSent,
    last_error: error,
    files,
    text,
  } = message;
  const next = nextAttempt(message, nowMs);
  const facts: readonly (readonly [string, string | null])[] = [
    ["id", id],
    ["target", redact(target)],
    ["status", status],
    ["created", iso(message.created_at * 1000)],
    ["created by", ref],
    ["attempts", String(attempts)],
    ["parts sent", partsSent > 0 ? String(partsSent) : null],
    ["last error", error],
    ["files", files === null || files.length === 0 ? null : files.join(", ")],
    ["next", next === "-" ? null : next],
    ["ended", message.ended_at === null ? null : iso(message.ended_at * 1000)],
  ];
  const log = message.attempt_log ?? [];
  const todo = whatToDo(message);
  return [
    ...facts.flatMap(([name, value]) => (value === null ? [] : [`${name.padEnd(11)} ${oneLine(value)}`])),
    ...(log.length === 0 ? [] : ["", "Attempts:", ...log.map(attemptLine)]),
    ...(todo === undefined ? [] : ["", todo]),
    ...(text === null ? [] : ["", "Text:", block(redact(text))]),
  ].join("\n");
}

const OUTCOME_WORDS: Readonly<Record<MessageAttempt["outcome"], string>> = {
  delivered: "delivered",
  retry: "failed, will be retried",
  permanent: "refused",
  unknown: "may have arrived",
  stopped: "cancelled: the service stopped",
  lost: "lost: its process ended first",
};

function attemptLine({ started_at: startedAt, ended_at: endedAt, outcome, error }: MessageAttempt): string {
  const took = endedAt === null ? "" : ` after ${(endedAt - startedAt).toFixed(1)} s`;
  const why = error === null ? "" : `: ${redact(error)}`;
  return `  ${iso(startedAt * 1000)} ${oneLine(`${OUTCOME_WORDS[outcome]}${took}${why}`)}`;
}

function whatToDo({ id, status, ref, waits_for: waitsFor }: Message): string | undefined {
  const isBlocked = waitsFor !== null;
  const hint = messageHint(
    { status: statusOfShown(status), isBlocked },
    { retry: `\`agentd outbox retry ${id}\``, drop: `\`agentd outbox drop ${id}\`` },
  );
  const isPlain = status === "sending" || isBlocked;
  return hint === undefined || isPlain || !ref?.startsWith("dlv_")
    ? hint
    : `${hint} \`agentd webhook deliveries show ${ref}\` shows the webhook delivery behind it.`;
}

function nextAttempt(
  { status, due_at: dueAt, waits_for: waitsFor }: Message,
  nowMs: number,
  format: (atMs: number) => string = iso,
): string {
  if (status === "sending") return "sending";
  if (dueAt === null) return "-";
  if (waitsFor !== null) return "after an older one";
  return dueAt * 1000 <= nowMs ? "now" : format(dueAt * 1000);
}

/** Returns the platform and the first characters of the chat. */
function shortTarget(target: string): string {
  const { platform, address } = parseTarget(target);
  return redact(formatTarget({ platform, address: shorten(address, SHOWN_ADDRESS) }));
}

/** Keeps line breaks and makes control characters visible. */
function block(text: string): string {
  const shown = text.slice(0, MAX_SHOWN_CHARACTERS);
  const left = text.length - shown.length;
  const lines = shown.split(/\r?\n/).map((line) => `  ${oneLine(line)}`);
  return [...lines, ...(left > 0 ? [`  (${left} more characters; --json prints all of them)`] : [])].join(
    "\n",
  );
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** Throws UsageError for an unknown platform. */
export function toPlatformName(text: string): string {
  if (Object.hasOwn(platforms, text)) return text;
  const hint = text.includes(":")
    ? "; give the platform only, without a chat."
    : suggest(text, Object.keys(platforms));
  throw new UsageError(`--target: ${JSON.stringify(text)} is not a platform${hint}`);
}
