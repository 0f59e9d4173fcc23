/** Commands as a terminal that the client only displays: a convention of editors, in `_meta`. Pure. */
import type { ToolCallContent, ToolCallUpdate } from "@agentclientprotocol/sdk/unstable";
import type { CommandExit } from "../../../generated/http/client/types.gen.ts";
import { commandContent, commandOf, folderOf, titleOf, type ToolStart } from "./tool-start.ts";

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
