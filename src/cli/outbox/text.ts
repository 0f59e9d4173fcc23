/** Messages of the outbox as people and programs read them. Pure. */
import { shorten } from "../../base/text.ts";
import { redact } from "../../base/observe/redact.ts";
import { formatTarget, parseTarget } from "../../deliver/target.ts";
import type { OutboxMessage } from "../../store/outbox/messages.ts";
import type { AttemptRecord, AttemptOutcome } from "../../store/outbox/outbox.ts";
import { shownStatus } from "./options.ts";
import { oneLine } from "../sessions/text.ts";
import { toTable } from "../kit/table.ts";

/** Of an address in a list: it may be private. */
const SHOWN_ADDRESS = 12;
const SHOWN_ERROR = 80;
/** What is shown of one text; `--json` has all of it. */
const MAX_SHOWN_CHARACTERS = 4_000;

export function messagesTable(messages: readonly OutboxMessage[], nowMs: number): string {
  const rows = messages.map((message) => [
    message.id,
    iso(message.createdAtMs),
    oneLine(shortTarget(message.target)),
    String(message.attempts),
    shownStatus(message.status),
    nextAttempt(message, nowMs),
    shorten(oneLine(redact(message.error ?? "")), SHOWN_ERROR),
  ]);
  return toTable(["ID", "OWED", "TARGET", "ATTEMPTS", "STATUS", "NEXT ATTEMPT", "LAST ERROR"], rows);
}

export interface EntryOptions {
  /** True: the whole address. */
  readonly isWhole?: boolean;
  /** JSON, when what the message says is to be shown. */
  readonly payload?: string | undefined;
  /** The latest attempts that ended, when they are to be shown. */
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
    ...(attemptLog === undefined ? {} : { attemptLog: attemptLog.map(tryEntry) }),
    ...(payload === undefined ? {} : { text: redact(textIn(payload)) }),
  };
}

function tryEntry({ atMs, tookMs, outcome, error }: AttemptRecord): object {
  return {
    at: iso(atMs),
    seconds: tookMs === undefined ? null : tookMs / 1000,
    outcome,
    error: error === undefined ? null : redact(error),
  };
}

export interface TextOptions extends Omit<EntryOptions, "isWhole"> {
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
    ["owed", iso(createdAtMs)],
    ["owed by", ref],
    ["attempts", String(attempts)],
    ["parts sent", partsSent > 0 ? String(partsSent) : undefined],
    ["last error", error === undefined ? undefined : redact(error)],
    ["next", next === "-" ? undefined : next],
    ["ended", endedAtMs === undefined ? undefined : iso(endedAtMs)],
  ];
  const todo = whatToDo(message);
  return [
    ...facts.flatMap(([name, value]) =>
      value === undefined ? [] : [`${name.padEnd(11)} ${oneLine(value)}`],
    ),
    ...(attemptLog.length === 0 ? [] : ["", "Attempts:", ...attemptLog.map(tryLine)]),
    ...(todo === undefined ? [] : ["", todo]),
    ...(payload === undefined ? [] : ["", "Text:", block(redact(textIn(payload)))]),
  ].join("\n");
}

const TRY_WORDS: Readonly<Record<AttemptOutcome, string>> = {
  delivered: "delivered",
  retry: "not taken yet",
  permanent: "refused",
  unknown: "may have arrived",
  stopped: "cut by the end of the service",
  lost: "its process was gone before it ended",
};

function tryLine({ atMs, tookMs, outcome, error }: AttemptRecord): string {
  const took = tookMs === undefined ? "" : ` after ${(tookMs / 1000).toFixed(1)} s`;
  const why = error === undefined ? "" : `: ${redact(error)}`;
  return `  ${iso(atMs)} ${oneLine(`${TRY_WORDS[outcome]}${took}${why}`)}`;
}

function whatToDo({ id, status, ref, isBlocked }: OutboxMessage): string | undefined {
  const retry = `\`agentd deliveries retry ${id}\``;
  const drop = `\`agentd deliveries drop ${id}\``;
  const origin = ref?.startsWith("dlv_")
    ? ` \`agentd webhook deliveries show ${ref}\` shows what it came of.`
    : "";
  switch (status) {
    case "due":
      return isBlocked
        ? `It waits for an older message to the same chat. ${drop} gives it up.`
        : `A running \`agentd gateway\` sends it. ${retry} makes it due now; ${drop} gives it up.${origin}`;
    case "leased":
      return "A process is sending it.";
    case "dead":
      return `It was given up. Once what the error names is mended, ${retry} sends it; ${drop} takes it out of the list.${origin}`;
    case "unknown":
      return `It may have arrived. Look in the chat: ${retry} sends it again when it is not there, ${drop} when it is.${origin}`;
    case "delivered":
    case "dropped":
      return undefined;
  }
}

function nextAttempt({ status, dueAtMs, isBlocked }: OutboxMessage, nowMs: number): string {
  if (status === "leased") return "under way";
  if (dueAtMs === undefined) return "-";
  if (isBlocked) return "after an older one";
  return dueAtMs <= nowMs ? "now" : iso(dueAtMs);
}

/** The platform, and the start of the chat. */
function shortTarget(target: string): string {
  const { platform, address } = parseTarget(target);
  return redact(formatTarget({ platform, address: shorten(address, SHOWN_ADDRESS) }));
}

/** What the message says; the whole payload of one that says it in another form. */
function textIn(payload: string): string {
  try {
    const { text } = JSON.parse(payload) as { readonly text?: unknown };
    return typeof text === "string" ? text : payload;
  } catch {
    return payload;
  }
}

/** Lines stay lines; what could steer a terminal is made visible. */
function block(text: string): string {
  const shown = text.slice(0, MAX_SHOWN_CHARACTERS);
  const left = text.length - shown.length;
  const lines = shown.split(/\r?\n/).map((line) => `  ${oneLine(line)}`);
  return [...lines, ...(left > 0 ? [`  (${left} more characters; --json has all)`] : [])].join("\n");
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
