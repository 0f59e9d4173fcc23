/** What every change of the control API has in common: versions, dry runs and repeated requests. */
import { ServiceError } from "../../base/errors.ts";
import { sha256 } from "../../base/text.ts";
import type { Tx } from "../../store/store.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import { canonicalJson, serialize } from "../prompt/submission.ts";

/** Returns a strong entity tag (RFC 9110, 8.8.3) of what people set of a resource. */
export function etagOf(definition: unknown): string {
  return `"${sha256(canonicalJson(definition)).slice(0, TAG_DIGITS)}"`;
}

const TAG_DIGITS = 24;

/** Returns whether `If-None-Match` has the current tag, so that 304 answers. */
export function isUnchanged(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return tagsIn(ifNoneMatch).some((tag) => tag === "*" || tag.replace(/^W\//, "") === etag);
}

/** Throws ServiceError `precondition_failed` unless `If-Match` is absent or has the current tag. */
export function checkVersion(ifMatch: string | undefined, etag: string): void {
  if (ifMatch === undefined || tagsIn(ifMatch).some((tag) => tag === "*" || tag === etag)) return;
  const what = `The resource has changed: its ETag is ${etag}. Read it again, then repeat the change.`;
  throw new ServiceError("precondition_failed", what, { param: "If-Match", details: { etag } });
}

function tagsIn(header: string): readonly string[] {
  return header.split(",").map((tag) => tag.trim());
}

/** Returns the header of a dry run. */
export function dryRunHeader(isDryRun: boolean): { readonly "x-agent-dry-run"?: "true" } {
  return isDryRun ? { "x-agent-dry-run": "true" } : {};
}

/** Returns the header of an answer to a repeated request. */
export function replayedHeader(isReplayed: boolean): { readonly "idempotency-replayed"?: "true" } {
  return isReplayed ? { "idempotency-replayed": "true" } : {};
}

/** How long a result is kept for repeated requests. */
const KEEP_MS = 86_400_000;

export interface OnceRequest {
  readonly ctx: HttpContext;
  /** The header Idempotency-Key. */
  readonly key: string | undefined;
  readonly operation: string;
  /** What must be equal in a repeated request. MUST NOT hold a password: its plain hash is stored. */
  readonly content: unknown;
}

/** The answer to a request with an Idempotency-Key. */
export interface OnceResult<T> {
  readonly result: T;
  readonly isReplayed: boolean;
}

/**
 * Runs `act` once for an Idempotency-Key, and resolves to its stored result when the request is repeated. `act` calls
 * `record` inside the transaction of its change; the result is JSON without secrets. ServiceError
 * `idempotency_key_conflict`.
 */
export async function actOnce<T>(
  { ctx, key, operation, content }: OnceRequest,
  { store }: HttpDeps,
  act: (record: (tx: Tx, result: T) => Promise<void>) => Promise<T>,
): Promise<OnceResult<T>> {
  if (key === undefined) return { result: await act(async () => {}), isReplayed: false };
  const scope = `idempotency:${ctx.identity.owner}:${operation}`;
  const claim = { scope, key, fingerprint: sha256(canonicalJson(content)) };
  return serialize(store, claim, async () => {
    const known = await store.find("ledger", { scope, key });
    if (known) return { result: resultOf<T>(known, claim.fingerprint), isReplayed: true };
    try {
      const result = await act(async (tx, made) => {
        const taken = await store.ledger.record(tx, { ...claim, result: made, keepMs: KEEP_MS });
        if (!taken.claimed) throw new Repeated(resultOf<T>(taken.row, claim.fingerprint));
      });
      return { result, isReplayed: false };
    } catch (error) {
      if (error instanceof Repeated) return { result: error.result as T, isReplayed: true };
      throw error;
    }
  });
}

/** Thrown inside a transaction when another process took the key first. */
class Repeated extends Error {
  override readonly name = "Repeated";
  readonly result: unknown;

  constructor(result: unknown) {
    super("An earlier request has this Idempotency-Key.");
    this.result = result;
  }
}

function resultOf<T>(
  row: { readonly fingerprint: string; readonly result: string | null },
  fingerprint: string,
): T {
  if (row.fingerprint === fingerprint) return JSON.parse(row.result ?? "null") as T;
  throw new ServiceError(
    "idempotency_key_conflict",
    "Another request used this Idempotency-Key. Use a new key for each request.",
    { param: "Idempotency-Key" },
  );
}
