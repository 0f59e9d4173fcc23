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
  let isWhole = cursor !== undefined;
  try {
    const position = await call("events.subscribe", cursor === undefined ? {} : { after: cursor });
    cursor ??= position.cursor;
  } catch {
    // The changes after the cursor are no longer kept, or the store is another one.
    isWhole = false;
    cursor = undefined;
    // A key without the scope gets no feed: its pages are read when they are opened.
    await call("events.subscribe").then(
      (position) => void (cursor ??= position.cursor),
      () => {},
    );
  }
  if (!isWhole) for (const { onGap } of followers) onGap();
}
