/**
 * The outbox and SIGKILL: nothing is lost, and each chat keeps its order. Where the platform recognises repeats what was on
 * its way comes twice; where it does not nothing does, and what was on its way is unknown.
 */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { text } from "node:stream/consumers";
import { test, type TestContext } from "node:test";
import { retryMessage } from "../../src/store/outbox/messages.ts";
import type { Store } from "../../src/store/store.ts";
import { openTestStore } from "../harness/store.ts";
import { startChild, type Child } from "../unit/store/child.ts";
import { until } from "./webhook-place.ts";

/** Kills at random points; more by hand: AGENTD_TEST_KILLS. */
const KILLS = Number(process.env["AGENTD_TEST_KILLS"] ?? 8);
/** Processes that send at once, all the time. */
const SENDERS = 2;
const CHATS = 5;
/** Owed before each kill. */
const MESSAGES = 25;
const MAX_PARTS = 4;
/** A process lives at most so long after it began to send, and another was killed. */
const MAX_LIFE_MS = 400;

test(`SIGKILL ${KILLS} times at random points of sending: each message comes, in its chat's order, twice only what was on its way`, async (t) => {
  const { store, url } = await openTestStore(t);
  await using platform = await Platform.open();
  const owed = new Owed(store, "chat");
  await sendUnderKills(t, { url, platform, owed });
  await until(
    async () => (await owed.unsent()) === 0,
    () => `${owed.parts.size} parts are owed, ${platform.firsts.length} came`,
  );
  assert.deepEqual(platform.refused, []);
  for (const chat of owed.chats) {
    assert.deepEqual(platform.firstsOf(chat), owed.partsOf(chat), `the order of ${chat}`);
  }
  platform.assertRepeatsWereCut();
  t.diagnostic(
    `${platform.firsts.length} parts, ${platform.arrivals.length - platform.firsts.length} came twice`,
  );
});

test(`SIGKILL ${KILLS} times on a platform that cannot recognise repeats: nothing comes twice, and what was on its way is unknown`, async (t) => {
  const { store, url } = await openTestStore(t);
  await using platform = await Platform.open();
  const owed = new Owed(store, "forgetful");
  await sendUnderKills(t, { url, platform, owed });
  let left: readonly unknown[] = [];
  await until(
    async () => (left = await owed.open()).length === 0,
    () => `${platform.firsts.length} parts came, and these messages are open: ${JSON.stringify(left)}`,
  );
  assert.deepEqual(platform.refused, []);
  assert.equal(platform.arrivals.length, platform.firsts.length, "a part came twice");
  const unknown = await owed.unknown();
  // One for each chat in which the killed process was sending.
  assert.ok(unknown.length <= KILLS * CHATS, `${unknown.length} messages are unknown`);
  const isKnown = (key: string) => !unknown.includes(key.split(":")[0] ?? "");
  for (const chat of owed.chats) {
    const came = platform.firstsOf(chat).filter(isKnown);
    assert.deepEqual(came, owed.partsOf(chat).filter(isKnown), `what came to ${chat}`);
  }
  await owed.retryUnknown();
  await until(
    async () => (await owed.unsent()) === 0,
    () => `${unknown.length} messages were to be sent again`,
  );
  const all = owed.chats.flatMap((chat) => owed.partsOf(chat));
  assert.deepEqual(platform.firsts.map(({ key }) => key).toSorted(), all.toSorted());
  t.diagnostic(`${platform.firsts.length} parts, ${unknown.length} messages were unknown`);
});

/** Keeps senders at work and kills them at random points; the last ones are left to send the rest. */
async function sendUnderKills(
  t: TestContext,
  { url, platform, owed }: { readonly url: string; readonly platform: Platform; readonly owed: Owed },
): Promise<void> {
  const children: Child[] = [];
  t.after(async () => {
    for (const child of children) child.process.kill("SIGKILL");
    await Promise.all(children.map(({ exit }) => exit));
  });
  let lives = 0;
  const start = async () => {
    const child = startChild("../../crash/deliver-child.ts", [url, platform.url, `life-${(lives += 1)}`]);
    children.push(child);
    await child.lines[Symbol.asyncIterator]().next();
  };
  for (let i = 1; i < SENDERS; i++) await start();
  for (let kills = 0; kills < KILLS; kills++) {
    await start();
    await owed.more();
    await new Promise((resolve) => setTimeout(resolve, Math.random() * MAX_LIFE_MS));
    const [victim] = children.splice(Math.floor(Math.random() * children.length), 1);
    victim?.process.kill("SIGKILL");
    await victim?.exit;
  }
  await start();
}

/** What the test owes. */
class Owed {
  /** Keys of parts, by chat, in the order in which they were owed. */
  readonly parts = new Map<string, readonly string[]>();
  readonly #store: Store;
  readonly #platform: string;
  #count = 0;

  constructor(store: Store, platform: string) {
    this.#store = store;
    this.#platform = platform;
  }

  get chats(): readonly string[] {
    return [...this.parts.keys()];
  }

  async more(): Promise<void> {
    for (let i = 0; i < MESSAGES; i++) {
      const chat = `c${(this.#count += 1) % CHATS}`;
      const parts = Array.from(
        { length: 1 + Math.floor(Math.random() * MAX_PARTS) },
        (_, part) => `part ${part}`,
      );
      const message = { owner: "default", target: `${this.#platform}:${chat}`, payload: { parts } };
      const id = await this.#store.write((tx) => this.#store.outbox.enqueue(tx, message));
      this.parts.set(chat, [...this.partsOf(chat), ...parts.map((_, part) => `${id}:${part}`)]);
    }
  }

  partsOf(chat: string): readonly string[] {
    return this.parts.get(chat) ?? [];
  }

  /** Those that are neither delivered nor unknown. */
  async open(): Promise<readonly unknown[]> {
    const columns = [
      "id",
      "target",
      "status",
      "attempts",
      "available_at",
      "lease_owner",
      "attempt_log",
    ] as const;
    const open = this.#store.read.selectFrom("outbox").select(columns);
    return open.where("status", "not in", ["delivered", "unknown"]).execute();
  }

  /** Ids. */
  async unknown(): Promise<readonly string[]> {
    const rows = this.#store.read.selectFrom("outbox").select("id").where("status", "=", "unknown");
    return (await rows.execute()).map(({ id }) => id);
  }

  async retryUnknown(): Promise<void> {
    for (const id of await this.unknown()) assert.equal(await retryMessage(this.#store, id), "retried");
  }

  async unsent(): Promise<number> {
    const left = this.#store.read.selectFrom("outbox").select(({ fn }) => fn.countAll().as("count"));
    return Number((await left.where("status", "!=", "delivered").executeTakeFirstOrThrow()).count);
  }
}

interface Arrival {
  readonly chat: string;
  /** `<message>:<part>`. */
  readonly key: string;
  /** Process that sent it. */
  readonly life: string;
}

/** A platform that takes its time, is out of order at times, and says no to what its words do not allow. */
class Platform implements AsyncDisposable {
  /** What it took, in order. */
  readonly arrivals: Arrival[] = [];
  readonly refused: string[] = [];
  readonly url: string;
  readonly #close: () => Promise<void>;

  private constructor(server: ReturnType<typeof createServer>) {
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("request", (request, response) => void this.#answer(request, response));
    this.#close = async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    };
  }

  static async open(): Promise<Platform> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Platform(server);
  }

  /** Each part as it came first. */
  get firsts(): readonly Arrival[] {
    const seen = new Set<string>();
    return this.arrivals.filter(({ key }) => !seen.has(key) && seen.add(key));
  }

  firstsOf(chat: string): readonly string[] {
    return this.firsts.filter((arrival) => arrival.chat === chat).map(({ key }) => key);
  }

  /** A part comes again only from another process, and only if it was the last that its first one sent to that chat. */
  assertRepeatsWereCut(): void {
    for (const [index, { chat, key, life }] of this.arrivals.entries()) {
      const again = this.arrivals.findIndex((other, at) => at > index && other.key === key);
      if (again < 0) continue;
      assert.notEqual(this.arrivals[again]?.life, life, `${key} came twice from one process`);
      const next = this.arrivals.slice(index + 1).find((other) => other.life === life && other.chat === chat);
      assert.equal(next, undefined, `${key} came again, though ${life} went on with ${next?.key}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => {});
    const body = await text(request).catch(() => undefined);
    if (body === undefined) return;
    const chat = /^\/(?:chat|forgetful)\/([a-z0-9]+)\/messages$/.exec(request.url ?? "")?.[1];
    const { "idempotency-key": key, "user-agent": life, "content-type": type } = request.headers;
    const isGood =
      request.method === "POST" &&
      type === "application/json" &&
      /^\{"text":"part \d"\}$/.test(body) &&
      /^out_[0-9a-z]{26}:\d$/.test(String(key));
    if (!isGood || chat === undefined) {
      this.refused.push(`${request.method} ${request.url} ${String(key)} ${body}`);
      return void response.writeHead(400).end();
    }
    if (Math.random() < 0.05) return void response.writeHead(503).end();
    this.arrivals.push({ chat, key: String(key), life: String(life) });
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    response.writeHead(201).end();
  }
}
