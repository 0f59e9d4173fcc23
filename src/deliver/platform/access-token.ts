import { abortable } from "../../base/deadline.ts";
import type { Clock } from "../../base/clock.ts";
import { forgetSecret, registerSecret } from "../../base/observe/redact.ts";
import type { NoAnswer, SendFailure } from "./call.ts";
import type { SendOptions } from "../target.ts";

export interface AccessToken {
  readonly kind: "token";
  readonly value: string;
  /** True: it has served before, so that a platform which refuses it may still take a new one. */
  readonly isKept: boolean;
}

/** What a platform gave, and how long it said that is good. */
export interface GivenToken {
  readonly kind: "given";
  readonly value: string;
  readonly lifeMs: number;
}

type Asking = Pick<SendOptions, "signal" | "span">;

/** Asks the platform for a token. Rejects only when `options.signal` aborts. */
export type AskForToken = (options: Asking) => Promise<GivenToken | NoAnswer>;

/** Tokens are renewed so long before they end: a request under way must not meet the end. */
const MARGIN_MS = 120_000;

/** The token that an app shows with each request: asked for once for all who wait, and kept while it is good. */
export class AccessTokens {
  readonly #clock: Clock;
  readonly #ask: AskForToken;
  #kept: { readonly value: string; readonly untilMs: number } | undefined;
  /** The latest that serves no more: what refused it, or what is still under way, may repeat it. */
  #dropped: string | undefined;
  #asking: Promise<GivenToken | NoAnswer | "given up"> | undefined;

  constructor(clock: Clock, ask: AskForToken) {
    this.#clock = clock;
    this.#ask = ask;
  }

  /** Why there is none is a matter of this request only: nothing of the message was sent, so it is never unknown. */
  async get(options: Asking): Promise<AccessToken | NoAnswer> {
    for (;;) {
      if (this.#kept && this.#kept.untilMs > this.#clock.now()) {
        return { kind: "token", value: this.#kept.value, isKept: true };
      }
      if (!this.#asking) return this.#fetch(options);
      // The attempt that asks may be cut, which says nothing about the token: then the next one asks.
      const given = await abortable(this.#asking, options.signal);
      if (given !== "given up" && given.kind === "none") return given;
    }
  }

  /** The platform does not take `value` any more. */
  drop(value: string): void {
    if (this.#kept?.value !== value) return;
    this.#kept = undefined;
    if (this.#dropped !== undefined) forgetSecret(this.#dropped);
    this.#dropped = value;
  }

  async #fetch(options: Asking): Promise<AccessToken | NoAnswer> {
    const { promise, resolve } = Promise.withResolvers<GivenToken | NoAnswer | "given up">();
    this.#asking = promise;
    try {
      const answer = await this.#ask(options);
      const given: GivenToken | NoAnswer =
        answer.kind === "none" ? { kind: "none", outcome: unsent(answer.outcome) } : answer;
      if (given.kind === "given") this.#keep(given);
      resolve(given);
      return given.kind === "given" ? { kind: "token", value: given.value, isKept: false } : given;
    } finally {
      this.#asking = undefined;
      resolve("given up");
    }
  }

  #keep({ value, lifeMs }: GivenToken): void {
    if (this.#kept) this.drop(this.#kept.value);
    registerSecret(value);
    // One that is good for less than the margin serves half its time: else each message would ask anew.
    const untilMs = this.#clock.now() + Math.max(lifeMs - MARGIN_MS, lifeMs / 2);
    this.#kept = { value, untilMs };
  }
}

function unsent(outcome: SendFailure): SendFailure {
  if (outcome.status !== "unknown") return outcome;
  return { status: "retry", error: outcome.said ?? outcome.error };
}
