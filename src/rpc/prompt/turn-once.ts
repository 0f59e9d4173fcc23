/** A client's own name for a turn, under which it is made once, whoever repeats it and over whatever connection. */
import { sha256 } from "../../base/digest.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { LedgerRow } from "../../store/schema/tables.ts";
import type { SessionPlace } from "../session/address.ts";

export interface TurnOnce {
  readonly scope: string;
  readonly key: string;
  readonly fingerprint: string;
  /** Claims the name for a turn, in the transaction that makes it. RepeatedTurn when another has it. */
  record(tx: Tx, store: Store, made: MadeTurn): Promise<void>;
}

/** What a prompt came to. */
export interface MadeTurn {
  readonly runId: string;
  /** The text went into a turn that was at work. */
  readonly isSteer: boolean;
}

/** Thrown inside the transaction that would make a turn that was made before. */
export class RepeatedTurn extends Error {
  override readonly name = "RepeatedTurn";
  readonly made: MadeTurn;

  constructor(made: MadeTurn) {
    super("The turn was asked for before.");
    this.made = made;
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
  const record: TurnOnce["record"] = async (tx, store, { runId, isSteer }) => {
    const result = { run_id: runId, ...(isSteer ? { steer: true } : {}) };
    const claim = await store.ledger.record(tx, { ...name, fingerprint, result, keepMs: KEEP_MS });
    if (!claim.claimed) throw new RepeatedTurn(madeOf(claim.row, fingerprint));
  };
  return { ...name, fingerprint, record };
}

/** The turn that was made under the name before. ServiceError `client_turn_id_conflict` when it was asked otherwise. */
export async function findTurn(store: Store, once: TurnOnce): Promise<MadeTurn | undefined> {
  const row = await store.read
    .selectFrom("ledger")
    .selectAll()
    .where("scope", "=", once.scope)
    .where("key", "=", once.key)
    .executeTakeFirst();
  return row === undefined ? undefined : madeOf(row, once.fingerprint);
}

function madeOf(row: LedgerRow, fingerprint: string): MadeTurn {
  if (row.fingerprint !== fingerprint) {
    throw new ServiceError(
      "client_turn_id_conflict",
      "This client_turn_id stood for another text. Use a new one for each prompt.",
      { param: "client_turn_id" },
    );
  }
  const made = JSON.parse(row.result ?? "{}") as { readonly run_id: string; readonly steer?: boolean };
  return { runId: made.run_id, isSteer: made.steer === true };
}
