/** `agentd chat` without a terminal: one prompt, the answer on standard output, progress on standard error. */
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
  /** Writes the answer. */
  readonly write: (text: string) => void;
  /** Reports one line of progress. */
  readonly report: (line: string) => void;
  /** Interrupts the turn. */
  readonly signal: AbortSignal;
}

/** How the turn ended. */
type PlainEnd = "complete" | "interrupted" | "error";

/** Runs one turn. Rejects when the gateway is unreachable or refuses. */
export async function runPlain(program: PlainProgram): Promise<PlainEnd> {
  const { transport, version, target, model, prompt, signal } = program;
  await using client = await connectGateway({
    transport,
    client: { name: "agentd-chat", version },
    deltas: "final",
  });
  const call: GatewayClient["call"] = (method, ...args) => client.call(method, ...args);
  // Listen before the first event can be sent.
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
    // Without its id the call would interrupt the turn ahead of this one.
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
    // The first event says that the prompt is queued; a second one before its turn starts says that it was removed.
    if (event.type === "session.queue" && event.turn_id === turnId && ++queueEvents > 1) {
      program.report("The prompt was removed from the queue.");
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
  throw new Error("The gateway ended before the answer was complete.");
}

const COLUMNS = 80;

/** Throws when the session sends no more events, which would otherwise be awaited for ever. */
function assertHeard(event: GatewayClientEvent, sessionId: string): void {
  if (event.session_id !== sessionId) return;
  if (event.type === "client.lost") throw new Error(event.payload.message);
  if (event.type !== "session.closed" && event.type !== "client.gap") return;
  const what = event.type === "client.gap" ? "Some events were lost" : "The session was closed";
  const how = `agentd chat --resume ${cleanLine(sessionId)}`;
  throw new Error(`${what} before the answer was complete. Run \`${how}\` to see the session.`);
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

function refusal(question: Question): string {
  const where = "no terminal to answer at; run agentd chat at a terminal.";
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
