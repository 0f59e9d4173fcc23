import type { Store } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import type { Attempt, AttemptEnd, AttemptOptions } from "./attempt.ts";
import { idProblem } from "../platform/exact-ids.ts";
import { canRepeat, parseTarget, type Delivery, type Target, type Targets } from "../target.ts";

export interface SendRowOptions extends Omit<AttemptOptions, "note" | "start"> {
  readonly targets: Targets;
  /** Keeps that the request begins, and how many parts have arrived. */
  readonly store: Store;
}

/** What our own end cut, where nobody can tell a repeat. */
const CUT = {
  status: "unknown",
  error: "The service ended during the attempt: the message may have arrived.",
} as const;

/** Makes one attempt at a message of the outbox, whose lease the caller holds. Never rejects. */
export async function sendRow(
  row: OutboxRow,
  attempt: Attempt,
  { targets, store, ...options }: SendRowOptions,
): Promise<AttemptEnd> {
  const { platform } = parseTarget(row.target);
  const target = targets.get(platform);
  // Another process, newer or with other settings, may know it.
  if (!target) {
    const hint = "If the name is right, start a version of agentd that has it; else drop the message.";
    return { status: "retry", error: `There is no delivery target ${platform} here. ${hint}` };
  }
  const payload = parsePayload(row.payload);
  if (payload === undefined) return { status: "permanent", error: "The message is no JSON." };
  const problem = idProblem(platform, payload.value);
  if (problem !== undefined) return { status: "permanent", error: problem };
  const delivery: Delivery = {
    id: row.id,
    address: addressOf(target, row),
    payload: payload.value,
    ref: row.ref ?? undefined,
    attempt: row.attempts,
    partsSent: row.parts_sent,
    createdAtMs: row.created_at,
    ...(row.uncertain_at === null ? {} : { uncertainSinceMs: row.uncertain_at }),
  };
  const note = (partsSent: number) => store.write((tx) => store.outbox.recordProgress(tx, row.id, partsSent));
  if (canRepeat(target, delivery)) return attempt.run(target, delivery, { ...options, note });
  const start = () => store.write((tx) => store.outbox.start(tx, row.id));
  const end = await attempt.run(target, delivery, { ...options, note, start });
  return end.status === "stopped" && attempt.isSent ? CUT : end;
}

/** Whether a message of the outbox that may have arrived can be sent again without harm, by the target that has it. */
export function canRepeatRow(target: Target, row: OutboxRow): boolean {
  const payload = parsePayload(row.payload)?.value;
  return canRepeat(target, { address: addressOf(target, row), payload });
}

/** A bare platform stands for its home channel. */
function addressOf({ home }: Target, row: OutboxRow): string {
  return parseTarget(row.target).address || (home ?? "");
}

function parsePayload(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
