import {
  RequestError,
  type SessionUpdate,
  type ToolCall,
  type ContentBlock,
  type ToolCallContent,
} from "@agentclientprotocol/sdk/unstable";
import { readForward, type TranscriptRow } from "../../agent/session/transcript.ts";
import { settingsOf } from "../../agent/session/session.ts";
import { redact, redactValue } from "../../base/observe/redact.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { sessionNotFound } from "../wire/error.ts";
import { macrotask } from "../questions/question.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "./session.ts";
import { planOf } from "../prompt/turn-reporter.ts";
import type {
  AssistantMessage,
  AssistantPart,
  ToolMessage,
  Attachment,
  UserMessage,
} from "../../agent/message.ts";
import {
  toolEndFrom,
  toolEndOf,
  type ToolEnd,
  toolCallOf,
  toolStartOf,
  type ToolStart,
} from "../tools/view.ts";
import { textContent } from "../tools/content.ts";

/** Images may ride with every message. */
const PAGE = 32;

/**
 * Tells the client the whole conversation, oldest first, and its plan. `liveRunId`: the turn at work, of which only the
 * prompt is told. RequestError -32800 when the client does not want it any more, -32002 when it closed the session.
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
    const rows = await readForward(deps.store, sessionId, { after, limit: PAGE });
    metadata = await readRunMetadata(deps, rows, metadata);
    for (const row of rows) await send(replay.take(row, metadata.get(row.runId ?? "") ?? NO_METADATA));
    after = rows.at(-1)?.seq ?? after;
    // The client may say meanwhile that it does not want to know.
    await macrotask();
    if (rows.length < PAGE) break;
  }
  await send(replay.end());
  const row = await deps.store.find("sessions", { id: sessionId });
  const todos = row ? (settingsOf(row).todos ?? []) : [];
  if (todos.length > 0) await send([planOf(todos)]);
}

const NO_METADATA: RunMetadata = { started: new Map(), completed: new Map(), status: undefined };

/** Of the runs of a page. Those of the page before are `known`: a long turn goes on over many pages. */
async function readRunMetadata(
  { store }: AcpDeps,
  rows: readonly TranscriptRow[],
  known: ReadonlyMap<string, RunMetadata>,
): Promise<ReadonlyMap<string, RunMetadata>> {
  const ids = [...new Set(rows.flatMap(({ runId }) => runId ?? []))];
  const metadata = new Map(ids.flatMap((id) => (known.has(id) ? [[id, known.get(id) ?? NO_METADATA]] : [])));
  const unknown = ids.filter((id) => !metadata.has(id));
  if (unknown.length === 0) return metadata;
  const runs = await store.read
    .selectFrom("runs")
    .select(["id", "status", "error"])
    .where("id", "in", unknown)
    .execute();
  const events = await store.read
    .selectFrom("events")
    .select(["run_id", "type", "data"])
    .where("run_id", "in", unknown)
    .where("type", "in", ["tool.started", "tool.completed"])
    .execute();
  const calls = events.map(({ run_id: runId, type, data }) => ({
    runId,
    type,
    data: JSON.parse(data) as JournalEvent["data"],
  }));
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

/** Tools are known here that the journal has forgotten to have worked; some may be gone by now. */
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
      // Arguments that did not fit then do not fit now.
      return kind;
    }
  };
}

type Data = JournalEvent["data"];

/** What is still known of a run, beside its messages; it is forgotten some time after its end. */
export interface RunMetadata {
  /** Data of `tool.started` and of `tool.completed`, by the id of the call. */
  readonly started: ReadonlyMap<string, Data>;
  readonly completed: ReadonlyMap<string, Data>;
  /** How it stands; undefined: nobody knows any more. */
  readonly status: string | undefined;
  /** Why it ended as it did. */
  readonly reason?: string;
}

interface ReplayOptions {
  /** Of the session. */
  readonly cwd: string;
  /** What a tool says of a call that the journal does not know any more. */
  readonly describe: (tool: string, input: unknown) => Partial<ToolStart>;
  /** The turn at work, which is told live: of it only the prompt is told here. */
  readonly liveRunId?: string | undefined;
}

interface PendingMessage {
  readonly row: TranscriptRow;
  readonly message: AssistantMessage;
  readonly metadata: RunMetadata;
  readonly answers: Map<string, ToolMessage>;
}

/** Takes the messages of a conversation in their order. A message waits for the answers to its tool calls. */
export class Replay {
  readonly #options: ReplayOptions;
  #pending: PendingMessage | undefined;
  /** The turn that is told at the moment, and whether it was cut as far as its messages say. */
  #turn: { readonly runId: string | null; readonly metadata: RunMetadata; readonly seq: number } | undefined;
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

  /** There are no more messages. */
  end(): readonly SessionUpdate[] {
    return [...this.#flush(), ...this.#endTurn()];
  }

  #isLive(runId: string | null): boolean {
    return runId !== null && runId === this.#options.liveRunId;
  }

  /** A call that the client makes is answered twice: that it is to make it, and later with what came of it. */
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
    return pending.message.parts.flatMap((part) => {
      if (part.type === "tool_call") return [this.#toolCall(part, pending)];
      if (part.type === "reasoning") return textChunks("agent_thought_chunk", part.text);
      // Older texts do not know what they were told under.
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

  /** A turn that was broken off says so; one that people stopped, or that failed, ended as they saw it. */
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
  // An answer that the client gave later is not what the journal knows.
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

/** Each character takes at most six bytes of JSON: less than 256 KiB in all. */
const MAX_CHARACTERS = 32_768;
/** Longer images are named only. */
const MAX_IMAGE_CHARACTERS = 65_536;

export function textChunks(kind: ChunkKind, text: string, messageId?: string): readonly SessionUpdate[] {
  const placeholder = messageId === undefined ? {} : { messageId };
  return pieces(text).map((piece) => chunk(kind, { type: "text", text: piece }, placeholder));
}

/** What a person wrote, and what rode with it. */
function userChunks(seq: number, { text, attachments = [] }: UserMessage): readonly SessionUpdate[] {
  const messageId = `msg_${seq}`;
  const shown = attachments.flatMap((attachment) => blockOf(attachment, text) ?? []);
  return [
    ...textChunks("user_message_chunk", text, messageId),
    ...shown.map((block) => chunk("user_message_chunk", block, { messageId })),
  ];
}

/** Undefined for a file that the text names. */
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
  placeholder: { readonly messageId?: string },
): SessionUpdate {
  return { sessionUpdate, ...placeholder, content };
}

/** Never in the middle of a character. */
function pieces(text: string): readonly string[] {
  const out: string[] = [];
  for (let from = 0; from < text.length;) {
    let to = Math.min(from + MAX_CHARACTERS, text.length);
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to--;
    out.push(text.slice(from, to));
    from = to;
  }
  return out;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** With room for the rest of its line. */
const MAX_BYTES = 253_952;

type Call = ToolCall & { readonly sessionUpdate: "tool_call" };

/** What is too long goes, in this order: the arguments, then contents, the longest first. */
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
