/** What people have written and not sent, or sent while the gateway was away. Kept in the browser. */
import { createStore, type Store } from "./store.ts";

const DRAFT = "agentd.draft.";
const PENDING = "agentd.pending";
const MAX_PENDING = 50;
const MAX_DRAFTS = 100;

export function readDraft(key: string): string {
  return localStorage.getItem(DRAFT + key) ?? "";
}

export function keepDraft(key: string, text: string): void {
  if (text === "") return localStorage.removeItem(DRAFT + key);
  const names = Object.keys(localStorage).filter((name) => name.startsWith(DRAFT));
  if (names.length >= MAX_DRAFTS && !names.includes(DRAFT + key)) localStorage.removeItem(names[0] ?? "");
  localStorage.setItem(DRAFT + key, text);
}

/** A message that the gateway has not confirmed. Its id makes sure that it is taken only once. */
export interface PendingMessage {
  readonly id: string;
  readonly sessionId: string;
  readonly text: string;
  readonly mode?: string;
  /** It had files, or replaces another one: a later page puts its text back into the composer instead of sending it. */
  readonly isDraft?: boolean;
  /** Unix milliseconds. */
  readonly atMs: number;
}

const store = createStore<readonly PendingMessage[]>(readPending());
export const pending: Store<readonly PendingMessage[]> = store;

function readPending(): readonly PendingMessage[] {
  try {
    const kept: unknown = JSON.parse(globalThis.localStorage?.getItem(PENDING) ?? "[]");
    return Array.isArray(kept) ? (kept as PendingMessage[]) : [];
  } catch {
    // Not written by this console.
    return [];
  }
}

export function addPending(message: PendingMessage): void {
  change((all) => [...all.filter(({ id }) => id !== message.id), message].slice(-MAX_PENDING));
}

export function removePending(id: string): void {
  change((all) => all.filter((message) => message.id !== id));
}

/** Other tabs write, too: each change begins with what is kept. */
function change(to: (all: readonly PendingMessage[]) => readonly PendingMessage[]): void {
  const next = to(readPending());
  localStorage.setItem(PENDING, JSON.stringify(next));
  store.update(() => next);
}
