/** Tool calls as clients show them: at the start, at the end, and as a terminal. Pure. */
import { shorten } from "../../base/text.ts";
import type {
  ToolCall,
  ToolCallContent,
  ToolCallLocation,
  ToolKind,
  ToolCallStatus,
  ToolCallUpdate,
} from "@agentclientprotocol/sdk/unstable";
import type {
  FileChange,
  CommandExit,
  ToolEndCode,
  ToolImage,
} from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import {
  diffContent,
  fenced,
  tailOf,
  textContent,
  bounded,
  outputContent,
  firstChangedLine,
} from "./content.ts";
import type { ToolStatus } from "../../agent/engine.ts";

/** A call at its start. The fields from `kind` on come only from the journal. */
export interface ToolStart {
  readonly runId: string;
  /** The provider's id of the call. */
  readonly callId: string;
  readonly tool: string;
  readonly input: unknown;
  /** The working folder of the session. */
  readonly cwd: string;
  readonly kind?: ToolKind;
  /** A one-line summary for people. */
  readonly preview?: string;
  readonly paths?: readonly string[];
  /** The changes that it would make. */
  readonly changes?: readonly FileChange[];
}

const MAX_TITLE_CHARACTERS = 160;
const MAX_COMMAND_BYTES = 65_536;

/** The kinds of tools, for older events and transcripts that do not have them. */
const KINDS: Readonly<Record<string, ToolKind>> = {
  clarify: "think",
  present_plan: "switch_mode",
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

/** Reads a `tool.started` event. */
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

/** Returns what a call would run or change, to show before it ran. */
export function startContent(start: ToolStart): readonly ToolCallContent[] {
  const command = commandOf(start);
  const changes = (start.changes ?? []).map(diffContent);
  return command === undefined ? changes : [commandContent(command), ...changes];
}

/** Returns the shell command of a call. */
export function commandOf({ tool, input }: ToolStart): string | undefined {
  const command = textOf(input, "command");
  return tool === "terminal" && command !== undefined ? command : undefined;
}

function commandContent(command: string): ToolCallContent {
  const { text, omittedBytes } = tailOf(command, MAX_COMMAND_BYTES);
  const more = omittedBytes > 0 ? `[${omittedBytes} bytes omitted]\n` : "";
  return textContent(fenced(`${more}$ ${text}`, "sh"));
}

/** Returns the folder in which a command runs. */
function folderOf({ cwd, input }: ToolStart): string {
  const workdir = textOf(input, "workdir");
  if (workdir === undefined || workdir === ".") return cwd;
  return isAbsolute(workdir) ? workdir : `${cwd}/${workdir}`;
}

/** Returns one line of at most 160 characters. */
export function titleOf({ preview, tool, input, callId: _ }: ToolStart): string {
  const about = textOf(input, "command") ?? textOf(input, "path") ?? textOf(input, "query");
  const resultContent = preview ?? (about === undefined ? tool : `${tool}: ${about}`);
  const title = resultContent.replace(/\s+/g, " ").trim() || tool;
  return shorten(title, MAX_TITLE_CHARACTERS);
}

/** Returns the absolute paths of the files of a call, each once, with the first line that is read or changed. */
function locationsOf({ paths = [], input, changes = [] }: ToolStart): ToolCallLocation[] {
  const offset = (input as { readonly offset?: unknown } | null | undefined)?.offset;
  const line = Number.isInteger(offset) && Number(offset) > 0 ? Number(offset) : undefined;
  const all = new Map(paths.map((path) => [path, line]));
  for (const change of changes) all.set(change.path, firstChangedLine(change));
  return [...all]
    .filter(([path]) => isAbsolute(path))
    .map(([path, line]) => (line === undefined ? { path } : { path, line }));
}

function isAbsolute(path: string): boolean {
  return path.startsWith("/") || /^[A-Za-z]:[\\/]/.test(path);
}

function textOf(input: unknown, key: string): string | undefined {
  const value = (input as Readonly<Record<string, unknown>> | null | undefined)?.[key];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A call at its end. The fields from `changes` on come only from the journal. */
export interface ToolEnd {
  readonly status: ToolStatus;
  /** Why the call did not do its work. */
  readonly code?: ToolEndCode;
  /** The user's reason for a denial. */
  readonly reason?: string;
  /** The result for the model, or its tail. */
  readonly result: string;
  readonly changes?: readonly FileChange[];
  readonly exit?: CommandExit;
  readonly images?: readonly ToolImage[];
  /** The bytes cut from the start of the result. */
  readonly omittedBytes?: number;
  readonly seconds?: number;
}

interface ToolEndView {
  readonly status: ToolCallStatus;
  /** The complete content, which replaces that of the start. */
  readonly content: ToolCallContent[];
  /** Where the call changed files. */
  readonly locations?: ToolCallLocation[];
  readonly rawOutput?: Readonly<Record<string, unknown>>;
}

/** Reads a `tool.completed` event. */
export function toolEndFrom(data: JournalEvent["data"]): ToolEnd {
  const { status, code, reason, result, changes, exit, omitted_bytes: omittedBytes, duration, images } = data;
  return {
    status: status as ToolStatus,
    ...(code === undefined ? {} : { code: code as ToolEndCode }),
    ...(reason === undefined ? {} : { reason: String(reason) }),
    result: typeof result === "string" ? result : "",
    ...(changes === undefined ? {} : { changes: changes as readonly FileChange[] }),
    ...(exit === undefined ? {} : { exit: exit as CommandExit }),
    ...(images === undefined ? {} : { images: images as readonly ToolImage[] }),
    ...(omittedBytes === undefined ? {} : { omittedBytes: Number(omittedBytes) }),
    ...(duration === undefined ? {} : { seconds: Number(duration) }),
  };
}

export function toolEndOf(start: ToolStart, end: ToolEnd): ToolEndView {
  const locations = end.changes?.length ? locationsOf({ ...start, changes: end.changes }) : [];
  return {
    status: end.status === "ok" && end.code === undefined ? "completed" : "failed",
    content: [
      ...changesContent(start, end),
      ...resultContent(start, end),
      ...(end.images ?? []).map(imageContent),
    ],
    ...(locations.length > 0 ? { locations } : {}),
    rawOutput: rawOutputOf(end),
  };
}

/** Shown for a call that was open at the end of the turn. */
export const CANCELLED = "cancelled";

/** Returns the changes that a call made, or would have made. */
function changesContent(start: ToolStart, { status, changes }: ToolEnd): readonly ToolCallContent[] {
  if (changes) return changes.map(diffContent);
  return status === "ok" && commandOf(start) === undefined ? [] : startContent(start);
}

function resultContent(start: ToolStart, end: ToolEnd): readonly ToolCallContent[] {
  const { status, code, reason, result, omittedBytes = 0, exit } = end;
  const phrase = code && PHRASES[code];
  if (phrase !== undefined) return [textContent(bounded(reason ? `${phrase}: ${reason}` : phrase))];
  if (result === "") return [];
  // These results are written for people: denials, results of sub-agents, plans, choices.
  const isForPeople =
    status === "denied" || status === "aborted" || (status === "ok" && WRITTEN_FOR_PEOPLE.has(kindOf(start)));
  if (isForPeople) return [textContent(bounded(result, omittedBytes))];
  return [outputContent(result, omittedBytes + (exit?.omitted_bytes ?? 0))];
}

function imageContent({ media_type: mimeType, data }: ToolImage): ToolCallContent {
  return { type: "content", content: { type: "image", mimeType, data } };
}

const WRITTEN_FOR_PEOPLE: ReadonlySet<ToolKind> = new Set(["think", "switch_mode"]);

/** Phrases that clients know. Other calls show the result for the model. */
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

/** Limits the size of an input: cuts long strings, or else keeps only the start of its JSON. */
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
 * Returns the id of a tool call for clients, the same live and in a replay. It starts with the run id because providers
 * restart their numbering in each turn.
 */
export function toolCallIdOf(runId: string, callId: string): string {
  return `${runId}:${callId}`;
}

type Meta = NonNullable<ToolCallUpdate["_meta"]>;

/** Returns the content of a call as a terminal, which has the id of the call. */
export function terminalContent(start: ToolStart, toolCallId: string): ToolCallContent[] {
  const command = commandOf(start);
  const isTitled = command !== undefined && titleOf(start).includes(command);
  const whole = command === undefined || isTitled ? [] : [commandContent(command)];
  return [...whole, { type: "terminal", terminalId: toolCallId }];
}

export function terminalInfo(start: ToolStart, terminalId: string): Meta {
  return { terminal_info: { terminal_id: terminalId, cwd: folderOf(start) } };
}

/** Returns output to append to the terminal. */
export function terminalOutput(terminalId: string, data: string, offered: "whole" | "delta"): Meta {
  const piece = { terminal_id: terminalId, data };
  return offered === "delta" ? { terminal_output_delta: piece } : { terminal_output: piece };
}

export function terminalExit(terminalId: string, exit: CommandExit | undefined): Meta {
  return {
    terminal_exit: { terminal_id: terminalId, exit_code: exit?.code ?? null, signal: exit?.signal ?? null },
  };
}
