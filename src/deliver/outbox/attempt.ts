import type { Clock } from "../../base/clock.ts";
import { redact } from "../../base/observe/redact.ts";
import type { Span, Tracer } from "../../base/observe/trace.ts";
import type { Delivery, SendOptions, SendOutcome, Target } from "../target.ts";

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
  /** Keeps that the request begins, before it does. False: the lease is lost, and nothing is sent. Default: nothing is kept. */
  readonly start?: () => Promise<boolean>;
}

/** One message on its way. It ends by itself, in time, or when it is cut, whatever the target does. */
export class Attempt {
  readonly #abort = new AbortController();
  readonly #end = Promise.withResolvers<AttemptEnd>();
  #isSent = false;

  /** False: nothing of the message can have left this machine. */
  get isSent(): boolean {
    return this.#isSent;
  }

  /** Never rejects. */
  async run(target: Target, delivery: Delivery, options: AttemptOptions): Promise<AttemptEnd> {
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
    { options: { note, start }, span }: { readonly options: AttemptOptions; readonly span: Span },
  ): Promise<AttemptEnd> {
    const { signal } = this.#abort;
    try {
      if (start && !(await start())) return { status: "lost" };
      signal.throwIfAborted();
      this.#isSent = true;
      return clean(await target.send(delivery, { signal, span, progress: this.#progress(note) }));
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      return clean({ status: "retry", error: `The attempt failed: ${detail}` });
    }
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

function tooLong(timeoutMs: number, isSent: boolean): SendOutcome {
  const seconds = timeoutMs / 1000;
  if (isSent)
    return {
      status: "unknown",
      error: `There was no outcome within ${seconds} s: the message may have arrived.`,
    };
  return { status: "retry", error: `The database did not take the attempt within ${seconds} s.` };
}

function clean(outcome: SendOutcome): SendOutcome {
  if (outcome.status === "delivered") return outcome;
  return { ...outcome, error: redact(outcome.error).slice(0, MAX_ERROR_CHARACTERS) };
}
