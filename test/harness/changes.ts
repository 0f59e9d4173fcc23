import { changesIn, type ChangeRow } from "../../src/store/feed/feed.ts";
import type { Store } from "../../src/store/store.ts";

/** Every committed change, in order. On PostgreSQL the feed itself waits for older transactions of the whole server. */
export async function storedChanges({ read }: Pick<Store, "read">): Promise<readonly ChangeRow[]> {
  const packs = await read.selectFrom("changes").selectAll().orderBy("tx").orderBy("id").execute();
  return packs.flatMap(changesIn);
}

/** Resolves when readers of the feed see every committed change. */
export async function untilVisible(store: Pick<Store, "read" | "feed">): Promise<void> {
  const visible = async () => (await store.feed.read({ after: { tx: 0, id: 0 }, limit: 100_000 })).length;
  const stored = async () => (await storedChanges(store)).length;
  while ((await visible()) < (await stored())) await new Promise((resolve) => setImmediate(resolve));
}
