import { redact } from "../../base/observe.ts";
import {
  filesOfPayload,
  messageHint,
  SHOWN_STATUSES,
  shownStatus,
  textOfPayload,
} from "../../deliver/outbox/message.ts";
import { formatTarget, parseTarget } from "../../deliver/target.ts";
import { type OutboxMessage, MESSAGE_STATUSES, type MessageStatus } from "../../store/outbox/messages.ts";
import type { AttemptRecord, AttemptOutcome } from "../../store/outbox/outbox.ts";
import { shorten } from "../../base/text.ts";
import { oneLine } from "../sessions/text.ts";
import { listTime } from "../kit/output.ts";
import { suggest } from "../../base/suggest.ts";
import { platforms } from "../../deliver/target.ts";
import { UsageError } from "../kit/arguments.ts";

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

/** Returns the cells of a message in a table with {@link MESSAGE_HEAD}. */
export function messageCells(message: OutboxMessage, nowMs: number): readonly string[] {
  const { id, createdAtMs, target, attempts, status, error = "" } = message;
  return [
    id,
    listTime(createdAtMs, nowMs),
    oneLine(shortTarget(target)),
    String(attempts),
    shownStatus(status),
    nextAttempt(message, nowMs, (atMs) => listTime(atMs, nowMs)),
    shorten(oneLine(redact(error)), SHOWN_ERROR),
  ];
}

interface EntryOptions {
  /** Whether the entry has the whole address. */
  readonly isWhole?: boolean;
  /** JSON. Present when the text of the message is to be shown. */
  readonly payload?: string | undefined;
  /** The latest finished attempts, oldest first. */
  readonly attemptLog?: readonly AttemptRecord[];
}

export function messageEntry(
  message: OutboxMessage,
  { isWhole = false, payload, attemptLog }: EntryOptions = {},
): object {
  const { id, target, status, ref, attempts, partsSent, error, createdAtMs, dueAtMs, isBlocked, endedAtMs } =
    message;
  return {
    id,
    platform: parseTarget(target).platform,
    target: isWhole ? redact(target) : shortTarget(target),
    status: shownStatus(status),
    ref: ref ?? null,
    attempts,
    parts_sent: partsSent,
    last_error: error === undefined ? null : redact(error),
    created_at: iso(createdAtMs),
    next_attempt_at: dueAtMs === undefined ? null : iso(dueAtMs),
    waits_for_older: isBlocked,
    ended_at: endedAtMs === undefined ? null : iso(endedAtMs),
    ...(attemptLog === undefined ? {} : { attempt_log: attemptLog.map(attemptEntry) }),
    ...(payload === undefined ? {} : { text: redact(textIn(payload)) }),
  };
}

function attemptEntry({ atMs, tookMs, outcome, error }: AttemptRecord): object {
  return {
    at: iso(atMs),
    seconds: tookMs === undefined ? null : tookMs / 1000,
    outcome,
    error: error === undefined ? null : redact(error),
  };
}

interface TextOptions extends Omit<EntryOptions, "isWhole"> {
  readonly nowMs: number;
}

export function messageText(
  message: OutboxMessage,
  { nowMs, payload, attemptLog = [] }: TextOptions,
): string {
  const { id, target, status, ref, attempts, partsSent, error, createdAtMs, endedAtMs } = message;
  const next = nextAttempt(message, nowMs);
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["id", id],
    ["target", redact(target)],
    ["status", shownStatus(status)],
    ["created", iso(createdAtMs)],
    ["created by", ref],
    ["attempts", String(attempts)],
    ["parts sent", partsSent > 0 ? String(partsSent) : undefined],
    ["last error", error === undefined ? undefined : redact(error)],
    ["files", payload === undefined ? undefined : filesIn(payload)],
    ["next", next === "-" ? undefined : next],
    ["ended", endedAtMs === undefined ? undefined : iso(endedAtMs)],
  ];
  const todo = whatToDo(message);
  return [
    ...facts.flatMap(([name, value]) =>
      value === undefined ? [] : [`${name.padEnd(11)} ${oneLine(value)}`],
    ),
    ...(attemptLog.length === 0 ? [] : ["", "Attempts:", ...attemptLog.map(attemptLine)]),
    ...(todo === undefined ? [] : ["", todo]),
    ...(payload === undefined ? [] : ["", "Text:", block(redact(textIn(payload)))]),
  ].join("\n");
}

const OUTCOME_WORDS: Readonly<Record<AttemptOutcome, string>> = {
  delivered: "delivered",
  retry: "failed, will be retried",
  permanent: "refused",
  unknown: "may have arrived",
  stopped: "cancelled: the service stopped",
  lost: "lost: its process ended first",
};

function attemptLine({ atMs, tookMs, outcome, error }: AttemptRecord): string {
  const took = tookMs === undefined ? "" : ` after ${(tookMs / 1000).toFixed(1)} s`;
  const why = error === undefined ? "" : `: ${redact(error)}`;
  return `  ${iso(atMs)} ${oneLine(`${OUTCOME_WORDS[outcome]}${took}${why}`)}`;
}

function whatToDo(message: OutboxMessage): string | undefined {
  const { id, status, ref, isBlocked } = message;
  const hint = messageHint(message, {
    retry: `\`agentd outbox retry ${id}\``,
    drop: `\`agentd outbox drop ${id}\``,
  });
  const isPlain = status === "leased" || isBlocked;
  return hint === undefined || isPlain || !ref?.startsWith("dlv_")
    ? hint
    : `${hint} \`agentd webhook deliveries show ${ref}\` shows the webhook delivery behind it.`;
}

function nextAttempt(
  { status, dueAtMs, isBlocked }: OutboxMessage,
  nowMs: number,
  format: (atMs: number) => string = iso,
): string {
  if (status === "leased") return "sending";
  if (dueAtMs === undefined) return "-";
  if (isBlocked) return "after an older one";
  return dueAtMs <= nowMs ? "now" : format(dueAtMs);
}

/** Returns the platform and the first characters of the chat. */
function shortTarget(target: string): string {
  const { platform, address } = parseTarget(target);
  return redact(formatTarget({ platform, address: shorten(address, SHOWN_ADDRESS) }));
}

/** Returns the names of the files that the message sends along; undefined without any. */
function filesIn(payload: string): string | undefined {
  return filesOfPayload(payload).map(redact).join(", ") || undefined;
}

/** Returns the text of the message, or the whole payload when it has none. */
function textIn(payload: string): string {
  return textOfPayload(payload) ?? payload;
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

/** Throws UsageError for any other word. */
export function statusNamed(text: string): MessageStatus {
  const found = MESSAGE_STATUSES.find((status) => shownStatus(status) === text);
  if (found) return found;
  throw new UsageError(`--status must be one of ${SHOWN_STATUSES.join(", ")}.`);
}

/** Throws UsageError for an unknown platform. */
export function toPlatformName(text: string): string {
  if (Object.hasOwn(platforms, text)) return text;
  const hint = text.includes(":")
    ? "; give the platform only, without a chat."
    : suggest(text, Object.keys(platforms));
  throw new UsageError(`--target: ${JSON.stringify(text)} is not a platform${hint}`);
}
