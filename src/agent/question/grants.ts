import { LruMap } from "../../base/data.ts";
import { sha256 } from "../../base/text.ts";
import type { Store } from "../../store/store.ts";
import type { GrantRow } from "../../store/schema/tables.ts";

/** Most sessions with remembered approvals. The least recently used one is dropped, and asks again. */
const MAX_SESSIONS = 1000;
/** Most remembered approvals of one session. The oldest is dropped. */
const MAX_SIGNATURES = 1000;

/** Returns the id of a permanent approval. Its signature may hold what was approved, so it is the digest. */
function grantId({ owner, signature }: Pick<GrantRow, "owner" | "signature">): string {
  return `grant_${sha256(JSON.stringify([owner, signature])).slice(0, ID_DIGITS)}`;
}

const ID_DIGITS = 32;

/** Whose session it is. Two owners may give their sessions the same name. */
export interface GrantScope {
  readonly owner: string;
  readonly sessionId: string;
}

/**
 * Approvals that cover more than one call, as signatures of the policy. Those for a session are kept in this process
 * only; those for always are kept in the store, by owner, until they are revoked. Denials for a session are kept
 * like its approvals.
 */
export class Grants {
  readonly #store: Store;
  readonly #bySession = new LruMap<string, LruMap<string, true>>(MAX_SESSIONS);
  readonly #denials = new LruMap<string, LruMap<string, true>>(MAX_SESSIONS);

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
    add(this.#bySession, scope, signature);
  }

  /** Returns whether the user denied calls with this signature for the session. */
  denies(scope: GrantScope, signature: string): boolean {
    return this.#denials.get(keyOf(scope))?.has(signature) === true;
  }

  denyForSession(scope: GrantScope, signature: string): void {
    add(this.#denials, scope, signature);
  }

  /** Keeps a permanent approval. `actor`: who gave it, for the feed. */
  async allowAlways(grant: Omit<GrantRow, "created_at">, actor: string): Promise<void> {
    await this.#store.write(async (tx) => {
      const { owner, signature } = grant;
      if (await tx.find("grants", { owner, signature })) return;
      await tx.insert("grants", [{ ...grant, created_at: tx.nowMs }]);
      tx.record({ type: "grant.created", ref: grantId(grant), owner, data: { tool: grant.tool }, actor });
    });
  }

  /** Returns what `owner` always allows, newest first; undefined: of all owners. */
  async list(owner: string | undefined): Promise<readonly GrantRow[]> {
    const all = this.#store.read.selectFrom("grants").selectAll();
    return (owner === undefined ? all : all.where("owner", "=", owner))
      .orderBy("created_at", "desc")
      .orderBy("signature")
      .execute();
  }

  /** Returns the id of a permanent approval, for clients. */
  idOf(grant: Pick<GrantRow, "owner" | "signature">): string {
    return grantId(grant);
  }

  /** Revokes a permanent approval. False if it does not exist. `actor`: who does it, for the feed. */
  async revoke(owner: string, signature: string, actor: string | null = null): Promise<boolean> {
    return this.#store.write(async (tx) => {
      const gone = await tx.db
        .deleteFrom("grants")
        .where("owner", "=", owner)
        .where("signature", "=", signature)
        .executeTakeFirst();
      if (gone.numDeletedRows === 0n) return false;
      tx.record({ type: "grant.deleted", ref: grantId({ owner, signature }), owner, data: {}, actor });
      return true;
    });
  }
}

function add(sessions: LruMap<string, LruMap<string, true>>, scope: GrantScope, signature: string): void {
  const key = keyOf(scope);
  const signatures = sessions.get(key) ?? new LruMap<string, true>(MAX_SIGNATURES);
  signatures.set(signature, true);
  sessions.set(key, signatures);
}

const keyOf = ({ owner, sessionId }: GrantScope): string => JSON.stringify([owner, sessionId]);
