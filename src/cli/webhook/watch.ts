/** Follows the deliveries of a route in the database, whichever process handles them: stages, run, text, messages. */
import { followRun, toRunEvent } from "../../agent/run/run.ts";
import type { RunEvent } from "../../../generated/http/client/types.gen.ts";
import { systemClock } from "../../base/time.ts";
import { listMessages, type OutboxMessage } from "../../store/outbox/messages.ts";
import type { Store } from "../../store/store.ts";
import { Deliveries, type Delivery, type DeliverySummary } from "../../webhook/deliveries/deliveries.ts";

/** What happened to a delivery, in order. */
export type WatchEvent =
  | { readonly type: "delivery"; readonly delivery: Delivery }
  /** An event of the run: its start, its text, its tools, its end. */
  | { readonly type: "run"; readonly id: string; readonly event: RunEvent }
  /** A message, once for each status. */
  | { readonly type: "message"; readonly id: string; readonly message: OutboxMessage }
  | { readonly type: "ended"; readonly id: string; readonly delivery: DeliverySummary }
  /** Deliveries that are not followed, since too many are open. */
  | { readonly type: "skipped"; readonly count: number };

interface WatchOptions {
  readonly route: string;
  readonly signal: AbortSignal;
  /** MUST NOT throw. */
  readonly emit: (event: WatchEvent) => void;
}

/** The poll interval: the gateway is another process, which reports through the store. */
const POLL_MS = 200;
/** Deliveries that are followed at once. */
const MAX_OPEN = 20;
const PAGE = 100;
const MAX_KNOWN = 1_000;
const MAX_MESSAGES = 100;

export class DeliveryWatch {
  readonly #store: Store;
  readonly #options: WatchOptions;
  readonly #known = new Set<string>();
  readonly #open = new Set<string>();
  #failure: unknown;

  constructor(store: Store, options: WatchOptions) {
    this.#store = store;
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
      for (const { id } of followed) void this.#follow(id);
      if (fresh.length > followed.length) emit({ type: "skipped", count: fresh.length - followed.length });
      await pause(signal);
    }
  }

  async #newest(): Promise<readonly DeliverySummary[]> {
    const { route } = this.#options;
    return (await new Deliveries(this.#store).list({ routes: [route] }, { limit: PAGE })).deliveries;
  }

  #remember(id: string): void {
    this.#known.add(id);
    const [oldest] = this.#known;
    if (oldest !== undefined && this.#known.size > MAX_KNOWN) this.#known.delete(oldest);
  }

  async #follow(id: string): Promise<void> {
    this.#open.add(id);
    try {
      await this.#show(id);
    } catch (error) {
      if (!this.#options.signal.aborted) this.#failure = error;
    } finally {
      this.#open.delete(id);
    }
  }

  async #show(id: string): Promise<void> {
    const { emit, signal } = this.#options;
    const first = await new Deliveries(this.#store).show(id);
    if (!first) return;
    emit({ type: "delivery", delivery: first });
    if (first.runId !== undefined) {
      for await (const event of followRun(this.#store, first.runId, { signal }))
        emit({ type: "run", id, event: toRunEvent(event) });
    }
    const shown = new Map<string, string>();
    while (!signal.aborted) {
      const row = await this.#store.find("deliveries", { id });
      const messages = await listMessages(this.#store, { ref: id, limit: MAX_MESSAGES });
      for (const message of messages.toReversed()) {
        const state = `${message.status} ${message.attempts}`;
        const isNews = message.status !== "leased" && shown.get(message.id) !== state;
        if (isNews) emit({ type: "message", id, message });
        shown.set(message.id, state);
      }
      const isPending = messages.some(({ status }) => status === "due" || status === "leased");
      if (row?.ended_at === null || isPending) await pause(signal);
      else
        return emit({ type: "ended", id, delivery: (await new Deliveries(this.#store).show(id)) ?? first });
    }
  }
}

/** Resolves after the poll interval, or when the signal aborts. */
async function pause(signal: AbortSignal): Promise<void> {
  await systemClock.sleep(POLL_MS, { signal }).catch(() => {});
}
