/** API keys that are created while the service runs: their rows and their changes. */
import { ServiceError } from "../../base/errors.ts";
import { createId, sha256 } from "../../base/text.ts";
import type { Change } from "../feed/change.ts";
import type { ApiKeyRow } from "../schema/tables.ts";
import { type Store, writeOrTry } from "../store.ts";
import { lockName, type Tx } from "../tx/tx.ts";
import { toNano } from "./money.ts";

/** A key of the configuration file, without its value. */
export interface ConfiguredKey {
  readonly name: string;
  readonly scopes: readonly string[];
}

export interface ApiKeysDeps {
  readonly store: Store;
  readonly configured: readonly ConfiguredKey[];
  /** Called after each committed change. */
  readonly onChange?: () => void;
}

export interface NewKey {
  readonly name: string;
  readonly owner: string;
  readonly scopes: readonly string[];
  readonly rateLimitRpm: number | null;
  readonly maxConcurrentRuns: number | null;
  readonly dayBudgetUsd: number | null;
  readonly expiresAtMs: number | null;
}

/** What may change. Absent: it stays. */
export type KeyChange = Partial<Omit<NewKey, "name" | "owner">>;

export interface KeyEdit {
  /** Author of the change. */
  readonly actor: string;
  readonly dryRun?: boolean;
  /** Checks the current row; throws to refuse the change. */
  readonly check?: (row: ApiKeyRow) => void;
  /** Writes further records in the same transaction. */
  readonly alsoRecord?: (tx: Tx, id: string) => Promise<void>;
}

/** A key with its value, which is not stored. */
export interface MadeKey {
  readonly row: ApiKeyRow;
  readonly secret: string;
}

export type KeyStatus = "active" | "expired" | "revoked";

export interface KeyListing {
  readonly statuses: readonly KeyStatus[];
  readonly owner?: string;
  /** Only keys with a lower id. */
  readonly before?: string;
  readonly limit: number;
}

/** Values begin with this, so that people and scanners recognise them. */
const SECRET_PREFIX = "agk_";
const SECRET_BYTES = 32;
const HINT_CHARACTERS = 4;
/** Ids of configured keys begin with this. */
const CONFIGURED_PREFIX = "config:";
const MAX_KEYS = 1_000;
/** Revoked keys are listed for this long. */
const KEEP_REVOKED_MS = 90 * 86_400_000;

/** Returns the id of a configured key. */
export function configuredKeyId(name: string): string {
  return CONFIGURED_PREFIX + name;
}

/** Returns the state of a key at `nowMs`. */
export function keyStatus({ revoked_at, expires_at }: ApiKeyRow, nowMs: number): KeyStatus {
  if (revoked_at !== null) return "revoked";
  return expires_at !== null && expires_at <= nowMs ? "expired" : "active";
}

/** The keys in the database. */
export class ApiKeys {
  readonly #deps: ApiKeysDeps;

  constructor(deps: ApiKeysDeps) {
    this.#deps = deps;
  }

  /** Lists keys, newest first. */
  async list({ statuses, owner, before, limit }: KeyListing, nowMs: number): Promise<readonly ApiKeyRow[]> {
    let query = this.#deps.store.read.selectFrom("api_keys").selectAll().orderBy("id", "desc").limit(limit);
    if (owner !== undefined) query = query.where("owner", "=", owner);
    if (before !== undefined) query = query.where("id", "<", before);
    query = query.where(({ eb, or, and }) => {
      const inUse = eb("revoked_at", "is", null);
      const expired = and([eb("expires_at", "is not", null), eb("expires_at", "<=", nowMs)]);
      const unexpired = or([eb("expires_at", "is", null), eb("expires_at", ">", nowMs)]);
      return or([
        ...(statuses.includes("revoked") ? [eb("revoked_at", "is not", null)] : []),
        ...(statuses.includes("expired") ? [and([inUse, expired])] : []),
        ...(statuses.includes("active") ? [and([inUse, unexpired])] : []),
      ]);
    });
    return query.execute();
  }

  /** Returns a key, also one that is revoked. ServiceError `key_not_found`. */
  async get(id: string): Promise<ApiKeyRow> {
    const row = await this.#deps.store.find("api_keys", { id });
    if (!row) throw notFound(id);
    return row;
  }

  /** Returns the key in use with this name. ServiceError `key_not_found`, `key_is_static`. */
  async named(name: string): Promise<ApiKeyRow> {
    const row = await this.#deps.store.find("api_keys", { name, revoked_at: null });
    if (row) return row;
    this.#refuseConfigured(configuredKeyId(name));
    throw notFound(name);
  }

  /** Creates a key. ServiceError `key_exists`; `invalid_request` for a time in the past, and above the limit. */
  async create(input: NewKey, edit: KeyEdit): Promise<MadeKey> {
    const secret = createSecret();
    const row = await this.#write(edit, async (tx) => {
      await this.#checkFree(tx, input.name);
      requireFuture(input.expiresAtMs, tx.nowMs);
      const created = newRow(input, { secret, actor: edit.actor, nowMs: tx.nowMs });
      await tx.insert("api_keys", [created]);
      await edit.alsoRecord?.(tx, created.id);
      tx.record(changeOf(created, "key.created", edit.actor));
      return created;
    });
    return { row, secret };
  }

  /** Changes scopes, limits and the end of a key. ServiceError as {@link revoke}, and `invalid_request`. */
  async update(id: string, change: KeyChange, edit: KeyEdit): Promise<ApiKeyRow> {
    return this.#edit(id, edit, async (tx, row) => {
      const scopes = change.scopes === undefined ? row.scopes : JSON.stringify(change.scopes);
      if (isAdmin(row) && !isAdmin({ scopes })) await this.#requireOtherAdmin(tx, row);
      if (change.expiresAtMs !== undefined) requireFuture(change.expiresAtMs, tx.nowMs);
      return {
        scopes,
        rate_limit_rpm: valueOr(change.rateLimitRpm, row.rate_limit_rpm),
        max_concurrent_runs: valueOr(change.maxConcurrentRuns, row.max_concurrent_runs),
        day_budget_nano: valueOr(
          change.dayBudgetUsd === undefined ? undefined : toNano(change.dayBudgetUsd),
          row.day_budget_nano,
        ),
        expires_at: valueOr(change.expiresAtMs, row.expires_at),
        revision: scopes === row.scopes ? row.revision : row.revision + 1,
      };
    });
  }

  /** Replaces the value of a key. The present one works for `keepMs` more. ServiceError as {@link revoke}. */
  async rotate(id: string, keepMs: number, edit: KeyEdit): Promise<MadeKey> {
    const secret = createSecret();
    const row = await this.#edit(id, edit, async (tx, { sha256: previous }) => ({
      sha256: sha256(secret),
      hint: secret.slice(-HINT_CHARACTERS),
      previous_sha256: keepMs > 0 ? previous : null,
      previous_until: keepMs > 0 ? tx.nowMs + keepMs : null,
    }));
    return { row, secret };
  }

  /**
   * Revokes a key. ServiceError `key_not_found`, also for a revoked one; `key_is_static` for a configured one;
   * `last_admin_key`.
   */
  async revoke(id: string, edit: KeyEdit): Promise<ApiKeyRow> {
    return this.#edit(id, edit, async (tx, row) => {
      await this.#requireOtherAdmin(tx, row);
      return { revoked_at: tx.nowMs, previous_sha256: null, previous_until: null };
    });
  }

  async #edit(
    id: string,
    edit: KeyEdit,
    change: (tx: Tx, row: ApiKeyRow) => Promise<Partial<ApiKeyRow>>,
  ): Promise<ApiKeyRow> {
    this.#refuseConfigured(id);
    return this.#write(edit, async (tx) => {
      const row = await tx.find("api_keys", { id, revoked_at: null });
      if (!row) throw notFound(id);
      edit.check?.(row);
      const set = await change(tx, row);
      await tx.update("api_keys", { id }, set);
      await edit.alsoRecord?.(tx, id);
      const changed = { ...row, ...set };
      tx.record(changeOf(changed, set.revoked_at ? "key.deleted" : "key.updated", edit.actor));
      return changed;
    });
  }

  #write<T>({ dryRun = false }: KeyEdit, work: (tx: Tx) => Promise<T>): Promise<T> {
    return writeOrTry(this.#deps.store, { dryRun }, async (tx) => {
      // Two changes at once could each take the other for the key that stays.
      await lockName(tx, "api_keys");
      const result = await work(tx);
      tx.afterCommit(() => this.#deps.onChange?.());
      return result;
    });
  }

  async #checkFree(tx: Tx, name: string): Promise<void> {
    const before = tx.nowMs - KEEP_REVOKED_MS;
    await tx.db.deleteFrom("api_keys").where("revoked_at", "<", before).execute();
    const isConfigured = this.#deps.configured.some((key) => key.name === name);
    if (isConfigured || (await tx.find("api_keys", { name, revoked_at: null }))) {
      const what = `A key named ${JSON.stringify(name)} exists. Choose another name, or rotate that key.`;
      throw new ServiceError("key_exists", what, { param: "name" });
    }
    const count = tx.db.selectFrom("api_keys").select(({ fn }) => fn.countAll().as("count"));
    if (Number((await count.executeTakeFirstOrThrow()).count) < MAX_KEYS) return;
    throw new ServiceError("invalid_request", `At most ${MAX_KEYS} keys are stored. Revoke some first.`);
  }

  /** The last key that may manage keys stays: without it, no other could be made over HTTP. */
  async #requireOtherAdmin(tx: Tx, row: ApiKeyRow): Promise<void> {
    if (!isAdmin(row) || this.#deps.configured.some(({ scopes }) => scopes.includes("admin"))) return;
    const others = await tx.db
      .selectFrom("api_keys")
      .select("scopes")
      .where("id", "<>", row.id)
      .where("revoked_at", "is", null)
      .where(({ eb, or }) => or([eb("expires_at", "is", null), eb("expires_at", ">", tx.nowMs)]))
      .execute();
    if (others.some(isAdmin)) return;
    const what = `${JSON.stringify(row.name)} is the last key with the scope admin. Create another one first.`;
    throw new ServiceError("last_admin_key", what);
  }

  #refuseConfigured(id: string): void {
    if (!this.#deps.configured.some(({ name }) => configuredKeyId(name) === id)) return;
    const what = `${id.slice(CONFIGURED_PREFIX.length)} is a key of the configuration. Change it in api_server.key or api_server.keys.`;
    throw new ServiceError("key_is_static", what);
  }
}

function createSecret(): string {
  return (
    SECRET_PREFIX + Buffer.from(crypto.getRandomValues(new Uint8Array(SECRET_BYTES))).toString("base64url")
  );
}

function newRow(
  input: NewKey,
  { secret, actor, nowMs }: { readonly secret: string; readonly actor: string; readonly nowMs: number },
): ApiKeyRow {
  return {
    id: createId("key", nowMs),
    name: input.name,
    owner: input.owner,
    scopes: JSON.stringify(input.scopes),
    sha256: sha256(secret),
    hint: secret.slice(-HINT_CHARACTERS),
    previous_sha256: null,
    previous_until: null,
    rate_limit_rpm: input.rateLimitRpm,
    max_concurrent_runs: input.maxConcurrentRuns,
    day_budget_nano: toNano(input.dayBudgetUsd),
    revision: 1,
    created_by: actor,
    created_at: nowMs,
    expires_at: input.expiresAtMs,
    last_used_at: null,
    revoked_at: null,
  };
}

function changeOf(row: ApiKeyRow, type: Change["type"], actor: string): Change {
  const { id: ref, name, owner, expires_at: expires, previous_until: previous } = row;
  const data = {
    name,
    scopes: JSON.parse(row.scopes) as unknown,
    expires_at: expires === null ? null : expires / 1000,
    previous_expires_at: previous === null ? null : previous / 1000,
  };
  return { type, ref, owner, data, actor };
}

function isAdmin({ scopes }: Pick<ApiKeyRow, "scopes">): boolean {
  return (JSON.parse(scopes) as readonly string[]).includes("admin");
}

function valueOr<T>(given: T | undefined, present: T): T {
  return given === undefined ? present : given;
}

function requireFuture(atMs: number | null, nowMs: number): void {
  if (atMs === null || atMs > nowMs) return;
  throw new ServiceError("invalid_request", "expires_at must be a time in the future.", {
    param: "expires_at",
  });
}

function notFound(id: string): ServiceError {
  return new ServiceError("key_not_found", `No key in use is ${JSON.stringify(id.slice(0, 64))}.`);
}
