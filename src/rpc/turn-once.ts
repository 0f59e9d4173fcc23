/** A client's own name for a turn, under which it is made once, whoever repeats it and over whatever connection. */
import { sha256 } from "../base/digest.ts";
import { ServiceError } from "../base/errors.ts";
import type { Store, Tx } from "../store/store.ts";
import type { LedgerRow } from "../store/tables.ts";
import type { SessionPlace } from "./session-place.ts";

export interface TurnOnce {
  readonly scope: string;
  readonly key: string;
  readonly fingerprint: string;
  /** Claims the name for a run, in the transaction that records it. RepeatedTurn when another run has it. */
  record(tx: Tx, store: Store, runId: string): Promise<void>;
  /** The same where no run was recorded: for text that went into a turn at work. */
  keep(store: Store, runId: string): Promise<void>;
}

/** Thrown inside the transaction that would make a turn that was made before. */
export class RepeatedTurn extends Error {
  override readonly name = "RepeatedTurn";
  readonly runId: string;

  constructor(runId: string) {
    super("The turn was asked for before.");
    this.runId = runId;
  }
}

const KEEP_MS = 7 * 86_400_000;

/** Undefined for a turn that the client did not name. */
export function onceFor(
  { id, owner }: Pick<SessionPlace, "id" | "owner">,
  asked: { readonly client_turn_id?: string; readonly text: unknown; readonly images?: readonly string[] },
): TurnOnce | undefined {
  const { client_turn_id: key, text, images = [] } = asked;
  if (key === undefined) return undefined;
  const name = { scope: `rpc-turn:${owner}:${id}`, key };
  const fingerprint = sha256(JSON.stringify([text, images]));
  const record = async (tx: Tx, store: Store, runId: string) => {
    const claim = await store.ledger.claim(tx, { ...name, fingerprint, leaseMs: KEEP_MS });
    if (!claim.claimed) throw new RepeatedTurn(runOf(claim.row, fingerprint));
    await store.ledger.finish(tx, name, { result: { run_id: runId }, keepMs: KEEP_MS });
  };
  const keep = (store: Store, runId: string) => store.write((tx) => record(tx, store, runId));
  return { ...name, fingerprint, record, keep };
}

/** The run that was made under the name before. ServiceError `client_turn_id_conflict` when it was asked otherwise. */
export async function findTurn(store: Store, once: TurnOnce): Promise<string | undefined> {
  const row = await store.read
    .selectFrom("ledger")
    .selectAll()
    .where("scope", "=", once.scope)
    .where("key", "=", once.key)
    .executeTakeFirst();
  return row === undefined ? undefined : runOf(row, once.fingerprint);
}

function runOf(row: LedgerRow, fingerprint: string): string {
  if (row.fingerprint !== fingerprint) {
    throw new ServiceError(
      "client_turn_id_conflict",
      "This client_turn_id stood for another text. Use a new one for each prompt.",
      { param: "client_turn_id" },
    );
  }
  return (JSON.parse(row.result ?? "{}") as { readonly run_id: string }).run_id;
}
