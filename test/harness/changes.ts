import { changesIn, type ChangeRow } from "../../src/store/feed/feed.ts";
import type { Store } from "../../src/store/store.ts";

/** Every committed change, in order. On PostgreSQL the feed itself waits for older transactions of the whole server. */
export async function storedChanges({ read }: Pick<Store, "read">): Promise<readonly ChangeRow[]> {
  const packs = await read.selectFrom("changes").selectAll().orderBy("tx").orderBy("id").execute();
  return packs.flatMap(changesIn);
}
