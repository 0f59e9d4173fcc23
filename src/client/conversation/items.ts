/** The transcript: live items, and settled items, which never change. Pure. */
import type { ChatState, NoticeItem, ToolItem, TranscriptItem } from "./state.ts";

/** Most items that wait behind a long-running one. */
const MAX_LIVE = 200;

/** An item without its id. */
type Draft<T extends TranscriptItem = TranscriptItem> = T extends TranscriptItem
  ? Omit<T, "id"> & { readonly id?: string }
  : never;

/** Appends an item. It settles when it and all items before it are done. */
export function append(state: ChatState, draft: Draft): ChatState {
  const item = { ...draft, id: draft.id ?? `item-${state.serial}` } as TranscriptItem;
  return settle({ ...state, serial: state.serial + 1, live: [...state.live, item] });
}

/** Appends a notice. */
export function notice(state: ChatState, level: NoticeItem["level"], text: string): ChatState {
  return text === "" ? state : append(state, { kind: "notice", level, text });
}

/** Replaces the live item at that index. */
export function replaceAt(state: ChatState, index: number, item: TranscriptItem): ChatState {
  return settle({ ...state, live: state.live.with(index, item) });
}

/** Closes and settles all live items. */
export function closeAll(state: ChatState): ChatState {
  if (state.live.length === 0) return state;
  return settle({ ...state, live: state.live.map(closed) });
}

/** Closes the last item if it is text or reasoning; tools stay live. */
export function closeText(state: ChatState): ChatState {
  const last = state.live.at(-1);
  if (!last || isDone(last) || (last.kind !== "assistant" && last.kind !== "reasoning")) return state;
  return replaceAt(state, state.live.length - 1, closed(last));
}

/** Replaces the transcript; the screen starts again with these items. */
export function restart(state: ChatState, items: readonly TranscriptItem[]): ChatState {
  const kept = items.slice(-state.maxSettled);
  return { ...state, generation: state.generation + 1, settled: kept, dropped: 0, live: [] };
}

/** Puts older items before the settled ones. */
export function prepend(state: ChatState, items: readonly TranscriptItem[]): ChatState {
  return { ...state, settled: [...items, ...state.settled], dropped: state.dropped - items.length };
}

/** Puts text into the composer: instead of `replaces` if the draft contains it, otherwise instead of the draft. */
export function fillComposer(
  state: ChatState,
  { text, replaces }: { readonly text: string; readonly replaces?: string },
): ChatState {
  // From 1: the screen has already inserted serial 0.
  const serial = state.serial + 1;
  const prefill = { serial, text, ...(replaces === undefined ? {} : { replaces }) };
  return { ...state, composer: { ...state.composer, prefill }, serial };
}

function settle(state: ChatState): ChatState {
  const open = state.live.findIndex((item) => !isDone(item));
  const count = Math.max(open < 0 ? state.live.length : open, state.live.length - MAX_LIVE);
  if (count === 0) return state;
  const all = [...state.settled, ...state.live.slice(0, count).map(closed)];
  const over = Math.max(0, all.length - state.maxSettled);
  return {
    ...state,
    settled: over === 0 ? all : all.slice(over),
    dropped: state.dropped + over,
    live: state.live.slice(count),
  };
}

/** Marks the running tools that wait for an answer, and no longer those whose question is gone. */
export function markWaiting(state: ChatState): ChatState {
  const statusOf = (item: ToolItem): ToolItem["status"] =>
    state.questions.some(({ toolId }) => toolId !== undefined && isItemOf(item, "tool", toolId))
      ? "waiting"
      : "running";
  const live = state.live.map((item) => {
    if (item.kind !== "tool" || (item.status !== "running" && item.status !== "waiting")) return item;
    const status = statusOf(item);
    return status === item.status ? item : { ...item, status };
  });
  return live.every((item, index) => item === state.live[index]) ? state : { ...state, live };
}

/** Makes a unique id for what the gateway calls `id`: models reuse call ids in later turns. */
export function itemIdOf(kind: string, id: string, serial: number): string {
  return `${kind}:${id}#${serial}`;
}

/** Returns whether an item has an id of {@link itemIdOf} for this `id`. */
export function isItemOf(item: TranscriptItem, kind: string, id: string): boolean {
  return item.kind === kind && item.id.slice(0, item.id.lastIndexOf("#")) === `${kind}:${id}`;
}

function isDone(item: TranscriptItem): boolean {
  switch (item.kind) {
    case "assistant":
      return item.status !== "streaming";
    case "reasoning":
      return !item.isStreaming;
    case "tool":
      return item.status !== "writing" && item.status !== "waiting" && item.status !== "running";
    case "subagent":
      return isTerminal(item.status);
    default:
      return true;
  }
}

/** Returns whether a sub-agent's status is final. */
export function isTerminal(status: string): boolean {
  return status !== "queued" && status !== "running";
}

function closed(item: TranscriptItem): TranscriptItem {
  if (isDone(item)) return item;
  switch (item.kind) {
    case "assistant":
      return { ...item, status: "complete" };
    case "reasoning":
      return { ...item, isStreaming: false };
    case "tool":
      return { ...item, status: "cut" };
    case "subagent":
      return { ...item, status: "interrupted" };
    default:
      return item;
  }
}
