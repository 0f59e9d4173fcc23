/** Subscribers of the feed that lose their connection: nothing is missing, and nothing comes twice. */
import assert from "node:assert/strict";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { test } from "node:test";
import type { FeedEvent } from "../../../generated/http/client/types.gen.ts";
import { createSession, storedEvents } from "../../harness/control.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import { scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";

const authorization = `Bearer ${KEY}`;

/** A client that keeps the events that arrived whole, and resumes behind the last of them. */
class Subscriber {
  readonly events: FeedEvent[] = [];
  #position: string;

  constructor(position: string) {
    this.#position = position;
  }

  /** Reads a stream until it ends or is cut, or `done` holds after an event. */
  async read(response: Response, done: () => boolean = () => false): Promise<void> {
    try {
      for await (const { id, data } of readFrames(response)) {
        if (id === undefined || data === undefined) continue;
        this.#position = id;
        const frame = JSON.parse(data) as FeedEvent | { readonly object: "feed.ready" | "feed.bookmark" };
        if (frame.object === "event") this.events.push(frame);
        if (done()) return;
      }
    } catch {
      // It was cut.
    }
  }

  /** Connects, to the next of the servers each time, until it has the event of this session. */
  async follow(urls: readonly string[], lastSession: string): Promise<void> {
    const hasLast = () => this.events.at(-1)?.data.id === lastSession;
    for (let attempt = 0; !hasLast(); attempt++) {
      const url = `${urls[attempt % urls.length]}/v1/events`;
      const headers = { authorization, "last-event-id": this.#position, connection: "close" };
      const response = await fetch(url, { headers }).catch(() => undefined);
      if (response) await this.read(response, hasLast);
    }
  }

  get position(): string {
    return this.#position;
  }
}

/** Where the feed is now. */
async function positionOf(service: TestService): Promise<string> {
  const cursor = (await service.request("/v1/sessions")).headers.get("x-agent-event-cursor");
  assert.ok(cursor);
  return cursor;
}

const clock = new WatchedClock();
const SLOW_MS = 7_000;
scenario(
  "streamEvents",
  200,
  {
    title: "a subscriber that does not read is cut and resumes without loss",
    config: { limits: { slow_reader_seconds: SLOW_MS / 1000 } },
    clock,
  },
  async (service) => {
    const start = await positionOf(service);
    const path = `/v1/events?after=${start}&types=session.*`;
    const stuck = await openWithoutReading(service, path);
    // The other seven streams that a key may have stay open, so that a free place is that of the cut one.
    const others = await Promise.all(Array.from({ length: 7 }, () => service.request("/v1/events")));
    assert.deepEqual(new Set(others.map(({ status }) => status)), new Set([200]));
    assert.equal((await service.request(path)).status, 429);
    const { store } = service.service;
    const data = { filler: "x".repeat(50_000) };
    // Far more than sockets and streams hold on both sides.
    for (let count = 0; count < 400; count++) {
      const change = { type: "session.updated", ref: `s${count}`, owner: "default", data } as const;
      await store.write((tx) => tx.record(change));
    }
    await clock.wait(SLOW_MS);
    let next = await service.request(path);
    for (let passedMs = 0; next.status !== 200; passedMs += SLOW_MS) {
      await next.body?.cancel();
      assert.ok(passedMs < 1_000 * SLOW_MS, "it still has its place");
      clock.tick(SLOW_MS);
      next = await service.request(path);
    }
    await next.body?.cancel();
    const subscriber = new Subscriber(start);
    await subscriber.read(new Response(Readable.toWeb(stuck) as ReadableStream));
    const before = subscriber.events.length;
    assert.ok(before < 400, `${before} events arrived, so the stream was not cut`);
    const stored = await storedEvents<FeedEvent>(service, `?after=${start}&limit=100&types=session.*`);
    await subscriber.follow([service.url], "s399");
    assert.deepEqual(idsOf(subscriber.events), idsOf(stored));
    for (const { body } of others) await body?.cancel();
  },
);

function openWithoutReading(service: TestService, path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${service.url}${path}`, { headers: { authorization } });
    request.on("response", (response) => resolve(response.on("error", () => {}).pause()));
    request.on("error", reject).end();
  });
}

const idsOf = (events: readonly FeedEvent[]) => events.map(({ id }) => id);

test("a subscriber that is cut in the middle of an event, again and again, resumes without a gap or a repeat", async () => {
  await using service = await startTestService();
  // Each connection carries the headers and a few events, and ends within one.
  await using proxy = await startCuttingProxy(service.url, budgets(40));
  const start = await positionOf(service);
  const subscriber = new Subscriber(start);
  const following = subscriber.follow([proxy.url], LAST);
  for (let count = 0; count < 12; count++) await createSession(service, `s${count}`);
  await addLast(service);
  await following;
  assert.deepEqual(subscriber.events, await storedEvents(service, `?after=${start}`));
  assert.ok(proxy.cuts >= 5, `${proxy.cuts} cuts`);
});

/** Sizes that end everywhere within the frames of events, which have 300 to 400 bytes. */
function budgets(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => 1_100 + ((index * 397) % 1_000));
}

const LAST = "last";

async function addLast({ service: { store } }: TestService): Promise<void> {
  const change = { type: "session.updated", ref: LAST, owner: "default", data: {} } as const;
  await store.write((tx) => tx.record(change));
}

test("a subscriber that reaches another replica with each cut misses no event and gets none twice", async () => {
  await using first = await startTestService();
  const second = await startTestService({ like: first });
  try {
    await using here = await startCuttingProxy(first.url, budgets(40));
    await using there = await startCuttingProxy(second.url, budgets(40));
    const start = await positionOf(first);
    const subscriber = new Subscriber(start);
    const following = subscriber.follow([here.url, there.url], LAST);
    await Promise.all([
      (async () => {
        for (let count = 0; count < 6; count++) await createSession(first, `a${count}`);
      })(),
      (async () => {
        for (let count = 0; count < 6; count++) await createSession(second, `b${count}`);
      })(),
    ]);
    await addLast(first);
    await following;
    assert.deepEqual(subscriber.events, await storedEvents(first, `?after=${start}`));
    assert.ok(here.cuts > 0 && there.cuts > 0, `${here.cuts} and ${there.cuts} cuts`);
  } finally {
    await second.service.stop({ graceMs: 0 });
  }
});

test("a subscriber resumes behind a restart with what happened before, during and after it", async () => {
  let service = await startTestService();
  try {
    const start = await positionOf(service);
    const subscriber = new Subscriber(start);
    for (let round = 0; round < 3; round++) {
      const reading = subscriber.read(
        await service.request("/v1/events", { headers: { "last-event-id": subscriber.position } }),
      );
      await createSession(service, `s${round}`);
      service = await service.restart();
      await reading;
    }
    await addLast(service);
    await subscriber.follow([service.url], LAST);
    const stored = await storedEvents<FeedEvent>(service, `?after=${start}`);
    assert.deepEqual(subscriber.events, stored);
    const restarts = stored.filter(({ type }) => type === "service.stopped").length;
    assert.equal(restarts, 3);
  } finally {
    await service[Symbol.asyncDispose]();
  }
});
