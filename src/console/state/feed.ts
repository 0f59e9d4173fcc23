/** The feed of changes: which resources of the server changed, by any surface. */
import { call, connection, onEvent } from "./gateway.ts";

/** `run`, `session`, `question`, `delivery`, `route`, `job`, `occurrence`, `message`, `grant`, `key`, `config`, … */
export interface Change {
  readonly topic: string;
  readonly id: string;
}

interface Follower {
  readonly onChange: (change: Change) => void;
  /** Changes were missed: what is shown must be read again. */
  readonly onGap: () => void;
}

/** Reasons after which a subscription needs no renewal. */
const EXPECTED: ReadonlySet<string> = new Set(["unsubscribed", "replaced"]);

const followers = new Set<Follower>();
let cursor: string | undefined;
/** Something was read before a position was known: a subscription after one must be followed by reading it again. */
let isBlind = false;
/** A subscription without a cursor is on its way; after it, everything is read again. */
let isBeginning = false;
const begun = Promise.withResolvers<void>();

/** Whether what is read from now on misses no later change. */
export function isFollowing(): boolean {
  return cursor !== undefined;
}

/** Resolves when the first list, which the rail reads on every page, was answered or failed: it says where the feed stands. */
export function firstList(): Promise<void> {
  return begun.promise;
}

/** To be called when a list was read, or could not be. */
export function listEnded(): void {
  begun.resolve();
}

/**
 * Takes where the feed stood before something was read, and follows the changes from there when nothing else was read yet.
 * Returns false when changes may be missed, so that it must be read again. Undefined: the answer does not say.
 */
export function followFrom(position: string | undefined): boolean {
  if (isBeginning) return true;
  if (position === undefined) {
    isBlind ||= cursor === undefined;
    return cursor === undefined;
  }
  cursor ??= position;
  return cursor === position;
}

/** Follows the changes from now on. Returns a function that ends it. */
export function followChanges(follower: Follower): () => void {
  followers.add(follower);
  return () => void followers.delete(follower);
}

/** Subscribes on each connection, after the last change that was seen. */
export function startFeed(): void {
  let isOpen = false;
  connection.subscribe(() => {
    const { kind } = connection.get();
    if (kind === "open" && !isOpen) void subscribe();
    isOpen = kind === "open";
  });
  onEvent((event) => {
    if (event.type === "feed.bookmark") cursor = event.payload.cursor;
    if (event.type === "feed.closed" && !EXPECTED.has(event.payload.reason)) void subscribe();
    if (event.type !== "feed.event") return;
    const { id, type, data } = event.payload;
    cursor = id;
    const [topic = ""] = type.split(".");
    for (const { onChange } of followers) onChange({ topic, id: data.id });
  });
}

/** What was read before a subscription without a cursor may have changed meanwhile. */
async function subscribe(): Promise<void> {
  await firstList();
  const isWhole = cursor !== undefined && (await resume(cursor)) && !isBlind;
  isBlind = false;
  if (cursor === undefined) await begin();
  if (!isWhole) for (const { onGap } of followers) onGap();
}

/** False: the changes after the cursor are no longer kept, or the store is another one. */
async function resume(after: string): Promise<boolean> {
  try {
    await call("events.subscribe", { after });
    return true;
  } catch {
    cursor = undefined;
    return false;
  }
}

/** A key without the scope gets no feed: its pages are read when they are opened. */
async function begin(): Promise<void> {
  isBeginning = true;
  await call("events.subscribe").then(
    (position) => void (cursor ??= position.cursor),
    () => {},
  );
  isBeginning = false;
}
