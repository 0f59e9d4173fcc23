import { LruMap } from "../../base/lru.ts";
import type { Store } from "../../store/store.ts";
import type { GrantRow } from "../../store/schema/tables.ts";

/** Sessions with remembered approvals; the one unused longest goes first, and asks again. */
const MAX_SESSIONS = 1000;
/** Remembered approvals of one session; the oldest goes first. */
const MAX_SIGNATURES = 1000;

/** Whose session it is. Two owners may give their sessions the same name. */
export interface GrantScope {
  readonly owner: string;
  readonly sessionId: string;
}

/**
 * Approvals that cover more than one call, as signatures of the policy. Those for a session are kept in this process
 * only; those for always are kept in the store, by owner, until they are revoked.
 */
export class Grants {
  readonly #store: Store;
  readonly #bySession = new LruMap<string, LruMap<string, true>>(MAX_SESSIONS);

  constructor(store: Store) {
    this.#store = store;
  }

  /** Returns whether calls with this signature need no further approval. */
  async allows({ owner, sessionId }: GrantScope, signature: string): Promise<boolean> {
    if (this.#bySession.get(keyOf({ owner, sessionId }))?.has(signature)) return true;
    const row = await this.#store.read
      .selectFrom("grants")
      .select("signature")
      .where("owner", "=", owner)
      .where("signature", "=", signature)
      .executeTakeFirst();
    return row !== undefined;
  }

  allowForSession(scope: GrantScope, signature: string): void {
    const key = keyOf(scope);
    const signatures = this.#bySession.get(key) ?? new LruMap<string, true>(MAX_SIGNATURES);
    signatures.set(signature, true);
    this.#bySession.set(key, signatures);
  }

  async allowAlways(grant: Omit<GrantRow, "created_at">): Promise<void> {
    await this.#store.write(async (tx) => {
      const { owner, signature } = grant;
      if (await tx.find("grants", { owner, signature })) return;
      await tx.insert("grants", [{ ...grant, created_at: tx.nowMs }]);
    });
  }

  /** Returns what `owner` always allows, newest first. */
  async list(owner: string): Promise<readonly GrantRow[]> {
    return this.#store.read
      .selectFrom("grants")
      .selectAll()
      .where("owner", "=", owner)
      .orderBy("created_at", "desc")
      .orderBy("signature")
      .execute();
  }

  /** Revokes an approval for always. False when there was none. */
  async revoke(owner: string, signature: string): Promise<boolean> {
    return this.#store.write(async (tx) => {
      const gone = await tx.db
        .deleteFrom("grants")
        .where("owner", "=", owner)
        .where("signature", "=", signature)
        .executeTakeFirst();
      return gone.numDeletedRows > 0n;
    });
  }
}

const keyOf = ({ owner, sessionId }: GrantScope): string => JSON.stringify([owner, sessionId]);
