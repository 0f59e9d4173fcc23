import { abortable } from "../../base/abortable.ts";
import type { Clock } from "../../base/clock.ts";
import { forgetSecret, registerSecret } from "../../base/observe/redact.ts";
import type { NoAnswer, SendFailure } from "./call.ts";
import type { SendOptions } from "../target.ts";

interface AccessToken {
  readonly kind: "token";
  readonly value: string;
  /** True: it has served before, so that a platform which refuses it may still take a new one. */
  readonly isReused: boolean;
}

/** What a platform gave, and how long it said that is good. */
export interface IssuedToken {
  readonly kind: "issued";
  readonly value: string;
  readonly lifeMs: number;
}

type TokenOptions = Pick<SendOptions, "signal" | "span">;

/** Asks the platform for a token. Rejects only when `options.signal` aborts. */
export type RequestToken = (options: TokenOptions) => Promise<IssuedToken | NoAnswer>;

/** Tokens are renewed so long before they end: a request under way must not meet the end. */
const MARGIN_MS = 120_000;

/** The token that an app shows with each request: asked for once for all who wait, and kept while it is good. */
export class AccessTokens {
  readonly #clock: Clock;
  readonly #request: RequestToken;
  #current: { readonly value: string; readonly untilMs: number } | undefined;
  /** The latest that serves no more: what refused it, or what is still under way, may repeat it. */
  #dropped: string | undefined;
  #pending: Promise<IssuedToken | NoAnswer | "aborted"> | undefined;

  constructor(clock: Clock, request: RequestToken) {
    this.#clock = clock;
    this.#request = request;
  }

  /** Why there is none is a matter of this request only: nothing of the message was sent, so it is never unknown. */
  async get(options: TokenOptions): Promise<AccessToken | NoAnswer> {
    for (;;) {
      if (this.#current && this.#current.untilMs > this.#clock.now()) {
        return { kind: "token", value: this.#current.value, isReused: true };
      }
      if (!this.#pending) return this.#fetch(options);
      // The attempt that asks may be cut, which says nothing about the token: then the next one asks.
      const issued = await abortable(this.#pending, options.signal);
      if (issued !== "aborted" && issued.kind === "none") return issued;
    }
  }

  /** The platform does not take `value` any more. */
  drop(value: string): void {
    if (this.#current?.value !== value) return;
    this.#current = undefined;
    if (this.#dropped !== undefined) forgetSecret(this.#dropped);
    this.#dropped = value;
  }

  async #fetch(options: TokenOptions): Promise<AccessToken | NoAnswer> {
    const { promise, resolve } = Promise.withResolvers<IssuedToken | NoAnswer | "aborted">();
    this.#pending = promise;
    try {
      const answer = await this.#request(options);
      const issued: IssuedToken | NoAnswer =
        answer.kind === "none" ? { kind: "none", outcome: unsent(answer.outcome) } : answer;
      if (issued.kind === "issued") this.#keep(issued);
      resolve(issued);
      return issued.kind === "issued" ? { kind: "token", value: issued.value, isReused: false } : issued;
    } finally {
      this.#pending = undefined;
      resolve("aborted");
    }
  }

  #keep({ value, lifeMs }: IssuedToken): void {
    if (this.#current) this.drop(this.#current.value);
    registerSecret(value);
    // One that is good for less than the margin serves half its time: else each message would ask anew.
    const untilMs = this.#clock.now() + Math.max(lifeMs - MARGIN_MS, lifeMs / 2);
    this.#current = { value, untilMs };
  }
}

function unsent(outcome: SendFailure): SendFailure {
  if (outcome.status !== "unknown") return outcome;
  return { status: "retry", error: outcome.baseError ?? outcome.error };
}
