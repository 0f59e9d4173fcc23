/** What a client is told of a conversation that was before it, as it was told live. Pure. */
import type { SessionUpdate, ToolCall } from "@agentclientprotocol/sdk/unstable";
import type { TranscriptRow } from "../../agent/session/transcript.ts";
import type { AssistantMessage, AssistantPart, ToolMessage } from "../../agent/message.ts";
import { redact, redactValue } from "../../base/observe/redact.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { fitting } from "./replay-size.ts";
import { textChunks, userChunks } from "./replay-text.ts";
import { toolEndFrom, toolEndOf, type ToolEnd } from "../tools/tool-end.ts";
import { toolCallOf, toolStartOf, type ToolStart } from "../tools/tool-start.ts";

type Data = JournalEvent["data"];

/** What is still known of a run, beside its messages; it is forgotten some time after its end. */
export interface RunFacts {
  /** Data of `tool.started` and of `tool.completed`, by the id of the call. */
  readonly started: ReadonlyMap<string, Data>;
  readonly completed: ReadonlyMap<string, Data>;
  /** How it stands; undefined: nobody knows any more. */
  readonly status: string | undefined;
  /** Why it ended as it did. */
  readonly reason?: string;
}

export interface ReplayOptions {
  /** Of the session. */
  readonly cwd: string;
  /** What a tool says of a call that the journal does not know any more. */
  readonly describe: (tool: string, input: unknown) => Partial<ToolStart>;
  /** The turn at work, which is told live: of it only the prompt is told here. */
  readonly liveRunId?: string | undefined;
}

interface Held {
  readonly row: TranscriptRow;
  readonly message: AssistantMessage;
  readonly facts: RunFacts;
  readonly answers: Map<string, ToolMessage>;
}

/** Takes the messages of a conversation in their order. A message waits for the answers to its tool calls. */
export class Replay {
  readonly #options: ReplayOptions;
  #held: Held | undefined;
  /** The turn that is told at the moment, and whether it was cut as far as its messages say. */
  #turn: { readonly runId: string | null; readonly facts: RunFacts; readonly seq: number } | undefined;
  #isCut = false;

  constructor(options: ReplayOptions) {
    this.#options = options;
  }

  take(row: TranscriptRow, facts: RunFacts): readonly SessionUpdate[] {
    const { message, runId, seq } = row;
    if (message.role === "tool") {
      this.#answer(message);
      return [];
    }
    const before = [...this.#flush(), ...(this.#turn?.runId === runId ? [] : this.#endTurn())];
    this.#turn = { runId, facts, seq };
    if (message.role === "user") {
      return message.origin === undefined ? [...before, ...userChunks(seq, message)] : before;
    }
    if (message.role === "assistant" && !this.#isLive(runId)) {
      this.#held = { row, message, facts, answers: new Map() };
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
    if (message.status === "pending" && this.#held?.answers.has(message.callId)) return;
    this.#held?.answers.set(message.callId, message);
  }

  #flush(): readonly SessionUpdate[] {
    const held = this.#held;
    this.#held = undefined;
    if (!held) return [];
    const id = `msg_${held.row.seq}`;
    let texts = 0;
    return held.message.parts.flatMap((part) => {
      if (part.type === "tool_call") return [this.#toolCall(part, held)];
      if (part.type === "reasoning") return textChunks("agent_thought_chunk", part.text);
      // Older texts do not know what they were told under.
      const own = texts++ === 0 ? id : `${id}_${texts}`;
      return textChunks("agent_message_chunk", part.text, part.id ?? own);
    });
  }

  #toolCall(part: Extract<AssistantPart, { type: "tool_call" }>, held: Held): SessionUpdate {
    const { callId } = part;
    const start = this.#startOf(part, held);
    const view: ToolCall = { ...toolCallOf(start), ...toolEndOf(start, endOf(callId, held)) };
    return fitting({ sessionUpdate: "tool_call", ...view });
  }

  #startOf(
    { callId, tool, input }: Extract<AssistantPart, { type: "tool_call" }>,
    { row, facts }: Held,
  ): ToolStart {
    const { cwd, describe } = this.#options;
    const runId = row.runId ?? `msg_${row.seq}`;
    const data = facts.started.get(callId);
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
    const { status, reason } = turn.facts;
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

function endOf(callId: string, { facts, answers }: Held): ToolEnd {
  const answer = answers.get(callId);
  const data = facts.completed.get(callId);
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
