/** The lines at the foot: what is used and what it costs, and which keys do something now. */
import type { ChatState, StatusFacts } from "../state/state.ts";
import { cutLine, lineWidth, span, type Line, type Span } from "./text/line.ts";
import { countText, moneyText } from "./text/quantity.ts";
import { cutToWidth, toOneLine } from "./text/width.ts";

const SEPARATOR = span(" · ", "dim");
const MAX_TITLE_CELLS = 32;
/** Of the context, in percent, from which on the line warns. */
const CONTEXT_IS_TIGHT = 80;

/** As many facts as fit, the most important ones first. */
export function statusLine(state: ChatState, width: number): Line {
  const { connection, session, status } = state;
  const title = toOneLine(session?.title ?? "");
  const facts: readonly (Span | undefined)[] = [
    connection.kind === "ready"
      ? undefined
      : span(connectionText(connection), connectionRole(connection.kind)),
    status.isYolo ? span("approves all", "warning") : undefined,
    status.model === "" ? undefined : span(modelText(status)),
    contextSpan(status),
    status.costUsd === undefined
      ? undefined
      : span(`${status.isCostEstimated ? "~" : ""}${moneyText(status.costUsd)}`),
    state.queue.length === 0 ? undefined : span(`${state.queue.length} queued`, "accent"),
    title === "" ? undefined : span(cutToWidth(title, MAX_TITLE_CELLS), "dim"),
  ];
  return fitting(facts.filter((fact) => fact !== undefined && fact.text !== "") as readonly Span[], width);
}

export function hintLine(state: ChatState, isWriting: boolean, width: number): Line {
  const hints = hintsOf(state, isWriting).map((hint) => span(hint, state.isLeaveArmed ? "warning" : "dim"));
  return fitting(hints, width);
}

function hintsOf(
  { isLeaveArmed, turn, picker, questions }: ChatState,
  isWriting: boolean,
): readonly string[] {
  if (isLeaveArmed) return ["ctrl-c again leaves"];
  if (questions.length > 0) return turn === undefined ? [] : ["ctrl-c denies"];
  if (picker !== undefined) return [];
  if (turn !== undefined && isWriting)
    return ["enter queues", "ctrl-t steers", "ctrl-x interrupts and sends"];
  if (turn !== undefined) return ["ctrl-c interrupts", "write on: enter queues, ctrl-t steers"];
  if (isWriting) return ["enter sends", "alt-enter new line", "ctrl-c clears"];
  return ["/ commands", "ctrl-o models", "ctrl-r sessions", "ctrl-d leaves"];
}

function connectionText(connection: ChatState["connection"]): string {
  if (connection.kind === "ready") return "";
  return toOneLine(connection.text) || connection.kind;
}

function connectionRole(kind: ChatState["connection"]["kind"]): Span["role"] {
  return kind === "closed" ? "bad" : "warning";
}

function modelText({ provider, model, reasoningEffort }: StatusFacts): string {
  const name = provider === "" || model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
  return reasoningEffort === undefined || reasoningEffort === "" ? name : `${name} ${reasoningEffort}`;
}

function contextSpan({
  contextPercent,
  contextUsed,
  contextMax,
  totalTokens,
}: StatusFacts): Span | undefined {
  const percent =
    contextPercent ??
    (contextUsed !== undefined && contextMax ? (contextUsed / contextMax) * 100 : undefined);
  if (percent !== undefined) {
    const of = contextMax === undefined ? "" : ` of ${countText(contextMax)}`;
    return span(`context ${Math.round(percent)}%${of}`, percent >= CONTEXT_IS_TIGHT ? "warning" : "plain");
  }
  return totalTokens === 0 ? undefined : span(`${countText(totalTokens)} tokens`);
}

function fitting(facts: readonly Span[], width: number): Line {
  const line: Span[] = [];
  for (const fact of facts) {
    const next = line.length === 0 ? [fact] : [...line, SEPARATOR, fact];
    if (line.length > 0 && lineWidth(next) > width) break;
    line.splice(0, line.length, ...next);
  }
  return cutLine(line, width);
}
