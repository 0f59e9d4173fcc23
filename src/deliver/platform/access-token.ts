import { abortable, type Clock } from "../../base/time.ts";
import { forgetSecret, registerSecret } from "../../base/observe.ts";
import type { NoAnswer, SendFailure } from "./call.ts";
import type { SendOptions } from "../target.ts";

interface AccessToken {
  readonly kind: "token";
  readonly value: string;
  /** Whether the token was used before. When the platform refuses such a token, a new one may still work. */
  readonly isReused: boolean;
}

/** A token from the platform and its lifetime. */
export interface IssuedToken {
  readonly kind: "issued";
  readonly value: string;
  readonly lifeMs: number;
}

type TokenOptions = Pick<SendOptions, "signal" | "span">;

/** Requests a token from the platform. Rejects only when `options.signal` aborts. */
export type RequestToken = (options: TokenOptions) => Promise<IssuedToken | NoAnswer>;

/** Tokens are renewed this long before they expire, so that no request meets the expiry. */
const MARGIN_MS = 120_000;

/** Caches the access token of an app. Concurrent callers share one request for a new token. */
export class AccessTokens {
  readonly #clock: Clock;
  readonly #request: RequestToken;
  #current: { readonly value: string; readonly untilMs: number } | undefined;
  /** The last dropped token. It stays registered as a secret: responses to running requests may contain it. */
  #dropped: string | undefined;
  #pending: Promise<IssuedToken | NoAnswer | "aborted"> | undefined;

  constructor(clock: Clock, request: RequestToken) {
    this.#clock = clock;
    this.#request = request;
  }

  /** Returns the token, or why there is none. The outcome is never `unknown`: no part of the message was sent. */
  async get(options: TokenOptions): Promise<AccessToken | NoAnswer> {
    for (;;) {
      if (this.#current && this.#current.untilMs > this.#clock.now()) {
        return { kind: "token", value: this.#current.value, isReused: true };
      }
      if (!this.#pending) return this.#fetch(options);
      // The attempt that requests the token may be cut; then the next caller requests it.
      const issued = await abortable(this.#pending, options.signal);
      if (issued !== "aborted" && issued.kind === "none") return issued;
    }
  }

  /** Drops a token that the platform refused. */
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
    // A token with a lifetime below the margin is used for half of it; otherwise every message would request a new one.
    const untilMs = this.#clock.now() + Math.max(lifeMs - MARGIN_MS, lifeMs / 2);
    this.#current = { value, untilMs };
  }
}

function unsent(outcome: SendFailure): SendFailure {
  if (outcome.status !== "unknown") return outcome;
  return { status: "retry", error: outcome.baseError ?? outcome.error };
}
