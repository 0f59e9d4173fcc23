import {
  RequestError,
  type SessionUpdate,
  type ToolCall,
  type ContentBlock,
  type ToolCallContent,
} from "@agentclientprotocol/sdk/unstable";
import { settingsOf } from "../../agent/session/session.ts";
import { headOf } from "../../base/text.ts";
import { redact, redactValue } from "../../base/observe.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { AcpConnection, AcpSession } from "../wire/connection.ts";
import { sessionNotFound } from "../wire/error.ts";
import { macrotask } from "../wire/updates.ts";
import type { AcpDeps } from "../deps.ts";
import { planOf } from "../prompt/turn-reporter.ts";
import {
  type AssistantMessage,
  type AssistantPart,
  type ToolMessage,
  type Attachment,
  type UserMessage,
  type TranscriptRow,
} from "../../agent/engine.ts";
import {
  toolEndFrom,
  toolEndOf,
  type ToolEnd,
  toolCallOf,
  toolStartOf,
  type ToolStart,
} from "../tools/view.ts";
import { textContent } from "../tools/content.ts";

/** Small, since every message may have images. */
const PAGE = 32;

/**
 * Sends the client the whole conversation, oldest first, and its plan. Of the running turn `liveRunId` it sends only the
 * prompt. RequestError -32800 if the client cancels the request, -32002 if it closes the session.
 */
export async function replaySession(
  connection: AcpConnection,
  session: AcpSession,
  { signal, liveRunId }: { readonly signal: AbortSignal; readonly liveRunId?: string | undefined },
): Promise<void> {
  const deps = await connection.deps();
  const { id: sessionId, seed } = session;
  const send = async (updates: readonly SessionUpdate[]) => {
    for (const update of updates) {
      if (signal.aborted) throw RequestError.requestCancelled();
      if (session.signal.aborted) throw sessionNotFound(sessionId);
      await connection.client.notify("session/update", { sessionId, update });
    }
  };
  const replay = new Replay({ cwd: seed.cwd, describe: describer(deps, seed.cwd), liveRunId });
  let metadata: ReadonlyMap<string, RunMetadata> = new Map();
  for (let after = 0; ;) {
    const rows = await deps.agent.sessions.reads.messagesAfter(sessionId, { after, limit: PAGE });
    metadata = await readRunMetadata(deps, rows, metadata);
    for (const row of rows) await send(replay.take(row, metadata.get(row.runId ?? "") ?? NO_METADATA));
    after = rows.at(-1)?.seq ?? after;
    // Let a cancellation of the client arrive.
    await macrotask();
    if (rows.length < PAGE) break;
  }
  await send(replay.end());
  const row = await deps.store.find("sessions", { id: sessionId });
  const todos = row ? (settingsOf(row).todos ?? []) : [];
  if (todos.length > 0) await send([planOf(todos)]);
}

const NO_METADATA: RunMetadata = { started: new Map(), completed: new Map(), status: undefined };

/** Reads the metadata of the runs of a page. `known` is that of the previous page: a long turn spans many pages. */
async function readRunMetadata(
  { agent }: AcpDeps,
  rows: readonly TranscriptRow[],
  known: ReadonlyMap<string, RunMetadata>,
): Promise<ReadonlyMap<string, RunMetadata>> {
  const ids = [...new Set(rows.flatMap(({ runId }) => runId ?? []))];
  const metadata = new Map(ids.flatMap((id) => (known.has(id) ? [[id, known.get(id) ?? NO_METADATA]] : [])));
  const unknown = ids.filter((id) => !metadata.has(id));
  if (unknown.length === 0) return metadata;
  const runs = await agent.runs.reads.byId(unknown);
  const calls = await agent.runs.reads.toolEventsOf(unknown);
  for (const id of unknown) {
    const run = runs.find((row) => row.id === id);
    const of = (type: string) =>
      new Map(
        calls
          .filter((call) => call.runId === id && call.type === type)
          .map(({ data }) => [String(data["tool_call_id"]), data]),
      );
    const reason = reasonOf(run?.error ?? null);
    metadata.set(id, {
      started: of("tool.started"),
      completed: of("tool.completed"),
      status: run?.status,
      ...(reason === undefined ? {} : { reason }),
    });
  }
  return metadata;
}

function reasonOf(error: string | null): string | undefined {
  return error === null ? undefined : (JSON.parse(error) as { readonly message?: string }).message;
}

/** Describes calls whose events are gone from the journal, as far as their tools still exist. */
function describer({ agent }: AcpDeps, cwd: string): ReplayOptions["describe"] {
  const tools = new Map(agent.deps.tools().map((tool) => [tool.name, tool]));
  return (name, input) => {
    const tool = tools.get(name);
    if (!tool) return {};
    const kind = tool.kind === undefined ? {} : { kind: tool.kind };
    try {
      const { title, reads = [], writes = [] } = tool.inspect(input as never, { cwd });
      return { ...kind, preview: redact(title), paths: [...new Set([...writes, ...reads])].map(redact) };
    } catch {
      // Arguments that were invalid then are invalid now.
      return kind;
    }
  };
}

type Data = JournalEvent["data"];

/** What the store keeps about a run besides its messages, for some time after its end. */
export interface RunMetadata {
  /** The data of `tool.started` and `tool.completed` events by call id. */
  readonly started: ReadonlyMap<string, Data>;
  readonly completed: ReadonlyMap<string, Data>;
  /** Undefined: the run is no longer stored. */
  readonly status: string | undefined;
  /** Why the run ended. */
  readonly reason?: string;
}

interface ReplayOptions {
  /** The working folder of the session. */
  readonly cwd: string;
  /** Describes a call whose events are gone from the journal. */
  readonly describe: (tool: string, input: unknown) => Partial<ToolStart>;
  /** The running turn, which is reported live; the replay has only its prompt. */
  readonly liveRunId?: string | undefined;
}

interface PendingMessage {
  readonly row: TranscriptRow;
  readonly message: AssistantMessage;
  readonly metadata: RunMetadata;
  readonly answers: Map<string, ToolMessage>;
}

/** Turns the messages of a conversation into updates. Holds a message back until its tool results are read. */
export class Replay {
  readonly #options: ReplayOptions;
  #pending: PendingMessage | undefined;
  /** The current turn. */
  #turn: { readonly runId: string | null; readonly metadata: RunMetadata; readonly seq: number } | undefined;
  /** Whether the last message of the current turn was interrupted. */
  #isCut = false;

  constructor(options: ReplayOptions) {
    this.#options = options;
  }

  take(row: TranscriptRow, metadata: RunMetadata): readonly SessionUpdate[] {
    const { message, runId, seq } = row;
    if (message.role === "tool") {
      this.#answer(message);
      return [];
    }
    const before = [...this.#flush(), ...(this.#turn?.runId === runId ? [] : this.#endTurn())];
    this.#turn = { runId, metadata, seq };
    if (message.role === "user") {
      return message.origin === undefined ? [...before, ...userChunks(seq, message)] : before;
    }
    if (message.role === "assistant" && !this.#isLive(runId)) {
      this.#pending = { row, message, metadata, answers: new Map() };
      this.#isCut = message.interrupted === true;
    }
    return before;
  }

  /** Returns the last updates, after the last message. */
  end(): readonly SessionUpdate[] {
    return [...this.#flush(), ...this.#endTurn()];
  }

  #isLive(runId: string | null): boolean {
    return runId !== null && runId === this.#options.liveRunId;
  }

  /** A call that a client executes has two results: first a pending one, later the real one. */
  #answer(message: ToolMessage): void {
    if (message.status === "pending" && this.#pending?.answers.has(message.callId)) return;
    this.#pending?.answers.set(message.callId, message);
  }

  #flush(): readonly SessionUpdate[] {
    const pending = this.#pending;
    this.#pending = undefined;
    if (!pending) return [];
    const id = `msg_${pending.row.seq}`;
    let texts = 0;
    let thoughts = 0;
    return pending.message.parts.flatMap((part) => {
      if (part.type === "tool_call") return [this.#toolCall(part, pending)];
      // Older thoughts and texts have no message id.
      if (part.type === "reasoning") {
        return textChunks("agent_thought_chunk", part.text, part.id ?? `${id}_thought_${++thoughts}`);
      }
      const own = texts++ === 0 ? id : `${id}_${texts}`;
      return textChunks("agent_message_chunk", part.text, part.id ?? own);
    });
  }

  #toolCall(part: Extract<AssistantPart, { type: "tool_call" }>, pending: PendingMessage): SessionUpdate {
    const { callId } = part;
    const start = this.#startOf(part, pending);
    const view: ToolCall = { ...toolCallOf(start), ...toolEndOf(start, endOf(callId, pending)) };
    return limitSize({ sessionUpdate: "tool_call", ...view });
  }

  #startOf(
    { callId, tool, input }: Extract<AssistantPart, { type: "tool_call" }>,
    { row, metadata }: PendingMessage,
  ): ToolStart {
    const { cwd, describe } = this.#options;
    const runId = row.runId ?? `msg_${row.seq}`;
    const data = metadata.started.get(callId);
    if (data) return toolStartOf({ runId, data }, cwd);
    return { ...describe(tool, input), runId, callId, tool, input: redactValue(input), cwd };
  }

  /** Marks an interrupted turn. Cancelled and failed turns ended visibly. */
  #endTurn(): readonly SessionUpdate[] {
    const turn = this.#turn;
    const isCut = this.#isCut;
    this.#turn = undefined;
    this.#isCut = false;
    if (!turn || this.#isLive(turn.runId)) return [];
    const { status, reason } = turn.metadata;
    if (status === undefined ? !isCut : status !== "interrupted") return [];
    const text = reason === undefined ? "[Interrupted]" : `[Interrupted] ${reason}`;
    const messageId = `msg_${turn.seq}_interrupted`;
    return [
      {
        sessionUpdate: "agent_message_chunk",
        messageId,
        content: { type: "text", text },
        _meta: { agentd: { interrupted: true } },
      },
    ];
  }
}

function endOf(callId: string, { metadata, answers }: PendingMessage): ToolEnd {
  const answer = answers.get(callId);
  const data = metadata.completed.get(callId);
  // The journal prevails over a later result of the client.
  if (data) return toolEndFrom(data);
  if (!answer) return { status: "aborted", code: "cancelled", result: "" };
  const { status, code, reason, text } = answer;
  return {
    status,
    result: redact(text),
    ...(code === undefined ? {} : { code }),
    ...(reason === undefined ? {} : { reason: redact(reason) }),
  };
}

type ChunkKind = "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk";

/** A character takes at most six bytes of JSON, so a chunk stays below 256 KiB. */
const MAX_CHARACTERS = 32_768;
/** Longer images are replaced by their name. */
const MAX_IMAGE_CHARACTERS = 65_536;

export function textChunks(kind: ChunkKind, text: string, messageId?: string): readonly SessionUpdate[] {
  const id = messageId === undefined ? {} : { messageId };
  return pieces(text).map((piece) => chunk(kind, { type: "text", text: piece }, id));
}

/** Returns a user message with its attachments. */
function userChunks(seq: number, { text, attachments = [] }: UserMessage): readonly SessionUpdate[] {
  const messageId = `msg_${seq}`;
  const shown = attachments.flatMap((attachment) => blockOf(attachment, text) ?? []);
  return [
    ...textChunks("user_message_chunk", text, messageId),
    ...shown.map((block) => chunk("user_message_chunk", block, { messageId })),
  ];
}

/** Returns undefined for a file that the text names. */
function blockOf({ type, mediaType, name, data }: Attachment, text: string): ContentBlock | undefined {
  if (type === "image" && data.length <= MAX_IMAGE_CHARACTERS) {
    return { type: "image", mimeType: mediaType, data, ...(name === undefined ? {} : { uri: name }) };
  }
  if (name !== undefined && text.includes(name)) return undefined;
  const about = [name, mediaType, `${Math.floor((data.length * 3) / 4)} bytes`];
  return { type: "text", text: `[${about.filter((part) => part !== undefined).join(", ")}]` };
}

function chunk(
  sessionUpdate: ChunkKind,
  content: ContentBlock,
  id: { readonly messageId?: string },
): SessionUpdate {
  return { sessionUpdate, ...id, content };
}

/** Splits text between characters. */
function pieces(text: string): readonly string[] {
  const out: string[] = [];
  for (let from = 0; from < text.length; from += out.at(-1)?.length ?? 0) {
    out.push(headOf(text.slice(from), MAX_CHARACTERS));
  }
  return out;
}

/** Leaves space for the rest of the line. */
const MAX_BYTES = 253_952;

type Call = ToolCall & { readonly sessionUpdate: "tool_call" };

/** Limits the size of an update to one write of a slow client. Drops the arguments first, then the longest contents. */
export function limitSize(update: Call): SessionUpdate {
  let left = bytesOf(update) - MAX_BYTES;
  if (left <= 0) return update;
  const { rawInput, content = [], ...rest } = update;
  left -= bytesOf(rawInput ?? null);
  const sized = content.map((each, index) => ({ index, bytes: bytesOf(each) }));
  const gone = new Set<number>();
  for (const { index, bytes } of sized.toSorted((a, b) => b.bytes - a.bytes)) {
    if (left <= 0) break;
    gone.add(index);
    left -= bytes;
  }
  return { ...rest, content: content.map((each, index) => (gone.has(index) ? placeholder(each) : each)) };
}

function placeholder(content: ToolCallContent): ToolCallContent {
  return textContent(
    content.type === "diff"
      ? `${content.path}: the change is too large to show again.`
      : "The output is too large to show again.",
  );
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
