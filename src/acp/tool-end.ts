/** How a tool call is told when it has ended. Pure. */
import type { ToolCallContent, ToolCallStatus } from "@agentclientprotocol/sdk/unstable";
import type { CommandExit, FileChange } from "../../generated/http/client/types.gen.ts";
import type { ToolStatus } from "../agent/message.ts";
import type { JournalEvent } from "../store/journal.ts";
import { diffContent } from "./diff-content.ts";
import { commandOf, kindOf, startContent, type ToolStart } from "./tool-start.ts";
import { bounded, outputContent, textContent } from "./tool-text.ts";

/** What a call came to; from `changes` on only what the journal knows. */
export interface ToolEnd {
  readonly status: ToolStatus;
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

/** The end that a `tool.completed` tells of. */
export function toolEndFrom(data: JournalEvent["data"]): ToolEnd {
  const { status, result, changes, exit, omitted_bytes: omittedBytes, duration } = data;
  return {
    status: status as ToolStatus,
    result: typeof result === "string" ? result : "",
    ...(changes === undefined ? {} : { changes: changes as readonly FileChange[] }),
    ...(exit === undefined ? {} : { exit: exit as CommandExit }),
    ...(omittedBytes === undefined ? {} : { omittedBytes: Number(omittedBytes) }),
    ...(duration === undefined ? {} : { seconds: Number(duration) }),
  };
}

export function toolEndOf(start: ToolStart, end: ToolEnd): ToolEndView {
  return {
    status: end.status === "ok" ? "completed" : "failed",
    content: [...shown(start, end), ...said(start, end)],
    rawOutput: rawOutputOf(end),
  };
}

/** What the client is told of a call that the turn's end cut. */
export const CANCELLED = "cancelled";

/** What was changed; of a call that changed nothing, what it would have changed. */
function shown(start: ToolStart, { status, changes }: ToolEnd): readonly ToolCallContent[] {
  if (changes) return changes.map(diffContent);
  return status === "ok" && commandOf(start) === undefined ? [] : startContent(start);
}

function said(start: ToolStart, end: ToolEnd): readonly ToolCallContent[] {
  const { status, result, omittedBytes = 0, exit } = end;
  if (status === "aborted") return [textContent(CANCELLED)];
  if (status === "denied") return [textContent(bounded(refusal(result)))];
  if (result === "") return [];
  // Results of these are written for people: answers of sub-agents, plans, what was chosen.
  if (status === "ok" && kindOf(start) === "think") return [textContent(bounded(result, omittedBytes))];
  return [outputContent(result, omittedBytes + (exit?.omitted_bytes ?? 0))];
}

/** In the words that clients know; a refusal by policy says why. */
function refusal(result: string): string {
  if (result.startsWith("Denied by the user"))
    return result.replace(/^Denied by the user\.?/, "denied by user");
  return /^Denied: .*(?:in time|timed out)/.test(result) ? "approval timed out" : result;
}

function rawOutputOf({ status, exit, omittedBytes = 0, seconds }: ToolEnd): ToolEndView["rawOutput"] {
  return {
    status,
    ...(exit?.code === undefined ? {} : { exitCode: exit.code }),
    ...(exit?.signal === undefined ? {} : { signal: exit.signal }),
    truncated: omittedBytes + (exit?.omitted_bytes ?? 0) > 0,
    ...(seconds === undefined ? {} : { durationSeconds: seconds }),
  };
}
