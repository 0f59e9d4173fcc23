import { countMessages, type MessageStatus } from "../../store/outbox/messages.ts";
import type { Store } from "../../store/store.ts";
import { platforms } from "../target.ts";

/** Number of messages by status. */
export interface OutboxCounts {
  readonly due: number;
  readonly sending: number;
  /** No attempt is left. */
  readonly dead: number;
  /** They may have arrived. */
  readonly unknown: number;
}

export interface OutboxStats {
  readonly all: OutboxCounts;
  /** When the oldest due message was enqueued, Unix milliseconds. */
  readonly oldestDueAtMs: number | undefined;
  /** Counts by platform. Unknown platforms count as `other`. */
  readonly byPlatform: ReadonlyMap<string, OutboxCounts>;
}

const NONE: OutboxCounts = { due: 0, sending: 0, dead: 0, unknown: 0 };
const COUNTED: Readonly<Partial<Record<MessageStatus, keyof OutboxCounts>>> = {
  due: "due",
  leased: "sending",
  dead: "dead",
  unknown: "unknown",
};

/** Returns the message counts of an owner, or of the whole database. Throws ServiceError `state_store_unavailable`. */
export async function readOutboxStats(
  store: Store,
  { owner }: { readonly owner?: string } = {},
): Promise<OutboxStats> {
  const byPlatform = new Map<string, OutboxCounts>();
  let all = NONE;
  let oldestDueAtMs: number | undefined;
  for (const { platform, status, count, oldestAtMs } of await countMessages(store, owner)) {
    const key = COUNTED[status];
    if (key === undefined) continue;
    const name = Object.hasOwn(platforms, platform) ? platform : "other";
    const before = byPlatform.get(name) ?? NONE;
    byPlatform.set(name, { ...before, [key]: before[key] + count });
    all = { ...all, [key]: all[key] + count };
    if (key === "due") oldestDueAtMs = Math.min(oldestDueAtMs ?? Infinity, oldestAtMs);
  }
  return { all, oldestDueAtMs, byPlatform };
}
