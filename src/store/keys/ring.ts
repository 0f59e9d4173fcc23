/** Finds created API keys for requests, and ends what is open when a key ends. */
import { LruMap } from "../../base/data.ts";
import type { KeyValidity } from "../../base/net/request.ts";
import { sha256 } from "../../base/text.ts";
import type { Clock } from "../../base/time.ts";
import type { ApiKeyRow } from "../schema/tables.ts";
import type { Store } from "../store.ts";
import { toUsd } from "./money.ts";

/** The holder of a created key. */
export interface CreatedKeyHolder {
  readonly name: string;
  readonly owner: string;
  readonly scopes: readonly string[];
  readonly validity: KeyValidity;
}

export interface CreatedKeysDeps {
  readonly store: Store;
  readonly clock: Clock;
  /** Called with a key and its limits before a request uses it. */
  readonly onFound?: (key: {
    readonly name: string;
    readonly rateLimitRpm: number | undefined;
    readonly maxConcurrentRuns: number | undefined;
    readonly dayBudgetUsd: number | undefined;
  }) => void;
}

/** How long a key is used without a look at the database: another process may have revoked it. */
const CACHE_MS = 2_000;
/** How often the keys of open streams and sockets are checked. */
const CHECK_MS = 2_000;
/** How exact the time of the last use is. */
const USED_MS = 60_000;
const MAX_CACHED = 1_024;

const CREATED_KEY = /^agk_[A-Za-z0-9_-]{43}$/;

interface Cached {
  readonly row: ApiKeyRow;
  readonly holder: CreatedKeyHolder;
  readonly readAtMs: number;
}

/** Something open that ends with its key. */
interface Use {
  readonly keyId: string;
  readonly digest: string;
  readonly revision: number;
  readonly end: () => void;
}

/** The created keys as this process uses them. */
export class CreatedKeys {
  readonly #deps: CreatedKeysDeps;
  #cache = new LruMap<string, Cached>(MAX_CACHED);
  readonly #uses = new Set<Use>();
  #cancelCheck: (() => void) | undefined;
  /** Grows with each change in this process: what was read before it is not kept. */
  #version = 0;

  constructor(deps: CreatedKeysDeps) {
    this.#deps = deps;
  }

  /**
   * Returns the holder of a presented key; undefined when it does not exist, has expired or is revoked. A key that was
   * looked up just now is found without waiting. Rejects with ServiceError `state_store_unavailable`.
   */
  find(presented: string): CreatedKeyHolder | undefined | Promise<CreatedKeyHolder | undefined> {
    // The time of a look-up by digest says nothing about the 256 random bits of another key.
    return CREATED_KEY.test(presented) ? this.findDigest(sha256(presented)) : undefined;
  }

  /** As {@link find}, by the SHA-256 of the value in hex. */
  findDigest(digest: string): CreatedKeyHolder | undefined | Promise<CreatedKeyHolder | undefined> {
    const nowMs = this.#deps.clock.now();
    const cached = this.#cache.get(digest);
    if (!cached || nowMs - cached.readAtMs >= CACHE_MS) return this.#read(digest);
    return isValid(cached.row, digest, nowMs) ? cached.holder : undefined;
  }

  /** Forgets what is cached and ends what a change in this process has ended. */
  changed(): void {
    this.#version++;
    this.#cache = new LruMap(MAX_CACHED);
    if (this.#uses.size > 0) void this.#check();
  }

  async #read(digest: string): Promise<CreatedKeyHolder | undefined> {
    const { store, clock, onFound } = this.#deps;
    const version = this.#version;
    const row =
      (await store.find("api_keys", { sha256: digest })) ??
      (await store.find("api_keys", { previous_sha256: digest }));
    const nowMs = clock.now();
    if (!row || !isValid(row, digest, nowMs)) return undefined;
    const holder = this.#holderOf(row, digest);
    if (version === this.#version) this.#cache.set(digest, { row, holder, readAtMs: nowMs });
    onFound?.({
      name: row.name,
      rateLimitRpm: row.rate_limit_rpm ?? undefined,
      maxConcurrentRuns: row.max_concurrent_runs ?? undefined,
      dayBudgetUsd: toUsd(row.day_budget_nano) ?? undefined,
    });
    this.#touch(row, nowMs);
    return holder;
  }

  #holderOf(row: ApiKeyRow, digest: string): CreatedKeyHolder {
    const onEnd = (end: () => void) => {
      const use: Use = { keyId: row.id, digest, revision: row.revision, end };
      this.#uses.add(use);
      this.#checkLater();
      return () => {
        this.#uses.delete(use);
        if (this.#uses.size > 0) return;
        this.#cancelCheck?.();
        this.#cancelCheck = undefined;
      };
    };
    const scopes = JSON.parse(row.scopes) as readonly string[];
    return { name: row.name, owner: row.owner, scopes, validity: { onEnd } };
  }

  /** Saves the time of use, in the background. A failure does not refuse the request. */
  #touch({ id, last_used_at: last }: ApiKeyRow, nowMs: number): void {
    if (last !== null && nowMs - last < USED_MS) return;
    const used = { last_used_at: nowMs };
    this.#deps.store.write((tx) => tx.update("api_keys", { id }, used), { durable: false }).catch(() => {});
  }

  #checkLater(): void {
    this.#cancelCheck ??= this.#deps.clock.after(CHECK_MS, () => {
      this.#cancelCheck = undefined;
      void this.#check();
    });
  }

  async #check(): Promise<void> {
    try {
      const ids = [...new Set([...this.#uses].map(({ keyId }) => keyId))];
      const rows = await this.#deps.store.read
        .selectFrom("api_keys")
        .selectAll()
        .where("id", "in", ids)
        .execute();
      const byId = new Map(rows.map((row) => [row.id, row]));
      const nowMs = this.#deps.clock.now();
      for (const use of this.#uses) {
        const row = byId.get(use.keyId);
        if (row && row.revision === use.revision && isValid(row, use.digest, nowMs)) continue;
        // What was opened after the read has a key of which nothing was read.
        if (!ids.includes(use.keyId)) continue;
        this.#uses.delete(use);
        use.end();
      }
    } catch {
      // The database is away. The next check decides.
    }
    if (this.#uses.size > 0) this.#checkLater();
  }
}

function isValid(row: ApiKeyRow, digest: string, nowMs: number): boolean {
  if (row.revoked_at !== null || (row.expires_at !== null && row.expires_at <= nowMs)) return false;
  if (row.sha256 === digest) return true;
  return row.previous_sha256 === digest && (row.previous_until ?? 0) > nowMs;
}
