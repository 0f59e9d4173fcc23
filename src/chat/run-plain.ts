/** `agentd chat` without a terminal: one prompt, its answer on the output, everything else beside it. */
import {
  connectGateway,
  type GatewayClient,
  type GatewayClientEvent,
  type GatewayEvent,
} from "../client/gateway.ts";
import { cleanLine, cleanText } from "./clean-text.ts";
import { reduceEvent } from "./state/reduce.ts";
import { isNotice, refusalOf, respond } from "./gateway.ts";
import { createStore, type Question } from "./state/state.ts";
import type { ChatProgram } from "./run-chat.ts";
import { CurrentSession } from "./current-session.ts";
import { removeQuestion } from "./state/reduce-questions.ts";

interface PlainProgram extends ChatProgram {
  readonly prompt: string;
  /** The answer, and nothing else. Of text that goes to a terminal the control characters are taken out. */
  readonly write: (text: string) => void;
  /** A line about what goes on. */
  readonly report: (line: string) => void;
  /** Interrupts the turn. */
  readonly signal: AbortSignal;
}

/** How a turn ended. */
type PlainEnd = "complete" | "interrupted" | "error";

/** One turn. Rejects when the gateway cannot be reached, or refuses. */
export async function runPlain(program: PlainProgram): Promise<PlainEnd> {
  const { transport, version, target, model, prompt, signal } = program;
  await using client = await connectGateway({
    transport,
    client: { name: "agentd-chat", version },
    deltas: "final",
  });
  const call: GatewayClient["call"] = (method, ...args) => client.call(method, ...args);
  // Listening begins before there is anything to hear.
  const events = client.events();
  const store = createStore();
  const session = new CurrentSession({ call, store, now: Date.now, columns: () => COLUMNS });
  await session.open(target);
  const { sessionId = "" } = session;
  if (model !== undefined && target.kind !== "new") {
    await call("config.set", { key: "model", value: model, session_id: sessionId, scope: "session" });
  }
  const { turn_id: turnId } = await call("prompt.submit", {
    session_id: sessionId,
    text: prompt,
    when_busy: "queue",
  });
  const interrupt = () => {
    // Without its name the turn of somebody else would be ended, behind which this one waits.
    const turn = turnId === null ? {} : { turn_id: turnId };
    call("session.interrupt", { session_id: sessionId, ...turn }).catch(() => {});
  };
  signal.addEventListener("abort", interrupt, { once: true });
  if (signal.aborted) interrupt();
  let queueEvents = 0;
  for await (const event of events) {
    assertHeard(event, sessionId);
    if (isNotice(event) || event.session_id !== sessionId) continue;
    store.update((state) => reduceEvent(state, event));
    // The first says that the prompt waits; another one, before its turn began, that it waits no more.
    if (event.type === "session.queue" && event.turn_id === turnId && ++queueEvents > 1) {
      program.report("The prompt was taken out of the queue.");
      return "interrupted";
    }
    if (event.type === "message.complete" && event.turn_id === turnId) return ended(event.payload, program);
    const line = lineOf(event);
    if (line !== undefined) program.report(line);
    for (const question of store.get().questions) {
      store.update((state) => removeQuestion(state, question.id));
      program.report(refusal(question));
      await respond(call, { sessionId, questionId: question.id, answer: refusalOf(question) });
    }
  }
  throw new Error("The gateway ended before the answer was whole.");
}

const COLUMNS = 80;

/** Throws when nothing more is heard of the session: whoever waited on would wait for ever. */
function assertHeard(event: GatewayClientEvent, sessionId: string): void {
  if (event.session_id !== sessionId) return;
  if (event.type === "client.lost") throw new Error(event.payload.message);
  if (event.type !== "session.closed" && event.type !== "client.gap") return;
  const what = event.type === "client.gap" ? "Some events were not kept" : "The session was closed";
  const how = `agentd chat --resume ${cleanLine(sessionId)}`;
  throw new Error(`${what} before the answer was whole. What became of it: ${how}`);
}

function ended(
  payload: Extract<GatewayEvent, { type: "message.complete" }>["payload"],
  { write, report }: PlainProgram,
): PlainEnd {
  const { text, status, warning, error } = payload;
  if (text !== "") write(text.endsWith("\n") ? text : `${text}\n`);
  if (warning !== undefined) report(cleanText(warning));
  if (status === "interrupted") report(cleanText(error ?? "Interrupted."));
  if (status === "error") report(cleanText(error ?? "The turn failed."));
  return status;
}

/** What is worth a line to somebody who waits. */
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

function refusal(question: Question): string {
  const where = "nobody is here to answer; use agentd chat at a terminal.";
  switch (question.kind) {
    case "approval":
      return `Denied: ${cleanLine(question.command)} - ${where}`;
    case "clarify":
      return `Not answered: ${cleanLine(question.question)} - ${where}`;
    case "sudo":
      return `No password for: ${cleanLine(question.command)} - ${where}`;
    case "secret":
      return `No value for ${question.envVar} - ${where}`;
  }
}
