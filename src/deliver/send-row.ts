import type { Store } from "../store/store.ts";
import type { OutboxRow } from "../store/tables.ts";
import type { Attempt, AttemptEnd, AttemptOptions } from "./attempt.ts";
import { idFlaw } from "./exact-ids.ts";
import { parseTarget, type Delivery, type Targets } from "./target.ts";

export interface SendRowOptions extends Omit<AttemptOptions, "note"> {
  readonly targets: Targets;
  /** Keeps how many parts have arrived. */
  readonly store: Store;
}

/** Makes one attempt at a message of the outbox, whose lease the caller holds. Never rejects. */
export async function sendRow(
  row: OutboxRow,
  attempt: Attempt,
  { targets, store, ...options }: SendRowOptions,
): Promise<AttemptEnd> {
  const { platform, address } = parseTarget(row.target);
  const target = targets.get(platform);
  // Another process, newer or with other settings, may know it.
  if (!target) {
    const remedy = "If the name is right, start a version of agentd that has it; else drop the message.";
    return { status: "retry", error: `There is no delivery target ${platform} here. ${remedy}` };
  }
  const payload = parsePayload(row.payload);
  if (payload === undefined) return { status: "permanent", error: "The message is no JSON." };
  const flaw = idFlaw(platform, payload.value);
  if (flaw !== undefined) return { status: "permanent", error: flaw };
  const delivery: Delivery = {
    id: row.id,
    address: address || (target.home ?? ""),
    payload: payload.value,
    ref: row.ref ?? undefined,
    attempt: row.attempts,
    partsSent: row.parts_sent,
    createdAtMs: row.created_at,
    ...(row.doubt_at === null ? {} : { doubtSinceMs: row.doubt_at }),
  };
  const note = (partsSent: number) => store.write((tx) => store.outbox.progress(tx, row.id, partsSent));
  return attempt.run(target, delivery, { ...options, note });
}

function parsePayload(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
