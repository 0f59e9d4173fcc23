import type { Clock } from "../../base/clock.ts";
import { redact } from "../../base/observe/redact.ts";
import type { Span, Tracer } from "../../base/observe/trace.ts";
import {
  type Delivery,
  type SendOptions,
  type SendOutcome,
  type Target,
  canRepeat,
  parseTarget,
  type Targets,
} from "../target.ts";
import type { Store } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { idProblem } from "../message.ts";

/** lost: another process may be sending the message. stopped: the service stops. */
type Cut = "lost" | "stopped";
export type AttemptEnd = SendOutcome | { readonly status: Cut };

const MAX_ERROR_CHARACTERS = 500;

interface AttemptOptions {
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly timeoutMs: number;
  /**
   * Stores how many parts have arrived. Resolves to false when the lease is lost, which ends the attempt. Default:
   * stores nothing.
   */
  readonly saveProgress?: (partsSent: number) => Promise<boolean>;
  /**
   * Stores that the request starts, before it does. Resolves to false when the lease is lost; then nothing is sent.
   * Default: stores nothing.
   */
  readonly start?: () => Promise<boolean>;
}

/**
 * One attempt at one message. It ends with the target's outcome, at its timeout, or when it is cut, whatever the target
 * does.
 */
export class Attempt {
  readonly #abort = new AbortController();
  readonly #end = Promise.withResolvers<AttemptEnd>();
  #isSent = false;

  /** Whether part of the message may have left this machine. */
  get isSent(): boolean {
    return this.#isSent;
  }

  /** Makes the attempt. Never rejects. */ async run(
    target: Target,
    delivery: Delivery,
    options: AttemptOptions,
  ): Promise<AttemptEnd> {
    const { clock, tracer, timeoutMs } = options;
    const cancel = clock.after(timeoutMs, () => this.#finish(tooLong(timeoutMs, this.#isSent)));
    const span = startSpan(tracer, target, delivery);
    void this.#send(target, delivery, { options, span }).then(this.#end.resolve);
    const end = await this.#end.promise;
    cancel();
    if (end.status !== "delivered") span.fail(end.status);
    span.end();
    return end;
  }

  async #send(
    target: Target,
    delivery: Delivery,
    { options: { saveProgress, start }, span }: { readonly options: AttemptOptions; readonly span: Span },
  ): Promise<AttemptEnd> {
    const { signal } = this.#abort;
    try {
      if (start && !(await start())) return { status: "lost" };
      signal.throwIfAborted();
      this.#isSent = true;
      return clean(await target.send(delivery, { signal, span, progress: this.#progress(saveProgress) }));
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      return clean({ status: "retry", error: `The attempt failed: ${detail}` });
    }
  }

  #progress(saveProgress: AttemptOptions["saveProgress"]): SendOptions["progress"] {
    return async (partsSent) => {
      // After a cut another attempt at the same message may be running.
      this.#abort.signal.throwIfAborted();
      if (await (saveProgress?.(partsSent) ?? true)) return;
      this.cut("lost");
      throw new Error("The message's lease was lost.");
    };
  }

  cut(why: Cut): void {
    this.#finish({ status: why });
  }

  #finish(end: AttemptEnd): void {
    this.#end.resolve(end);
    this.#abort.abort(new Error("The attempt is over."));
  }
}

/** The span names only the platform: addresses may be private. */
function startSpan(tracer: Tracer, { name }: Target, { id, attempt, payload }: Delivery): Span {
  const { traceparent } = Object(payload) as { readonly traceparent?: unknown };
  return tracer.start(`send ${name}`, {
    kind: "producer",
    parent: typeof traceparent === "string" ? traceparent : undefined,
    attributes: {
      "messaging.operation.type": "send",
      "messaging.system": name,
      "messaging.message.id": id,
      "agentd.delivery.attempt": attempt,
    },
  });
}

function tooLong(timeoutMs: number, isSent: boolean): SendOutcome {
  const seconds = timeoutMs / 1000;
  if (isSent)
    return {
      status: "unknown",
      error: `The attempt had no outcome within ${seconds} s. The message may have arrived.`,
    };
  return { status: "retry", error: `The database did not record the attempt within ${seconds} s.` };
}

function clean(outcome: SendOutcome): SendOutcome {
  if (outcome.status === "delivered") return outcome;
  return { ...outcome, error: redact(outcome.error).slice(0, MAX_ERROR_CHARACTERS) };
}

interface SendRowOptions extends Omit<AttemptOptions, "note" | "start"> {
  readonly targets: Targets;
  /** Records the start of the request, and how many parts have arrived. */
  readonly store: Store;
}

/** An attempt cut by our own shutdown, on a platform that does not deduplicate. */
const CUT = {
  status: "unknown",
  error: "The service stopped during the attempt. The message may have arrived.",
} as const;

/** Makes one attempt at an outbox message whose lease the caller holds. Never rejects. */
export async function sendRow(
  row: OutboxRow,
  attempt: Attempt,
  { targets, store, ...options }: SendRowOptions,
): Promise<AttemptEnd> {
  const { platform } = parseTarget(row.target);
  const target = targets.get(platform);
  // Another process, newer or with other settings, may have the target.
  if (!target) {
    const hint =
      "If the name is correct, start a version of agentd that has this target; otherwise drop the message.";
    return { status: "retry", error: `This process has no delivery target ${platform}. ${hint}` };
  }
  const payload = parsePayload(row.payload);
  if (payload === undefined) return { status: "permanent", error: "The message is not valid JSON." };
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
  const saveProgress = (partsSent: number) =>
    store.write((tx) => store.outbox.recordProgress(tx, row.id, partsSent));
  if (canRepeat(target, delivery)) return attempt.run(target, delivery, { ...options, saveProgress });
  const start = () => store.write((tx) => store.outbox.start(tx, row.id));
  const end = await attempt.run(target, delivery, { ...options, saveProgress, start });
  return end.status === "stopped" && attempt.isSent ? CUT : end;
}

/** Returns whether its target can safely send an outbox message again that may have arrived. */
export function canRepeatRow(target: Target, row: OutboxRow): boolean {
  const payload = parsePayload(row.payload)?.value;
  return canRepeat(target, { address: addressOf(target, row), payload });
}

/** An address that is only a platform means its home channel. */
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
