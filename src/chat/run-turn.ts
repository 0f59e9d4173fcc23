/** One prompt without a screen: opens the session, submits the prompt and passes the events on until its turn ends. */
import {
  connectGateway,
  type GatewayClient,
  type GatewayClientEvent,
  type GatewayEvent,
} from "../client/gateway.ts";
import { cleanLine } from "../client/conversation/clean-text.ts";
import { reduceEvent } from "../client/conversation/reduce.ts";
import { isNotice, refusalOf, respond } from "../client/conversation/gateway.ts";
import { createStore, type Question, type WritableStore } from "../client/conversation/state.ts";
import type { ChatProgram } from "./run-chat.ts";
import { CurrentSession } from "../client/conversation/current-session.ts";
import { removeQuestion } from "../client/conversation/reduce-questions.ts";

interface TurnProgram extends ChatProgram {
  readonly prompt: string;
  readonly deltas: "all" | "final";
  /** Interrupts the turn. */
  readonly signal: AbortSignal;
  /** Called with each event of the session, in order; the next event waits for it. */
  readonly onEvent: (event: GatewayEvent, turn: Turn) => Promise<void> | void;
}

/** The turn of the prompt. */
export interface Turn {
  readonly call: GatewayClient["call"];
  readonly sessionId: string;
  readonly store: WritableStore;
}

type CompleteEvent = Extract<GatewayEvent, { type: "message.complete" }>;

/** How a turn ended. */
export type TurnEnd = CompleteEvent["payload"]["status"];

/** Runs one turn. Resolves to its last event; undefined: the prompt was removed from the queue. Rejects on failure. */
export async function runTurn(program: TurnProgram): Promise<CompleteEvent | undefined> {
  const { transport, version, target, model, prompt, signal, deltas } = program;
  await using client = await connectGateway({
    transport,
    client: { name: "agentd-chat", version },
    deltas,
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
    await program.onEvent(event, { call, sessionId, store });
    // The first event says that the prompt is queued; a second one before its turn starts says that it was removed.
    if (event.type === "session.queue" && event.turn_id === turnId && ++queueEvents > 1) return undefined;
    if (event.type === "message.complete" && event.turn_id === turnId) return event;
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

/** Refuses all open questions, each with a line for the reader. */
export async function refuseQuestions(
  { call, sessionId, store }: Turn,
  report: (line: string) => void,
): Promise<void> {
  for (const question of store.get().questions) {
    store.update((state) => removeQuestion(state, question.id));
    report(refusal(question));
    await respond(call, { sessionId, questionId: question.id, answer: refusalOf(question) });
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
