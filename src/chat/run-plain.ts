/** `agentd chat` without a terminal: one prompt, the answer on standard output, progress on standard error. */
import type { GatewayEvent } from "../client/gateway.ts";
import { cleanLine, cleanText } from "../client/conversation/clean-text.ts";
import type { ChatProgram } from "./run-chat.ts";
import { refuseQuestions, runTurn, type TurnEnd } from "./run-turn.ts";

interface PlainProgram extends ChatProgram {
  readonly prompt: string;
  /** Writes the answer. */
  readonly write: (text: string) => void;
  /** Reports one line of progress. */
  readonly report: (line: string) => void;
  /** Interrupts the turn. */
  readonly signal: AbortSignal;
}

/** Runs one turn. Rejects when the gateway is unreachable or refuses. */
export async function runPlain(program: PlainProgram): Promise<TurnEnd> {
  const { write, report } = program;
  const last = await runTurn({
    ...program,
    deltas: "final",
    onEvent: async (event, turn) => {
      const line = lineOf(event);
      if (line !== undefined) report(line);
      await refuseQuestions(turn, report);
    },
  });
  if (!last) {
    report("The prompt was removed from the queue.");
    return "interrupted";
  }
  const { text, status, warning, error } = last.payload;
  if (text !== "") write(text.endsWith("\n") ? text : `${text}\n`);
  if (warning !== undefined) report(cleanText(warning));
  if (status === "interrupted") report(cleanText(error ?? "Interrupted."));
  if (status === "error") report(cleanText(error ?? "The turn failed."));
  return status;
}

/** Returns the line to report for an event, if any. */
function lineOf(event: GatewayEvent): string | undefined {
  switch (event.type) {
    case "tool.start":
      return cleanLine(`${event.payload.name}: ${event.payload.context}`);
    case "tool.complete":
      return event.payload.error === undefined
        ? undefined
        : cleanLine(`${event.payload.name} failed: ${event.payload.error}`);
    case "error":
      return cleanText(event.payload.message);
    case "status.update":
      return event.payload.kind === "warn" ? cleanText(event.payload.text) : undefined;
    default:
      return undefined;
  }
}
