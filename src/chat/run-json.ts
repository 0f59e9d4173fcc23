/** `agentd chat --json`: one prompt for a script. Each event of the gateway is a line of JSON. */
import type { GatewayErrorEvent, GatewayEvent } from "../client/gateway.ts";
import { cleanLine } from "../client/conversation/clean-text.ts";
import { describeFailure, reasonOf } from "../client/conversation/gateway.ts";
import type { ChatProgram } from "./run-chat.ts";
import { refuseQuestions, runTurn, type Turn, type TurnEnd } from "./run-turn.ts";

interface JsonProgram extends ChatProgram {
  readonly prompt: string;
  /** Writes a line. Resolves when the reader can take another one. */
  readonly write: (line: string) => Promise<void>;
  /** Reports to a person. */
  readonly report: (line: string) => void;
  /** Lines with answers to questions, one JSON object each; absent: every question is refused. */
  readonly answers?: AsyncIterable<string>;
  /** Interrupts the turn. */
  readonly signal: AbortSignal;
}

/**
 * Runs one turn and writes its events, the last of which is `message.complete`. Rejects when the gateway is unreachable
 * or refuses; {@link errorLine} is the line for that.
 */
export async function runJson(program: JsonProgram): Promise<TurnEnd> {
  const { write, report, answers } = program;
  let takesAnswers = answers !== undefined;
  let reading: Promise<void> | undefined;
  const last = await runTurn({
    ...program,
    deltas: "all",
    onEvent: async (event, turn) => {
      await write(toLine(event));
      if (answers) {
        reading ??= answerFrom(answers, turn, write)
          .catch((error: unknown) => report(cleanLine(describeFailure(error))))
          .then(() => {
            // The turn continues without answers.
            takesAnswers = false;
            return refuseQuestions(turn, report);
          })
          .catch(() => {});
      }
      if (!takesAnswers) await refuseQuestions(turn, report);
    },
  });
  if (last) return last.payload.status;
  await write(errorLine("The prompt was removed from the queue."));
  return "interrupted";
}

/** Returns the line that says why there is no more: an `error` event. */
export function errorLine(message: string): string {
  return toLine(errorEvent(message, { isFatal: true }));
}

/** Each line has the `id` of a question and its `result`, as for `request.answer` of the gateway. */
async function answerFrom(
  lines: AsyncIterable<string>,
  { call, sessionId }: Turn,
  write: (line: string) => Promise<void>,
): Promise<void> {
  for await (const line of lines) {
    if (line.trim() === "") continue;
    try {
      await call("request.answer", { ...parseAnswer(line), session_id: sessionId });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      await write(
        toLine(errorEvent(`Answer refused: ${message}`, { code: reasonOf(error) ?? "invalid_answer" })),
      );
    }
  }
}

function parseAnswer(line: string): { readonly id: string; readonly result: Record<string, unknown> } {
  const wanted = 'Write {"id": "<request_id>", "result": {"choice": "once"}} on one line.';
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // The line may contain a password, so the message does not quote it.
    throw new Error(`the line is not JSON. ${wanted}`);
  }
  const { id, result } = (value ?? {}) as { readonly id?: unknown; readonly result?: unknown };
  if (typeof id === "string" && typeof result === "object" && result !== null)
    return { id, result: { ...result } };
  throw new Error(`id or result is missing. ${wanted}`);
}

interface ErrorOptions {
  readonly code?: string;
  readonly isFatal?: boolean;
}

function errorEvent(message: string, { code, isFatal = false }: ErrorOptions): GatewayErrorEvent {
  const payload = { message, ...(code === undefined ? {} : { code }), fatal: isFatal };
  return { type: "error", ts: Date.now(), payload };
}

/** A reader may rely on it: no line is longer. */
export const MAX_LINE_CHARACTERS = 1_048_576;
/** What texts of a line that is too long are cut to, until it fits. */
const CUT_CHARACTERS = [65_536, 4_096, 256];

/** Returns an event as one line. Of a line that is too long, texts are cut and `truncated` is true. */
export function toLine(event: GatewayEvent): string {
  const whole = escaped(JSON.stringify(event));
  if (whole.length < MAX_LINE_CHARACTERS) return `${whole}\n`;
  for (const max of CUT_CHARACTERS) {
    const shorten = (_: string, value: unknown) =>
      typeof value === "string" && value.length > max ? value.slice(0, max) : value;
    const cut = escaped(JSON.stringify({ ...event, truncated: true }, shorten));
    if (cut.length < MAX_LINE_CHARACTERS) return `${cut}\n`;
  }
  return `${escaped(JSON.stringify({ ...event, truncated: true, payload: {} }))}\n`;
}

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const UNSAFE = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** JSON leaves these characters as they are, but they could steer a terminal or split the line. */
function escaped(json: string): string {
  return json.replace(UNSAFE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
