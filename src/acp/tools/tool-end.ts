/** Tool calls that have ended, as a client shows them. Pure. */
import type { ToolCallContent, ToolCallStatus } from "@agentclientprotocol/sdk/unstable";
import type { CommandExit, FileChange, ToolEndCode } from "../../../generated/http/client/types.gen.ts";
import type { ToolStatus } from "../../agent/message.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { diffContent } from "./diff-content.ts";
import { commandOf, kindOf, startContent, type ToolStart } from "./tool-start.ts";
import { bounded, outputContent, textContent } from "./tool-text.ts";

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

export interface ToolEndView {
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
    content: [...shown(start, end), ...said(start, end)],
    rawOutput: rawOutputOf(end),
  };
}

/** Shown for a call that the end of the turn cut. */
export const CANCELLED = "cancelled";

/** What was changed; of a call that changed nothing, what it would have changed. */
function shown(start: ToolStart, { status, changes }: ToolEnd): readonly ToolCallContent[] {
  if (changes) return changes.map(diffContent);
  return status === "ok" && commandOf(start) === undefined ? [] : startContent(start);
}

function said(start: ToolStart, end: ToolEnd): readonly ToolCallContent[] {
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
