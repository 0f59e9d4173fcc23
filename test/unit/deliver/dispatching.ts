/** A dispatcher over a store and a clock that the test moves, and targets that do what the test says. */
import { FakeClock } from "../../harness/fake-clock.ts";
import { createLog } from "../../../src/base/observe.ts";
import { Dispatcher, type DispatcherOptions } from "../../../src/deliver/outbox/dispatch.ts";
import {
  createTargets,
  type Delivery,
  type SendOptions,
  type SendOutcome,
  type Target,
} from "../../../src/deliver/target.ts";
import type { NewMessage } from "../../../src/store/outbox/outbox.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

/** Tells when somebody began to wait for so long, so that time moves only once it is waited for. */
export class WatchedClock extends FakeClock {
  readonly #waits: number[] = [];
  #tell = () => {};

  override after(ms: number, run: () => void): () => void {
    this.#waits.push(ms);
    this.#tell();
    return super.after(ms, run);
  }

  async waitedFor(ms: number): Promise<void> {
    while (!this.#waits.includes(ms)) await new Promise<void>((resolve) => (this.#tell = resolve));
    this.#waits.length = 0;
  }
}

type Send = (delivery: Delivery, options: SendOptions) => Promise<SendOutcome> | SendOutcome;

/** A target that does what the test says, and what it was asked. */
export class TestTarget implements Target {
  readonly name: string;
  readonly sent: Delivery[] = [];
  closed = 0;
  most = 0;
  #now = 0;
  readonly #send: Send;
  readonly #waiting: (() => void)[] = [];

  constructor(send: Send = () => ({ status: "delivered" }), name = "test") {
    this.#send = send;
    this.name = name;
  }

  async send(delivery: Delivery, options: SendOptions): Promise<SendOutcome> {
    this.#now += 1;
    this.most = Math.max(this.most, this.#now);
    this.sent.push(delivery);
    for (const look of this.#waiting) look();
    try {
      return await this.#send(delivery, options);
    } finally {
      this.#now -= 1;
    }
  }

  async close(): Promise<void> {
    this.closed += 1;
  }

  /** Resolves with what was sent once it is so many. */
  async count(atLeast: number): Promise<readonly Delivery[]> {
    await new Promise<void>((resolve) => {
      const look = () => {
        if (this.sent.length >= atLeast) resolve();
      };
      this.#waiting.push(look);
      look();
    });
    return this.sent;
  }
}

interface Cleanup {
  after(run: () => Promise<void>): void;
}

export async function openDispatch(t: Cleanup) {
  const watch = watchUnhandled();
  const dispatchers: Dispatcher[] = [];
  t.after(async () => {
    for (const dispatcher of dispatchers) await dispatcher.close({ graceMs: 0 });
  });
  const clock = new WatchedClock();
  const { store, openAnother } = await openTestStore(t, { now: () => clock.now() });
  t.after(async () => watch[Symbol.asyncDispose]());
  const lines: { level: string; message: string }[] = [];
  let tell = () => {};
  const log = createLog("info", (line) => {
    lines.push(JSON.parse(line));
    tell();
  });
  const dispatch = (targets: readonly Target[], more: Partial<DispatcherOptions> = {}) => {
    const retries = { retryDelaysMs: [1_000, 4_000, 16_000, 64_000], random: () => 0 };
    const all = {
      store,
      clock,
      log,
      ...retries,
      pollMs: 3_600_000,
      targets: createTargets(targets),
      ...more,
    };
    const dispatcher = new Dispatcher(all);
    dispatchers.push(dispatcher);
    return dispatcher;
  };
  const logged = async (text: string) => {
    const found = () => lines.find(({ message }) => message.includes(text));
    while (!found()) await new Promise<void>((resolve) => (tell = resolve));
    return found();
  };
  return {
    clock,
    store,
    openAnother: () => openAnother({ now: () => clock.now() }),
    dispatch,
    lines,
    logged,
  };
}

export const enqueue = (store: Store, message: Partial<NewMessage> = {}) =>
  store.write((tx) =>
    store.outbox.enqueue(tx, { owner: "default", target: "test:a", payload: { text: "hi" }, ...message }),
  );

export const row = (store: Store, id: string) =>
  store.read.selectFrom("outbox").selectAll().where("id", "=", id).executeTakeFirstOrThrow();

/** Resolves once the message has that status. */
export async function reached(store: Store, id: string, status: string) {
  for (;;) {
    const found = await row(store, id);
    if (found.status === status) return found;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A store whose writes fail while `isBroken`, as when its process dies or its database goes. */
export function breakable(store: Store): Store & { isBroken: boolean } {
  const wrapped = {
    isBroken: false,
    owner: store.owner,
    outbox: store.outbox,
    write: (...args: Parameters<Store["write"]>) =>
      wrapped.isBroken ? Promise.reject(new Error("the database is gone")) : store.write(...args),
  };
  return wrapped as unknown as Store & { isBroken: boolean };
}
