/** Follows the deliveries of a route, whichever process handles them: stages, run, text, messages. */
import { systemClock } from "../../base/time.ts";
import type { Delivery, Message, RunEvent } from "../../client/http.ts";
import { streamsOf, type Api } from "../kit/api.ts";
import { readWhole } from "./deliveries.ts";
import type { WholeDelivery } from "./text.ts";

/** What happened to a delivery, in order. */
export type WatchEvent =
  | { readonly type: "delivery"; readonly delivery: WholeDelivery }
  /** An event of the run: its start, its text, its tools, its end. */
  | { readonly type: "run"; readonly id: string; readonly event: RunEvent }
  /** A message, once for each status. */
  | { readonly type: "message"; readonly id: string; readonly message: Message }
  | { readonly type: "ended"; readonly id: string; readonly delivery: Delivery }
  /** Deliveries that are not followed, since too many are open. */
  | { readonly type: "skipped"; readonly count: number };

interface WatchOptions {
  readonly route: string;
  readonly signal: AbortSignal;
  /** MUST NOT throw. */
  readonly emit: (event: WatchEvent) => void;
}

/** The poll interval: on this machine, and for a server. */
const POLL_MS = { here: 200, there: 1_000 };
/** Deliveries that are followed at once. */
const MAX_OPEN = 20;
const PAGE = 100;
const MAX_KNOWN = 1_000;

export class DeliveryWatch {
  readonly #api: Api;
  readonly #options: WatchOptions;
  readonly #known = new Set<string>();
  readonly #open = new Set<string>();
  #failure: unknown;

  constructor(api: Api, options: WatchOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** Remembers the deliveries that exist: they are not shown. */
  async begin(): Promise<void> {
    for (const { id } of await this.#newest()) this.#known.add(id);
  }

  /** Shows later deliveries until the signal aborts. Rejects when the store fails. */
  async run(): Promise<void> {
    const { signal, emit } = this.#options;
    while (!signal.aborted) {
      if (this.#failure !== undefined) throw this.#failure;
      const fresh = (await this.#newest()).filter(({ id }) => !this.#known.has(id)).toReversed();
      const followed = fresh.slice(0, MAX_OPEN - this.#open.size);
      for (const { id } of fresh) this.#remember(id);
      for (const each of followed) void this.#follow(each);
      if (fresh.length > followed.length) emit({ type: "skipped", count: fresh.length - followed.length });
      await this.#pause();
    }
  }

  async #newest(): Promise<readonly Delivery[]> {
    const { client, anyOwner: headers } = this.#api;
    const query = { route: [this.#options.route], limit: PAGE };
    return (await client.listDeliveries({ query, headers })).data.data;
  }

  #remember(id: string): void {
    this.#known.add(id);
    const [oldest] = this.#known;
    if (oldest !== undefined && this.#known.size > MAX_KNOWN) this.#known.delete(oldest);
  }

  async #follow(delivery: Delivery): Promise<void> {
    const { id } = delivery;
    this.#open.add(id);
    try {
      await this.#show(delivery);
    } catch (error) {
      if (!this.#options.signal.aborted) this.#failure = error;
    } finally {
      this.#open.delete(id);
    }
  }

  async #show(delivery: Delivery): Promise<void> {
    const { emit, signal } = this.#options;
    const { id, run_id: runId } = delivery;
    const first = await readWhole(this.#api, delivery);
    emit({ type: "delivery", delivery: first });
    if (runId !== null) {
      const { streamRunEvents } = await import("../../client/http.ts");
      for await (const event of streamRunEvents(streamsOf(this.#api, first.owner), runId, { signal }))
        emit({ type: "run", id, event });
    }
    const shown = new Map<string, string>();
    while (!signal.aborted) {
      const whole = await readWhole(this.#api, first);
      for (const message of whole.messages) {
        const state = `${message.status} ${message.attempts}`;
        const isNews = message.status !== "sending" && shown.get(message.id) !== state;
        if (isNews) emit({ type: "message", id, message });
        shown.set(message.id, state);
      }
      const isPending = whole.messages.some(({ status }) => status === "due" || status === "sending");
      if (whole.ended_at !== null && !isPending) return emit({ type: "ended", id, delivery: whole });
      await this.#pause();
    }
  }

  /** Resolves after the poll interval, or when the signal aborts. */
  async #pause(): Promise<void> {
    const ms = this.#api.target ? POLL_MS.there : POLL_MS.here;
    await systemClock.sleep(ms, { signal: this.#options.signal }).catch(() => {});
  }
}
