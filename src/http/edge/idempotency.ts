/** Keys under which a request is made once, whoever repeats it. */
import { sha256 } from "../../base/digest.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ClaimRequest } from "../../store/leases/ledger.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { LedgerRow } from "../../store/schema/tables.ts";
import type { HttpContext } from "../deps.ts";

/** What identifies a request that must not be made twice. */
export type IdempotencyClaim = Pick<ClaimRequest, "scope" | "key" | "fingerprint">;

interface Repeatable {
  readonly ctx: HttpContext;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: unknown;
}

/**
 * The claim of a request that carries an Idempotency-Key, undefined for one that does not. Its fingerprint covers the
 * body, whatever the order of its members (RFC 8785), and the headers that change what is asked.
 */
export function idempotencyOf(operation: string, request: Repeatable): IdempotencyClaim | undefined {
  const { ctx, headers, body } = request;
  const key = headers["idempotency-key"];
  if (key === undefined) return undefined;
  const asked = [body, ...FINGERPRINTED.map((name) => headers[name] ?? null)];
  const fingerprint = sha256(canonicalJson(asked));
  return { scope: `idempotency:${ctx.identity.name}:${operation}`, key, fingerprint };
}

const FINGERPRINTED = ["x-agent-session-id", "x-agent-session-key", "x-agent-model"];

/** What a key stands for: the run that its first request made. */
interface Kept {
  readonly run_id: string;
}

/** The run that this request made before, if it did. ServiceError `idempotency_key_conflict`. */
export async function findRepeated(store: Store, claim: IdempotencyClaim): Promise<string | undefined> {
  const { scope, key } = claim;
  const row = await store.find("ledger", { scope, key });
  return row === undefined ? undefined : runOf(row, claim);
}

/** Thrown inside the transaction that would make a run whose request was made before. */
export class RepeatedRequest extends Error {
  override readonly name = "RepeatedRequest";
  readonly runId: string;

  constructor(runId: string) {
    super("The request was made before.");
    this.runId = runId;
  }
}

/**
 * Claims the key for a run, in the transaction that records it. RepeatedRequest when another run has it; ServiceError
 * `idempotency_key_conflict`.
 */
export async function claimKey(
  tx: Tx,
  store: Store,
  { claim, runId }: { readonly claim: IdempotencyClaim; readonly runId: string },
): Promise<void> {
  const kept: Kept = { run_id: runId };
  const taken = await store.ledger.record(tx, { ...claim, result: kept, keepMs: KEEP_MS });
  if (!taken.claimed) throw new RepeatedRequest(runOf(taken.row, claim));
}

/** Forgets a key whose run is gone: runs are kept for a time after their end, and the key no longer than they. */
export async function forgetKey(
  store: Store,
  { scope, key }: IdempotencyClaim,
  runId: string,
): Promise<void> {
  const kept: Kept = { run_id: runId };
  await store.write(async (tx) => {
    const row = tx.db.deleteFrom("ledger").where("scope", "=", scope).where("key", "=", key);
    await row.where("result", "=", JSON.stringify(kept)).execute();
  });
}

/** Longer than runs are kept as a rule; a key without its run is forgotten when it is met. */
const KEEP_MS = 30 * 86_400_000;

function runOf(row: LedgerRow, { fingerprint }: IdempotencyClaim): string {
  if (row.fingerprint !== fingerprint) {
    throw new ServiceError(
      "idempotency_key_conflict",
      "This Idempotency-Key was used with another request. Use a new key for each request.",
      { param: "Idempotency-Key" },
    );
  }
  return (JSON.parse(row.result ?? "{}") as Kept).run_id;
}

/** JSON with the members of objects in order: equal values give equal text (RFC 8785; numbers print so in JavaScript). */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  });
}

/** The newest work of each key. Another process's is told apart by the transaction that claims the key. */
const lines = new WeakMap<Store, Map<string, Promise<unknown>>>();

/**
 * Runs what a request does up to the record of its run, after that of an earlier one with the same Idempotency-Key:
 * until that is recorded, the repetition would be counted, and refused, as another run.
 */
export async function inTurn<T>(
  store: Store,
  claim: IdempotencyClaim | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (claim === undefined) return work();
  const line = lines.get(store) ?? new Map<string, Promise<unknown>>();
  lines.set(store, line);
  const key = JSON.stringify([claim.scope, claim.key]);
  const before = line.get(key);
  const own = (async () => {
    await before?.catch(() => {});
    return work();
  })();
  line.set(key, own);
  try {
    return await own;
  } finally {
    if (line.get(key) === own) line.delete(key);
  }
}
