import type { OutboxRow } from "../store/tables.ts";
import type { Attempt, AttemptEnd, AttemptOptions } from "./attempt.ts";
import { parseTarget, type Delivery, type Targets } from "./target.ts";

/** Makes one attempt at a message of the outbox, whose lease the caller holds. Never rejects. */
export async function sendRow(
  row: OutboxRow,
  attempt: Attempt,
  { targets, ...options }: AttemptOptions & { readonly targets: Targets },
): Promise<AttemptEnd> {
  const { platform, address } = parseTarget(row.target);
  const target = targets.get(platform);
  // Another process, newer or with other settings, may know it.
  if (!target) return { status: "retry", error: `There is no delivery target ${platform} here.` };
  const payload = parsePayload(row.payload);
  if (payload === undefined) return { status: "permanent", error: "The message is no JSON." };
  const delivery: Delivery = {
    id: row.id,
    address,
    payload: payload.value,
    ref: row.ref ?? undefined,
    attempt: row.attempts,
    partsSent: 0,
    createdAtMs: row.created_at,
  };
  return attempt.run(target, delivery, options);
}

function parsePayload(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
