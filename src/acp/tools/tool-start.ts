/** How a tool call is told when it begins. Pure. */
import { shorten } from "../../base/text.ts";
import type {
  ToolCall,
  ToolCallContent,
  ToolCallLocation,
  ToolKind,
} from "@agentclientprotocol/sdk/unstable";
import type { FileChange } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { diffContent } from "./diff-content.ts";
import { toolCallIdOf } from "./tool-call-id.ts";
import { boundedInput } from "./tool-input.ts";
import { fenced, tailOf, textContent } from "./tool-text.ts";

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

export function commandContent(command: string): ToolCallContent {
  const { text, omittedBytes } = tailOf(command, MAX_COMMAND_BYTES);
  const more = omittedBytes > 0 ? `[${omittedBytes} bytes omitted]\n` : "";
  return textContent(fenced(`${more}$ ${text}`, "sh"));
}

/** Where a command runs. */
export function folderOf({ cwd, input }: ToolStart): string {
  const workdir = textOf(input, "workdir");
  if (workdir === undefined || workdir === ".") return cwd;
  return isAbsolute(workdir) ? workdir : `${cwd}/${workdir}`;
}

/** At most 160 characters, in one line. */
export function titleOf({ preview, tool, input, callId: _ }: ToolStart): string {
  const about = textOf(input, "command") ?? textOf(input, "path") ?? textOf(input, "query");
  const said = preview ?? (about === undefined ? tool : `${tool}: ${about}`);
  return shorten(said.replace(/\s+/g, " ").trim() || tool, MAX_TITLE_CHARACTERS);
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
