/** Idempotency keys: a repeated request joins the run of the first one. */
import { sha256 } from "../../base/digest.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ClaimRequest } from "../../store/leases/ledger.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { LedgerRow } from "../../store/schema/tables.ts";
import type { HttpContext } from "../deps.ts";

/** Identifies a request that must not run twice. */
export type IdempotencyClaim = Pick<ClaimRequest, "scope" | "key" | "fingerprint">;

interface Repeatable {
  readonly ctx: HttpContext;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: unknown;
}

/**
 * Returns the claim of a request with an Idempotency-Key, else undefined. The fingerprint covers the body in
 * canonical form (RFC 8785), and the headers that change the result.
 */
export function idempotencyOf(operation: string, request: Repeatable): IdempotencyClaim | undefined {
  const { ctx, headers, body } = request;
  const key = headers["idempotency-key"];
  if (key === undefined) return undefined;
  const content = [body, ...FINGERPRINTED.map((name) => headers[name] ?? null)];
  const fingerprint = sha256(canonicalJson(content));
  return { scope: `idempotency:${ctx.identity.name}:${operation}`, key, fingerprint };
}

const FINGERPRINTED = ["x-agent-session-id", "x-agent-session-key", "x-agent-model"];

/** The stored result of a key: the run that the first request started. */
interface StoredResult {
  readonly run_id: string;
}

/** Returns the run that an earlier, equal request started. ServiceError `idempotency_key_conflict`. */
export async function findRepeated(store: Store, claim: IdempotencyClaim): Promise<string | undefined> {
  const { scope, key } = claim;
  const row = await store.find("ledger", { scope, key });
  return row === undefined ? undefined : runOf(row, claim);
}

/** Thrown inside the transaction of a run when an earlier request has the key. */
export class RepeatedRequest extends Error {
  override readonly name = "RepeatedRequest";
  readonly runId: string;

  constructor(runId: string) {
    super("An earlier request has this Idempotency-Key.");
    this.runId = runId;
  }
}

/**
 * Claims the key for a run, in the transaction that records the run. RepeatedRequest when another run has the key;
 * ServiceError `idempotency_key_conflict`.
 */
export async function claimKey(
  tx: Tx,
  store: Store,
  { claim, runId }: { readonly claim: IdempotencyClaim; readonly runId: string },
): Promise<void> {
  const kept: StoredResult = { run_id: runId };
  const taken = await store.ledger.record(tx, { ...claim, result: kept, keepMs: KEEP_MS });
  if (!taken.claimed) throw new RepeatedRequest(runOf(taken.row, claim));
}

/** Deletes a key whose run no longer exists. Runs expire some time after their end, and their keys with them. */
export async function deleteKey(
  store: Store,
  { scope, key }: IdempotencyClaim,
  runId: string,
): Promise<void> {
  const kept: StoredResult = { run_id: runId };
  await store.write(async (tx) => {
    const row = tx.db.deleteFrom("ledger").where("scope", "=", scope).where("key", "=", key);
    await row.where("result", "=", JSON.stringify(kept)).execute();
  });
}

/** Longer than runs are normally kept. A key without a run is deleted when a request uses it. */
const KEEP_MS = 30 * 86_400_000;

function runOf(row: LedgerRow, { fingerprint }: IdempotencyClaim): string {
  if (row.fingerprint !== fingerprint) {
    throw new ServiceError(
      "idempotency_key_conflict",
      "Another request used this Idempotency-Key. Use a new key for each request.",
      { param: "Idempotency-Key" },
    );
  }
  return (JSON.parse(row.result ?? "{}") as StoredResult).run_id;
}

/**
 * Returns JSON with sorted object members, so that equal values give equal text (RFC 8785; JavaScript already
 * prints numbers this way).
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  });
}

/** The newest work of each key in this process. Between processes, the transaction that claims the key decides. */
const queues = new WeakMap<Store, Map<string, Promise<unknown>>>();

/**
 * Runs `work` after earlier work of the same Idempotency-Key. Until the first request records its run, a repeated
 * one would count as another run and could hit a limit.
 */
export async function serialize<T>(
  store: Store,
  claim: IdempotencyClaim | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (claim === undefined) return work();
  const queue = queues.get(store) ?? new Map<string, Promise<unknown>>();
  queues.set(store, queue);
  const key = JSON.stringify([claim.scope, claim.key]);
  const before = queue.get(key);
  const own = (async () => {
    await before?.catch(() => {});
    return work();
  })();
  queue.set(key, own);
  try {
    return await own;
  } finally {
    if (queue.get(key) === own) queue.delete(key);
  }
}
