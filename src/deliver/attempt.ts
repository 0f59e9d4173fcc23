import type { Clock } from "../base/clock.ts";
import { redact } from "../base/redact.ts";
import type { Span, Tracer } from "../base/trace.ts";
import type { Delivery, SendOptions, SendOutcome, Target } from "./target.ts";

/** lost: somebody else may be sending it by now. stopped: the service ends. */
export type Cut = "lost" | "stopped";
export type AttemptEnd = SendOutcome | { readonly status: Cut };

const MAX_ERROR_CHARACTERS = 500;

export interface AttemptOptions {
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly timeoutMs: number;
  /** Keeps how many parts have arrived. False: the lease is lost, and the attempt with it. Default: nothing is kept. */
  readonly note?: (partsSent: number) => Promise<boolean>;
}

/** One message on its way. It ends by itself, in time, or when it is cut, whatever the target does. */
export class Attempt {
  readonly #abort = new AbortController();
  readonly #end = Promise.withResolvers<AttemptEnd>();

  /** Never rejects. */
  async run(
    target: Target,
    delivery: Delivery,
    { clock, tracer, timeoutMs, note }: AttemptOptions,
  ): Promise<AttemptEnd> {
    const error = `There was no outcome within ${timeoutMs / 1000} s: the message may have arrived.`;
    const tooLong = { status: "unknown", error } as const;
    const cancel = clock.after(timeoutMs, () => this.#finish(tooLong));
    const span = startSpan(tracer, target, delivery);
    void send(target, delivery, { signal: this.#abort.signal, span, progress: this.#progress(note) }).then(
      this.#end.resolve,
    );
    const end = await this.#end.promise;
    cancel();
    if (end.status !== "delivered") span.fail(end.status);
    span.end();
    return end;
  }

  #progress(note: AttemptOptions["note"]): SendOptions["progress"] {
    return async (partsSent) => {
      // Another attempt at the same message may be under way, and counts for itself.
      this.#abort.signal.throwIfAborted();
      if (await (note?.(partsSent) ?? true)) return;
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

/** Addresses may be private: the platform alone is told. */
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

async function send(target: Target, delivery: Delivery, options: SendOptions): Promise<SendOutcome> {
  try {
    return clean(await target.send(delivery, options));
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return clean({ status: "retry", error: `The attempt failed: ${detail}` });
  }
}

function clean(outcome: SendOutcome): SendOutcome {
  if (outcome.status === "delivered") return outcome;
  return { ...outcome, error: redact(outcome.error).slice(0, MAX_ERROR_CHARACTERS) };
}
