/** How a tool call is told when it begins. Pure. */
import type {
  ToolCall,
  ToolCallContent,
  ToolCallLocation,
  ToolKind,
  ToolCallStatus,
  ToolCallUpdate,
} from "@agentclientprotocol/sdk/unstable";
import type { FileChange, CommandExit, ToolEndCode } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { diffContent, fenced, tailOf, textContent, bounded, outputContent } from "./content.ts";
import type { ToolStatus } from "../../agent/message.ts";

/** A call as it begins; from `kind` on only what the journal knows. */
export interface ToolStart {
  readonly runId: string;
  /** As the provider numbered it. */
  readonly callId: string;
  readonly tool: string;
  readonly input: unknown;
  /** Of the session. */
  readonly cwd: string;
  readonly kind?: ToolKind;
  /** One line for people. */
  readonly preview?: string;
  readonly paths?: readonly string[];
  /** What it would change. */
  readonly changes?: readonly FileChange[];
}

const MAX_TITLE_CHARACTERS = 160;
const MAX_COMMAND_BYTES = 65_536;

/** Tools whose events do not say what they do: those of older journals and of transcripts. */
const KINDS: Readonly<Record<string, ToolKind>> = {
  clarify: "think",
  delegate_task: "think",
  todo: "think",
  patch: "edit",
  write_file: "edit",
  process: "execute",
  terminal: "execute",
  read_file: "read",
  skill: "read",
  vision_analyze: "read",
  search_files: "search",
  web_search: "search",
  web_fetch: "fetch",
};

/** The call that a `tool.started` tells of. */
export function toolStartOf({ runId, data }: Pick<JournalEvent, "runId" | "data">, cwd: string): ToolStart {
  const { tool_call_id: callId, tool, arguments: input, kind, preview, paths, changes } = data;
  return {
    runId: runId ?? "",
    callId: String(callId),
    tool: String(tool),
    input,
    cwd,
    ...(kind === undefined ? {} : { kind: kind as ToolKind }),
    ...(preview === undefined ? {} : { preview: String(preview) }),
    ...(paths === undefined ? {} : { paths: paths as readonly string[] }),
    ...(changes === undefined ? {} : { changes: changes as readonly FileChange[] }),
  };
}

export function toolCallOf(start: ToolStart): ToolCall {
  const { runId, callId, tool, input } = start;
  const locations = locationsOf(start);
  return {
    toolCallId: toolCallIdOf(runId, callId),
    title: titleOf(start),
    name: tool,
    kind: kindOf(start),
    status: "pending",
    content: [...startContent(start)],
    ...(locations.length > 0 ? { locations } : {}),
    ...(input === undefined ? {} : { rawInput: boundedInput(input) }),
  };
}

export function kindOf({ kind, tool }: ToolStart): ToolKind {
  return kind ?? KINDS[tool] ?? "other";
}

/** What is shown of a call before it ran: what it would change, or run. */
export function startContent(start: ToolStart): readonly ToolCallContent[] {
  const command = commandOf(start);
  const changes = (start.changes ?? []).map(diffContent);
  return command === undefined ? changes : [commandContent(command), ...changes];
}

/** What a call runs in a shell. */
export function commandOf({ tool, input }: ToolStart): string | undefined {
  const command = textOf(input, "command");
  return tool === "terminal" && command !== undefined ? command : undefined;
}

function commandContent(command: string): ToolCallContent {
  const { text, omittedBytes } = tailOf(command, MAX_COMMAND_BYTES);
  const more = omittedBytes > 0 ? `[${omittedBytes} bytes omitted]\n` : "";
  return textContent(fenced(`${more}$ ${text}`, "sh"));
}

/** Where a command runs. */
function folderOf({ cwd, input }: ToolStart): string {
  const workdir = textOf(input, "workdir");
  if (workdir === undefined || workdir === ".") return cwd;
  return isAbsolute(workdir) ? workdir : `${cwd}/${workdir}`;
}

/** At most 160 characters, in one line. */
export function titleOf({ preview, tool, input, callId: _ }: ToolStart): string {
  const about = textOf(input, "command") ?? textOf(input, "path") ?? textOf(input, "query");
  const resultContent = preview ?? (about === undefined ? tool : `${tool}: ${about}`);
  const title = resultContent.replace(/\s+/g, " ").trim() || tool;
  const characters = Array.from(title.slice(0, 2 * MAX_TITLE_CHARACTERS + 2));
  if (characters.length <= MAX_TITLE_CHARACTERS) return title;
  return `${characters.slice(0, MAX_TITLE_CHARACTERS - 1).join("")}…`;
}

/** The files that a call is about, each once, as absolute paths; a read says from which line. */
function locationsOf({ paths = [], input, changes = [] }: ToolStart): ToolCallLocation[] {
  const all = new Set([...changes.map(({ path }) => path), ...paths].filter(isAbsolute));
  const offset = (input as { readonly offset?: unknown } | null | undefined)?.offset;
  const line = Number.isInteger(offset) && Number(offset) > 0 ? Number(offset) : undefined;
  return [...all].map((path) => (line === undefined ? { path } : { path, line }));
}

function isAbsolute(path: string): boolean {
  return path.startsWith("/") || /^[A-Za-z]:[\\/]/.test(path);
}

function textOf(input: unknown, key: string): string | undefined {
  const value = (input as Readonly<Record<string, unknown>> | null | undefined)?.[key];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** How a call ended; from `changes` on only what the journal knows. */
export interface ToolEnd {
  readonly status: ToolStatus;
  /** Why it did not do what it was called for. */
  readonly code?: ToolEndCode;
  /** What the user said with a denial. */
  readonly reason?: string;
  /** What the model reads, or its end. */
  readonly result: string;
  readonly changes?: readonly FileChange[];
  readonly exit?: CommandExit;
  /** Of the result before what is here. */
  readonly omittedBytes?: number;
  readonly seconds?: number;
}

interface ToolEndView {
  readonly status: ToolCallStatus;
  /** All of it: what was told at the start is replaced. */
  readonly content: ToolCallContent[];
  readonly rawOutput?: Readonly<Record<string, unknown>>;
}

/** The end that a `tool.completed` reports. */
export function toolEndFrom(data: JournalEvent["data"]): ToolEnd {
  const { status, code, reason, result, changes, exit, omitted_bytes: omittedBytes, duration } = data;
  return {
    status: status as ToolStatus,
    ...(code === undefined ? {} : { code: code as ToolEndCode }),
    ...(reason === undefined ? {} : { reason: String(reason) }),
    result: typeof result === "string" ? result : "",
    ...(changes === undefined ? {} : { changes: changes as readonly FileChange[] }),
    ...(exit === undefined ? {} : { exit: exit as CommandExit }),
    ...(omittedBytes === undefined ? {} : { omittedBytes: Number(omittedBytes) }),
    ...(duration === undefined ? {} : { seconds: Number(duration) }),
  };
}

export function toolEndOf(start: ToolStart, end: ToolEnd): ToolEndView {
  return {
    status: end.status === "ok" && end.code === undefined ? "completed" : "failed",
    content: [...changesContent(start, end), ...resultContent(start, end)],
    rawOutput: rawOutputOf(end),
  };
}

/** Shown for a call that the end of the turn cut. */
export const CANCELLED = "cancelled";

/** What was changed; of a call that changed nothing, what it would have changed. */
function changesContent(start: ToolStart, { status, changes }: ToolEnd): readonly ToolCallContent[] {
  if (changes) return changes.map(diffContent);
  return status === "ok" && commandOf(start) === undefined ? [] : startContent(start);
}

function resultContent(start: ToolStart, end: ToolEnd): readonly ToolCallContent[] {
  const { status, code, reason, result, omittedBytes = 0, exit } = end;
  const phrase = code && PHRASES[code];
  if (phrase !== undefined) return [textContent(bounded(reason ? `${phrase}: ${reason}` : phrase))];
  if (result === "") return [];
  // These results are written for people: refusals, answers of sub-agents, plans, what was chosen.
  const isForPeople =
    status === "denied" || status === "aborted" || (status === "ok" && kindOf(start) === "think");
  if (isForPeople) return [textContent(bounded(result, omittedBytes))];
  return [outputContent(result, omittedBytes + (exit?.omitted_bytes ?? 0))];
}

/** Phrases that clients know; the other ends show what the model reads. */
const PHRASES: Partial<Record<ToolEndCode, string>> = {
  denied_by_user: "denied by user",
  approval_expired: "approval timed out",
  cancelled: CANCELLED,
};

function rawOutputOf({ status, code, exit, omittedBytes = 0, seconds }: ToolEnd): ToolEndView["rawOutput"] {
  return {
    status,
    ...(code === undefined ? {} : { code }),
    ...(exit?.code === undefined ? {} : { exitCode: exit.code }),
    ...(exit?.signal === undefined ? {} : { signal: exit.signal }),
    truncated: omittedBytes + (exit?.omitted_bytes ?? 0) > 0,
    ...(seconds === undefined ? {} : { durationSeconds: seconds }),
  };
}

/** What a tool was called with, in a size that a client can show. Pure. */

/** As JSON. */
const MAX_CHARACTERS = 262_144;
const MIN_CHARACTERS = 256;

/** Longer input has its long texts cut; one that is long for another reason is told as the start of its JSON. */
export function boundedInput(input: unknown): unknown {
  const size = sizeOf(input);
  if (size <= MAX_CHARACTERS) return input;
  for (let limit = MAX_CHARACTERS / 2; limit >= MIN_CHARACTERS; limit /= 4) {
    const shorter = cut(input, limit);
    if (sizeOf(shorter) <= MAX_CHARACTERS) return shorter;
  }
  return { truncated: true, characters: size, start: (JSON.stringify(input) ?? "").slice(0, MIN_CHARACTERS) };
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value)?.length ?? 0;
}

function cut(value: unknown, limit: number): unknown {
  if (typeof value === "string") {
    const more = value.length - limit;
    return more <= 0 ? value : `${value.slice(0, limit)}[... ${more} characters cut ...]`;
  }
  if (Array.isArray(value)) return value.map((each) => cut(each, limit));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, cut(each, limit)]));
}

/**
 * The id under which a client knows a tool call: live and in a replay the same. Providers number their calls anew in each
 * turn, so the run stands before it.
 */
export function toolCallIdOf(runId: string, callId: string): string {
  return `${runId}:${callId}`;
}

type Meta = NonNullable<ToolCallUpdate["_meta"]>;

/** The terminal bears the id of its call. */
export function terminalContent(start: ToolStart, toolCallId: string): ToolCallContent[] {
  const command = commandOf(start);
  const isTitled = command !== undefined && titleOf(start).includes(command);
  const whole = command === undefined || isTitled ? [] : [commandContent(command)];
  return [...whole, { type: "terminal", terminalId: toolCallId }];
}

export function terminalInfo(start: ToolStart, terminalId: string): Meta {
  return { terminal_info: { terminal_id: terminalId, cwd: folderOf(start) } };
}

/** More of the output, to be added to what was there. */
export function terminalOutput(terminalId: string, data: string, offered: "whole" | "delta"): Meta {
  const piece = { terminal_id: terminalId, data };
  return offered === "delta" ? { terminal_output_delta: piece } : { terminal_output: piece };
}

export function terminalExit(terminalId: string, exit: CommandExit | undefined): Meta {
  return {
    terminal_exit: { terminal_id: terminalId, exit_code: exit?.code ?? null, signal: exit?.signal ?? null },
  };
}
