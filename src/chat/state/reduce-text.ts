/** What the model says and thinks, as items of the transcript. Pure. */
import { cleanHead, cleanLine, cleanText } from "../clean-text.ts";
import { append, closeAll, closeText, notice, replaceAt } from "./items.ts";
import type { AssistantItem, ChatState } from "./state.ts";
import type { GatewayPayload } from "../gateway-types.ts";

/** Longer text is cut on the screen; the session has it whole. */
const MAX_TEXT = 200_000;
const HOLE = " […] ";

export function startTurn(
  state: ChatState,
  payload: GatewayPayload<"message.start">,
  startedAtMs: number,
): ChatState {
  const { turn_id: id, input, origin } = payload;
  if (state.turn?.id === id) return state;
  const begun: ChatState = {
    ...closeAll(state),
    queue: state.queue.filter(({ turnId }) => turnId !== id),
    turn: { id, startedAtMs, activity: "", isBetweenMessages: false, isInterrupting: false },
  };
  if (!input) return begun;
  const isTyped = origin === "user" || origin === "queue";
  const text = cleanHead(input.text, MAX_TEXT);
  return append(begun, { kind: "user", text, ...(isTyped ? {} : { origin }) });
}

export function addText(state: ChatState, { text, dropped = 0 }: GatewayPayload<"message.delta">): ChatState {
  const said = (dropped > 0 ? HOLE : "") + cleanText(text);
  const open = state.turn?.isBetweenMessages === true ? closeText(state) : state;
  const here = withTurn(open, { isBetweenMessages: false, activity: "" });
  const last = here.live.at(-1);
  if (last?.kind !== "assistant") {
    return append(closeText(here), { kind: "assistant", text: said, status: "streaming" });
  }
  if (last.text.length > MAX_TEXT) return here;
  return replaceAt(here, here.live.length - 1, { ...last, text: last.text + said });
}

export function addReasoning(
  state: ChatState,
  { text, dropped = 0 }: GatewayPayload<"reasoning.delta">,
): ChatState {
  const said = (dropped > 0 ? HOLE : "") + cleanText(text);
  const last = state.live.at(-1);
  if (last?.kind !== "reasoning") {
    return append(closeText(state), { kind: "reasoning", text: said, isStreaming: true });
  }
  if (last.text.length > MAX_TEXT) return state;
  return replaceAt(state, state.live.length - 1, { ...last, text: last.text + said });
}

/** The whole of a piece of reasoning, whether or not it came bit by bit before. */
export function wholeReasoning(state: ChatState, { text }: GatewayPayload<"reasoning.available">): ChatState {
  const whole = cleanHead(text, MAX_TEXT);
  const last = state.live.at(-1);
  if (last?.kind === "reasoning") {
    return replaceAt(state, state.live.length - 1, { ...last, text: whole, isStreaming: false });
  }
  if (whole === "") return state;
  return append(closeText(state), { kind: "reasoning", text: whole, isStreaming: false });
}

/** A word about what goes on; empty at the beginning and the end of every message. */
export function thinking(state: ChatState, { text }: GatewayPayload<"thinking.delta">): ChatState {
  return withTurn(state, { activity: cleanLine(text), ...(text === "" ? { isBetweenMessages: true } : {}) });
}

/** The turn's end. Its text counts, whatever the deltas said. */
export function completeTurn(state: ChatState, payload: GatewayPayload<"message.complete">): ChatState {
  const { status, warning, undelivered_steer: undelivered = [] } = payload;
  let next = closeAll(withAnswer(state, payload));
  if (warning !== undefined) next = notice(next, "warning", cleanText(warning));
  if (status === "interrupted") next = notice(next, "info", cleanText(payload.error ?? "Interrupted."));
  if (status === "error") next = notice(next, "error", failure(payload));
  for (const text of undelivered) {
    next = notice(next, "warning", `The turn ended before the agent got this: ${cleanHead(text, 2_000)}`);
  }
  const { turn: _, ...rest } = next;
  return rest;
}

function withAnswer(state: ChatState, payload: GatewayPayload<"message.complete">): ChatState {
  const text = cleanHead(payload.text, MAX_TEXT);
  const status: AssistantItem["status"] = payload.status;
  const last = state.live.at(-1);
  if (last?.kind === "assistant") {
    return replaceAt(state, state.live.length - 1, { ...last, text: text === "" ? last.text : text, status });
  }
  if (text === "" || isSaid(state, text)) return state;
  return append(closeText(state), { kind: "assistant", text, status });
}

/** A message before a tool call may be the last that a turn says: it stands there already. */
function isSaid({ settled, live }: ChatState, text: string): boolean {
  const items = [...settled, ...live];
  const asked = items.findLastIndex(({ kind }) => kind === "user");
  const said = items.slice(asked + 1).findLast((item) => item.kind === "assistant");
  return said?.text === text;
}

function failure({ error, error_info: info }: GatewayPayload<"message.complete">): string {
  const message = cleanText(error ?? "The turn failed.");
  const code = info === undefined ? "" : ` (${cleanLine(info.code, 60)})`;
  return `${message}${code}${info?.retryable === true ? " Try again: press the up key and Enter." : ""}`;
}

function withTurn(state: ChatState, change: Partial<NonNullable<ChatState["turn"]>>): ChatState {
  if (!state.turn) return state;
  const isSame = Object.entries(change).every(([key, value]) => state.turn?.[key as "activity"] === value);
  return isSame ? state : { ...state, turn: { ...state.turn, ...change } };
}
