import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../src/base/time.ts";
import { silentLog } from "../../src/base/observe.ts";
import { Dispatcher } from "../../src/deliver/outbox/dispatch.ts";
import { createTargets, type Delivery, type SendOutcome, type Target } from "../../src/deliver/target.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { percentile, runAlone, type BenchRow } from "./row.ts";

const PER_SECOND = 100;
const PACED_MS = 20_000;
const CHATS = 50;
const GOAL_MS = 1_000;
const PATIENCE_MS = 10_000;
/** Of the platform that hangs, and of the chat that does. */
const BACKLOG = 10_000;
const DRAINED = 5_000;
const GOAL_OF_ONE_CHAT = 0.5;

/** What a message waits from the time when it is owed until it is handed to its platform, and how many leave in a second. */
export async function run(): Promise<readonly BenchRow[]> {
  console.error("  alone ...");
  const control = await waits(() => []);
  console.error("  beside a platform that hangs ...");
  const beside = await waits(() => spread("dead", BACKLOG));
  console.error("  beside a chat that hangs ...");
  const behind = await waits(() => Array.from({ length: BACKLOG }, () => "chat:hangs"));
  return [
    wait(`enqueued to sent, p99, ${PER_SECOND}/s beside a platform that hangs`, beside, control),
    wait(`  beside a hanging chat with ${BACKLOG} messages`, behind, control),
    await drain("messages drained, one a chat", spread("chat", DRAINED)),
    await drain(
      "  all of one chat",
      Array.from({ length: DRAINED }, () => "chat:one"),
      GOAL_OF_ONE_CHAT,
    ),
  ];
}

const spread = (platform: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${platform}:${i}`);

function wait(name: string, waits: readonly number[], alone: readonly number[]): BenchRow {
  const [value, control] = [percentile(waits, 99), percentile(alone, 99)];
  return {
    name,
    value,
    unit: "ms",
    control,
    ratio: value / control,
    goal: `< ${GOAL_MS} ms`,
    met: value < GOAL_MS,
  };
}

/** Milliseconds that each of the paced messages waited, while `others` are owed and do not come to an end. */
async function waits(others: () => readonly string[]): Promise<readonly number[]> {
  await using place = await Place.open();
  await place.enqueue(others());
  const owedMs = new Map<unknown, number>();
  const waited: number[] = [];
  await place.send([
    target("dead", hang),
    target("chat", ({ payload, address }) => {
      if (address === "hangs") return hang();
      waited.push(performance.now() - (owedMs.get(payload) ?? Number.NaN));
      return Promise.resolve({ status: "delivered" });
    }),
  ]);
  const startMs = performance.now();
  const total = (PER_SECOND * PACED_MS) / 1_000;
  for (let sent = 0; sent < total; sent++) {
    const dueMs = startMs + (sent * 1_000) / PER_SECOND;
    await sleep(Math.max(0, dueMs - performance.now()));
    // From when it was due: what this loop is late by counts as well.
    owedMs.set(sent, dueMs);
    void place.store.write((tx) =>
      place.store.outbox.enqueue(tx, { owner: "default", target: `chat:${sent % CHATS}`, payload: sent }),
    );
  }
  while (waited.length < total) await sleep(10);
  if (waited.some(Number.isNaN)) throw new Error("a message came that nobody owed");
  return waited;
}

/** Messages that leave in a second; the control takes the same rows and ends them, with no more than it needs. */
async function drain(name: string, addresses: readonly string[], goal?: number): Promise<BenchRow> {
  const value = await drained(addresses);
  const control = await bareDrained(addresses);
  const ratio = value / control;
  const row = { name, value, unit: "messages/s", control, ratio };
  return goal === undefined ? row : { ...row, goal: `>= ${goal}x`, met: ratio >= goal };
}

async function drained(addresses: readonly string[]): Promise<number> {
  await using place = await Place.open();
  await place.enqueue(addresses);
  const over = Promise.withResolvers<void>();
  let left = addresses.length;
  const startMs = performance.now();
  const send = async (): Promise<SendOutcome> => {
    if ((left -= 1) === 0) over.resolve();
    return { status: "delivered" };
  };
  await place.send([target("chat", send)]);
  await over.promise;
  const drainedPerSecond = rate(addresses.length, startMs);
  await place.delivered(addresses.length);
  return drainedPerSecond;
}

/** As many at once as a platform gets: two writes a row, and nothing between. */
async function bareDrained(addresses: readonly string[]): Promise<number> {
  await using place = await Place.open();
  await place.enqueue(addresses);
  const rows = await place.store.read.selectFrom("outbox").select("id").orderBy("id").execute();
  const startMs = performance.now();
  const worker = async () => {
    for (let row = rows.shift(); row; row = rows.shift()) {
      const { id } = row;
      for (const status of ["leased", "delivered"]) {
        await place.store.write((tx) => tx.update("outbox", { id }, { status }));
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  const drainedPerSecond = rate(addresses.length, startMs);
  await place.delivered(addresses.length);
  return drainedPerSecond;
}

function rate(count: number, startMs: number): number {
  return (count * 1_000) / (performance.now() - startMs);
}

function target(name: string, send: (delivery: Delivery) => Promise<SendOutcome>): Target {
  return { name, send };
}

/** Longer than the measure takes. */
function hang(): Promise<SendOutcome> {
  return new Promise(() => {});
}

/** A database in a folder of its own, and who sends what it owes. */
class Place implements AsyncDisposable {
  readonly store: Store;
  readonly #folder: string;
  // The dispatcher's own timers keep no process alive.
  readonly #alive = setInterval(() => {}, 60_000);
  #dispatcher: Dispatcher | undefined;

  private constructor(store: Store, folder: string) {
    this.store = store;
    this.#folder = folder;
  }

  static async open(): Promise<Place> {
    const folder = await mkdtemp(join(tmpdir(), "agentd-bench-"));
    return new Place(await openStore({ url: join(folder, "state.db") }), folder);
  }

  async enqueue(addresses: readonly string[]): Promise<void> {
    const { store } = this;
    await store.write(async (tx) => {
      for (const address of addresses)
        await store.outbox.enqueue(tx, { owner: "default", target: address, payload: {} });
    });
  }

  /** Resolves when so many messages are on record as delivered; the last of them may be written a moment later. */
  async delivered(count: number): Promise<void> {
    const endMs = performance.now() + PATIENCE_MS;
    let done = Number.NaN;
    while (done !== count) {
      if (performance.now() > endMs) throw new Error(`${done} of ${count} messages were delivered`);
      await sleep(10);
      const rows = this.store.read.selectFrom("outbox").select("id").where("status", "=", "delivered");
      done = (await rows.execute()).length;
    }
  }

  async send(targets: readonly Target[]): Promise<void> {
    const { store } = this;
    const options = { store, clock: systemClock, log: silentLog, targets: createTargets(targets) };
    this.#dispatcher = new Dispatcher(options);
    await this.#dispatcher.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispatcher?.close({ graceMs: 0 });
    await this.store.close();
    clearInterval(this.#alive);
    await rm(this.#folder, { recursive: true, force: true });
  }
}

await runAlone(import.meta.url, run);
