import type { Store } from "../store/store.ts";
import type { GrantRow } from "../store/tables.ts";

/** Sessions whose leave is remembered; the longest unused go first, and ask again. */
const MAX_SESSIONS = 1000;

/**
 * What somebody allowed beyond one call: signatures of the policy. Those for the rest of a session are kept in this
 * process only, those for good in the store, by owner, until they are revoked.
 */
export class Grants {
  readonly #store: Store;
  readonly #bySession = new Map<string, Set<string>>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Whether calls with this signature may go ahead unasked. */
  async allows(
    where: { readonly owner: string; readonly sessionId: string },
    signature: string,
  ): Promise<boolean> {
    if (this.#of(where.sessionId).has(signature)) return true;
    const { owner } = where;
    const row = await this.#store.read
      .selectFrom("grants")
      .select("signature")
      .where("owner", "=", owner)
      .where("signature", "=", signature)
      .executeTakeFirst();
    return row !== undefined;
  }

  allowForSession(sessionId: string, signature: string): void {
    this.#of(sessionId).add(signature);
  }

  async allowAlways(grant: Omit<GrantRow, "created_at">): Promise<void> {
    await this.#store.write(async (tx) => {
      const { owner, signature } = grant;
      if (await tx.find("grants", { owner, signature })) return;
      await tx.insert("grants", [{ ...grant, created_at: tx.nowMs }]);
    });
  }

  /** What `owner` allowed for good, newest first. */
  async list(owner: string): Promise<readonly GrantRow[]> {
    return this.#store.read
      .selectFrom("grants")
      .selectAll()
      .where("owner", "=", owner)
      .orderBy("created_at", "desc")
      .orderBy("signature")
      .execute();
  }

  /** Takes leave back that was given for good. False when there was none. */
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

  #of(sessionId: string): Set<string> {
    const grants = this.#bySession.get(sessionId) ?? new Set<string>();
    this.#bySession.delete(sessionId);
    this.#bySession.set(sessionId, grants);
    if (this.#bySession.size > MAX_SESSIONS) {
      const [oldest] = this.#bySession.keys();
      if (oldest !== undefined) this.#bySession.delete(oldest);
    }
    return grants;
  }
}
