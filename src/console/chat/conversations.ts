/** The open conversations: each has its state, follows its events, and stays ready while another page is shown. */
import type { PromptFile } from "../../client/conversation/actions.ts";
import { Chat } from "../../client/conversation/chat.ts";
import {
  createStore as createState,
  INITIAL_STATE,
  type ChatState,
} from "../../client/conversation/state.ts";
import { ConnectionCutError, type GatewayClient } from "../../client/gateway.ts";
import { addPending, keepDraft, pending, readDraft, removePending } from "../state/drafts.ts";
import { call, connection, onEvent } from "../state/gateway.ts";
import { messageOf, randomName } from "../state/session.ts";
import { createStore, paced, type Store, type WritableStore } from "../state/store.ts";

/** The address of a session that has no message yet. */
export const NEW = "new";
/** More are closed, the longest unused first; their sessions go on. */
const MAX_OPEN = 8;
/** Items in memory; older ones are read again on request. */
const MAX_SETTLED = 20_000;

export interface Conversation {
  /** The id of the session, or NEW. */
  readonly key: WritableStore<string>;
  readonly chat: Chat;
  readonly state: Store<ChatState>;
  /** Why it could not be opened; empty: it is open or being opened. */
  readonly problem: Store<string>;
  /** Opens it again after a problem. */
  readonly retry: () => void;
  /** For the next prompt. They are kept as long as the page lives. */
  readonly files: WritableStore<readonly PromptFile[]>;
  /** The prompt that the next one replaces. */
  readonly edited: WritableStore<EditedPrompt | undefined>;
}

export interface EditedPrompt {
  readonly messageId: string;
  readonly text: string;
}

interface Kept extends Conversation {
  usedMs: number;
}

const open = new Map<string, Kept>();

/** Returns the conversation of a session, and opens it when it is not open. */
export function openConversation(key: string): Conversation {
  const kept = open.get(key) ?? create(key);
  kept.usedMs = performance.now();
  closeUnused();
  return kept;
}

function create(first: string): Kept {
  const source = createState({ ...INITIAL_STATE, maxSettled: MAX_SETTLED });
  const key = createStore(first);
  const problem = createStore("");
  const beginAgain = (text: string) => chat.open({ kind: "new" }).then(() => chat.submit(text));
  const call = keepingMessages(first === NEW ? beginAgain : undefined);
  const chat: Chat = new Chat({ call, store: source, now: Date.now, leave: () => {} });
  const retry = () => {
    problem.update(() => "");
    const target = first === NEW ? ({ kind: "new" } as const) : ({ kind: "saved", ref: first } as const);
    chat.open(target).catch((error: unknown) => problem.update(() => messageOf(error)));
  };
  const kept: Kept = {
    key,
    chat,
    state: paced(source),
    problem,
    retry,
    files: createStore<readonly PromptFile[]>([]),
    edited: createStore<EditedPrompt | undefined>(undefined),
    usedMs: performance.now(),
  };
  open.set(first, kept);
  source.update((state) => ({ ...state, connection: { kind: "ready" } }));
  source.subscribe(() => follow(kept, source.get()));
  retry();
  return kept;
}

/** A new session gets its address with its first message; `/branch` and the like lead to another one. */
function follow(kept: Kept, { session, settled, live, turn }: ChatState): void {
  const key = kept.key.get();
  if (session === undefined || session.id === key) return;
  if (key === NEW && turn === undefined && settled.length + live.length === 0) return;
  open.delete(key);
  open.set(session.id, kept);
  keepDraft(session.id, readDraft(key));
  keepDraft(key, "");
  kept.key.update(() => session.id);
}

function closeUnused(): void {
  const idle = [...open].filter(([, { state }]) => state.get().turn === undefined);
  const over = idle
    .toSorted(([, a], [, b]) => a.usedMs - b.usedMs)
    .slice(0, Math.max(0, open.size - MAX_OPEN));
  for (const [key, { state }] of over) {
    open.delete(key);
    const id = state.get().session?.id;
    // The gateway also closes sessions that have no client.
    if (id !== undefined) call("session.detach", { session_id: id }).catch(() => {});
  }
}

/**
 * Returns calls that keep a message in the browser until the gateway has it, however long that takes. A session without a
 * message ends with the gateway: `beginAgain` sends the first message of one to another.
 */
function keepingMessages(beginAgain?: (text: string) => Promise<unknown>): GatewayClient["call"] {
  let isSaved = !beginAgain;
  return (async (method: string, params: Record<string, unknown> = {}, options: object = {}) => {
    const plain = call as (...args: unknown[]) => Promise<unknown>;
    if (REPEATABLE.test(method)) return repeated(() => plain(method, params, options));
    if (method !== "prompt.submit") return plain(method, params, options);
    const id = String(params["client_turn_id"] ?? randomName());
    const sessionId = String(params["session_id"]);
    const { when_busy: mode } = params;
    const isPlain = typeof params["text"] === "string" && params["truncate_before_message_id"] === undefined;
    const text = textOf(params["text"]);
    const how = { ...(typeof mode === "string" ? { mode } : {}), ...(isPlain ? {} : { isDraft: true }) };
    addPending({ id, sessionId, text, atMs: Date.now(), ...how });
    try {
      const answer = await plain(method, { ...params, client_turn_id: id }, { ...options, timeoutMs: 0 });
      isSaved = true;
      return answer;
    } catch (error) {
      const isGone = (error as { readonly reason?: unknown }).reason === "session_not_found";
      if (isGone && isPlain && !isSaved) setTimeout(() => void beginAgain?.(text).catch(() => {}));
      throw error;
    } finally {
      removePending(id);
    }
  }) as GatewayClient["call"];
}

/** Answers are taken once, by the question's id; a session without a message is not saved; the others only read. */
const REPEATABLE = /\.(respond|create|resume|activate|history)$/;

/** Makes a call again when the connection broke before its answer came. */
async function repeated(make: () => Promise<unknown>): Promise<unknown> {
  for (;;) {
    try {
      return await make();
    } catch (error) {
      if (!(error instanceof ConnectionCutError)) throw error;
    }
  }
}

/** Returns the text of a prompt, or of its parts. */
function textOf(sent: unknown): string {
  if (!Array.isArray(sent)) return String(sent);
  return String((sent[0] as { readonly text?: unknown } | undefined)?.text ?? "");
}

/** Passes events on, and sends what an earlier page could not. */
export function startConversations(): void {
  onEvent((event) => {
    for (const { chat } of open.values()) chat.take(event);
  });
  void sendKept();
}

async function sendKept(): Promise<void> {
  for (const { id, sessionId, text, mode, isDraft } of pending.get()) {
    if (isDraft) {
      // Its files are gone with the earlier page, so the person decides.
      removePending(id);
      keepDraft(sessionId, text);
      continue;
    }
    try {
      await call("session.resume", { session_id: sessionId, omit_messages: true });
      const when = mode === undefined ? {} : { when_busy: mode as "queue" };
      await call(
        "prompt.submit",
        { session_id: sessionId, text, client_turn_id: id, ...when },
        { timeoutMs: 0 },
      );
      removePending(id);
    } catch (error) {
      // The session is gone: the text goes back to where it can be sent again.
      removePending(id);
      keepDraft(NEW, text);
      connection.update((state) => ({ ...state, reason: messageOf(error) }));
    }
  }
}
