import { RateLimiter } from "../../base/rate-limiter.ts";
import type { Clock } from "../../base/clock.ts";
import type { Log, LogFields } from "../../base/observe/log.ts";
import type { VerifiedRequest, Evaluated } from "../receive/evaluate.ts";
import type { StageResult } from "../receive/stage.ts";

/** Lines a minute: strangers must not be able to fill the disk with lines. */
const MAX_LINES = 60;
const MAX_ROUTES = 1_000;

/** What the receiver tells people. Nothing that is secret, and nothing of payloads. */
export class ReceiverLog {
  readonly #log: Log;
  readonly #clock: Pick<Clock, "now">;
  readonly #signedTheOldWay = new Set<string>();
  readonly #lines = new RateLimiter(MAX_LINES);
  #unlogged = 0;

  constructor({ log, clock }: { readonly log: Log; readonly clock: Pick<Clock, "now"> }) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Of a flood the first of each minute, and later how many there were besides; for those nothing is put together. */
  refused(fields: () => LogFields): void {
    const surplus = this.#lines.take("refused", this.#clock.now());
    if (!surplus && this.#unlogged > 0)
      this.#log.info("more webhooks were refused", { count: this.#unlogged });
    this.#unlogged = surplus?.count ?? 0;
    if (!surplus) this.#log.info("a webhook was refused", fields());
  }

  /** What was left aside. Pings come with every hook that is made, and say nothing. */
  leftAside(
    { route, requestId }: VerifiedRequest,
    { evaluated, stages }: { readonly evaluated: Evaluated; readonly stages: readonly StageResult[] },
  ): void {
    const { stop, subject, deliveryId } = evaluated;
    if (stop?.status !== 200) return;
    const { event } = subject;
    const reason = stages.at(-1)?.detail;
    const fields = { request: requestId, route: route.name, event, delivery: deliveryId, reason };
    if (event === "ping") this.#log.debug("a webhook was ignored", fields);
    else if (stop.body.status === "ignored") this.#log.info("a webhook was ignored", fields);
    else this.#log.info("a webhook was known already", fields);
  }

  /** Once for each route: such a signature can be repeated by whoever saw it. */
  signed(route: string, scheme: string | undefined): void {
    if (scheme !== "v1" || this.#signedTheOldWay.has(route) || this.#signedTheOldWay.size >= MAX_ROUTES)
      return;
    this.#signedTheOldWay.add(route);
    const hint = "X-Webhook-Signature proves nothing about the time; send X-Webhook-Signature-V2";
    this.#log.warn("a webhook route is signed in the old way", { route, scheme, hint });
  }
}
