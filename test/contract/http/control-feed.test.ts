import assert from "node:assert/strict";
import { test } from "node:test";
import type { FeedEvent, FeedFrame } from "../../../generated/http/client/types.gen.ts";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import { operations } from "../../../generated/http/server.gen.ts";
import { sweep } from "../../../src/store/retention.ts";
import { askQuestion, asking, createSession, list, patch } from "../../harness/control.ts";
import { post, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { untilVisible } from "../../harness/changes.ts";

const OTHER = "another-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const json = { accept: "application/json" };

interface Stream extends AsyncDisposable {
  /** Reads up to the first frame that fits, with it. */
  until(fits: (frame: FeedFrame) => boolean): Promise<FeedFrame[]>;
}

/** Opens the feed and reads its first frame, so that everything after this call is in it. */
async function open(service: TestService, query = "", headers: Record<string, string> = {}): Promise<Stream> {
  const leaving = new AbortController();
  const response = await service.request(`/v1/events${query}`, { headers, signal: leaving.signal });
  assert.equal(response.status, 200, response.status === 200 ? "" : await response.text());
  const frames = readFrames(response);
  const next = async () => {
    for (;;) {
      const { value, done } = await frames.next();
      if (done) throw new Error("the stream ended");
      if (value.data !== undefined) return JSON.parse(value.data) as FeedFrame;
    }
  };
  assert.equal((await next()).object, "feed.ready");
  return {
    async until(fits) {
      const read: FeedFrame[] = [];
      for (;;) {
        const frame = await next();
        // In PostgreSQL the start of the service may become visible later.
        if (frame.object === "event" && frame.type === "service.started") continue;
        read.push(frame);
        if (fits(frame)) return read;
      }
    },
    async [Symbol.asyncDispose]() {
      leaving.abort();
      await frames.return?.(undefined as never).catch(() => {});
    },
  };
}

/** Reads the text of the feed from the first event to the end of the one with the id `last`. */
async function bytesAfter(
  service: TestService,
  headers: Record<string, string>,
  last: string,
): Promise<string> {
  const leaving = new AbortController();
  const response = await service.request("/v1/events", { headers, signal: leaving.signal });
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body!) {
    text += decoder.decode(bytes, { stream: true });
    const end = text.indexOf("\n\n", text.indexOf(`id: ${last}\n`));
    if (text.includes(`id: ${last}\n`) && end >= 0) break;
  }
  leaving.abort();
  // The first frame is the position, which differs.
  return text.slice(text.indexOf("\n\n", text.indexOf("feed.ready")) + 2);
}

const isEnd = (frame: FeedFrame) =>
  frame.object === "event" && frame.type === "run.updated" && frame.data["status"] === "completed";

/** Every stored event, but for the start of the service. In PostgreSQL an event can be read once all older transactions of the server have ended. */
async function stored(service: TestService, query = "", headers: Record<string, string> = {}) {
  await untilVisible(service.service.store);
  const events = await list<FeedEvent>(service, `/v1/events${query}`, { ...json, ...headers });
  return events.filter(({ type }) => type !== "service.started");
}

scenario(
  "streamEvents",
  200,
  {
    title: "a run, its question and its session are one event for each change, without any text",
    ...asking("rm -rf a"),
  },
  async (service) => {
    await using feed = await open(service);
    const question = await askQuestion(service);
    await post(service, `/v1/questions/${question.id}/answer`, { choice: "once", reason: "secret reason" });
    const frames = (await feed.until(isEnd)) as FeedEvent[];
    const types = frames.map(({ type, data }) => `${type} ${String(data["status"])}`);
    for (const wanted of ["question.created open", "question.updated answered", "run.updated completed"]) {
      assert.equal(types.filter((each) => each === wanted).length, 1, types.join());
    }
    const opened = frames.find(({ type }) => type === "question.created");
    assert.deepEqual(opened?.data, {
      object: "agent.question",
      id: question.id,
      kind: "approval",
      status: "open",
      expires_at: question.expires_at,
      run_id: question.run_id,
      session_id: question.session_id,
    });
    const answered = frames.find(({ type }) => type === "question.updated");
    assert.equal(answered?.actor, "http:default");
    assert.equal(frames[0]?.actor, "default", "the key that started the run");
    assert.doesNotMatch(JSON.stringify(frames), /rm -rf|secret reason|hi/);
    assert.deepEqual(await stored(service), frames, "the stored feed is the streamed one");
  },
);

scenario(
  "streamEvents",
  200,
  { title: "the feed resumed from any id is identical, byte for byte, to the uncut one" },
  async (service) => {
    for (const name of ["a", "b", "c"]) await createSession(service, name);
    await patch(service, "/v1/sessions/a", { title: "a title" });
    const whole = await stored(service, "?limit=2");
    assert.ok(whole.length >= 10);
    assert.deepEqual(new Set(whole.map(({ id }) => id)).size, whole.length);
    const first = whole[0]!.id;
    const last = whole.at(-1)!.id;
    const uncut = await bytesAfter(service, { "last-event-id": first }, last);
    for (const [index, { id }] of whole.slice(0, -1).entries()) {
      await using feed = await open(
        service,
        index % 2 ? `?after=${id}` : "",
        index % 2 ? {} : { "last-event-id": id },
      );
      const rest = await feed.until((frame) => "id" in frame && frame.id === last);
      assert.deepEqual(rest, whole.slice(index + 1));
      const bytes = await bytesAfter(service, { "last-event-id": id }, last);
      assert.match(bytes.slice(0, bytes.indexOf("data:")), new RegExp(`^id: ${whole[index + 1]!.id}$`, "m"));
      assert.equal(bytes, uncut.slice(-bytes.length));
    }
    assert.doesNotMatch(JSON.stringify(whole), /a title|hi from/);
  },
);

scenario(
  "streamEvents",
  200,
  { title: "list, then follow from X-Agent-Event-Cursor, misses no change made in between" },
  async (service) => {
    await createSession(service, "before");
    const listed = await service.request("/v1/sessions");
    const cursor = listed.headers.get("x-agent-event-cursor");
    await createSession(service, "between");
    await using feed = await open(service, `?after=${cursor}&types=session.created`);
    await createSession(service, "after");
    const frames = await feed.until((frame) => frame.object === "event" && frame.data.id === "after");
    assert.deepEqual(
      frames.slice(-2).map((frame) => (frame as FeedEvent).data.id),
      ["between", "after"],
    );
  },
);

test("a list that is read while changes are made, and the feed after it, have each change", async () => {
  await using service = await startTestService();
  const names = Array.from({ length: 30 }, (_, index) => `s${index}`);
  const made = names.map((id) => post(service, "/v1/sessions", { id }));
  const listed = await service.request("/v1/sessions?limit=100");
  const cursor = listed.headers.get("x-agent-event-cursor");
  const { data } = (await listed.json()) as { readonly data: readonly { readonly id: string }[] };
  for (const response of await Promise.all(made)) assert.equal(response.status, 201);
  const later = await stored(service, `?after=${cursor}&types=session.created`);
  const known = new Set([...data.map(({ id }) => id), ...later.map((event) => event.data.id)]);
  assert.deepEqual(known, new Set(names));
});

scenario(
  "streamEvents",
  200,
  {
    title: "a key sees events of its owner only, and an admin key those of all with X-Agent-Owner *",
    keys: [
      { key: KEY, name: "a", scopes: ["chat", "read"] },
      { key: OTHER, name: "b", scopes: ["admin"] },
    ],
  },
  async (service) => {
    await createSession(service, "mine");
    await createSession(service, "theirs", other);
    assert.deepEqual(new Set((await stored(service)).map(({ owner }) => owner)), new Set(["a"]));
    assert.deepEqual(new Set((await stored(service, "", other)).map(({ owner }) => owner)), new Set(["b"]));
    const all = await stored(service, "", { ...other, "x-agent-owner": "*" });
    assert.deepEqual(new Set(all.map(({ owner }) => owner)), new Set(["a", "b"]));
    await using feed = await open(service, "?types=run.updated");
    await createSession(service, "theirs2", other);
    await createSession(service, "mine2");
    const frames = (await feed.until(isEnd)) as FeedEvent[];
    assert.deepEqual(new Set(frames.map(({ owner }) => owner)), new Set(["a"]));
  },
);

scenario(
  "streamEvents",
  200,
  {
    title: "10,000 text deltas add no feed event",
    script: () => ({ text: "word ".repeat(10_000), chunkSize: 5 }),
  },
  async (service) => {
    await createSession(service, "s");
    const events = await stored(service);
    // The session gets its title at any time.
    const types = new Set(events.map(({ type }) => type).filter((type) => type !== "session.updated"));
    assert.ok(events.length <= 4, `${events.length} events`);
    assert.deepEqual([...types].toSorted(), ["run.created", "run.updated", "session.created"]);
  },
);

scenario(
  "streamEvents",
  200,
  { title: "each write names its actor, and a dry run adds no event" },
  async (service) => {
    await createSession(service, "s");
    // The session gets its title, by the server itself, at any time.
    const mine = async () => (await stored(service)).filter(({ actor }) => actor !== null);
    const before = await mine();
    await patch(service, "/v1/sessions/s?dry_run=true", { title: "t" });
    await patch(service, "/v1/sessions/s", { title: "" });
    assert.deepEqual(await mine(), before);
    await patch(service, "/v1/sessions/s", { title: "t" });
    await service.request("/v1/sessions/s", { method: "DELETE" });
    const after = (await mine()).slice(before.length);
    assert.deepEqual(
      after.map(({ type, actor, data }) => [type, actor, data]),
      [
        ["session.updated", "default", { object: "agent.session", id: "s" }],
        ["session.deleted", "default", { object: "agent.session", id: "s" }],
      ],
    );
  },
);

scenario(
  "streamEvents",
  410,
  {
    title:
      "a cursor older than the retention is 410 events_expired with first_id, and a cursor of another epoch is 410",
  },
  async (service) => {
    for (const name of ["a", "b"]) await createSession(service, name);
    // Each session gets its title in the background.
    const titled = (events: readonly FeedEvent[]) => events.filter(({ type }) => type === "session.updated");
    let events = await stored(service);
    while (titled(events).length < 2) events = await stored(service);
    const cut = { changesMs: Number.MAX_SAFE_INTEGER, maxChanges: 2 };
    await sweep(service.service.store, { retention: cut, batchSize: 2 });
    const kept = await stored(service);
    assert.deepEqual(kept, events.slice(-2));
    const old = [events[0]!.id, events[0]!.id.replace(/^[0-9a-f]+/, "00ff")];
    for (const id of old) {
      const error = await assertError(await service.request(`/v1/events?after=${id}`), 410, "events_expired");
      assert.equal((error as never as { details: { first_id: string } }).details.first_id, kept[0]!.id);
    }
    const edge = await stored(service, `?after=${events.at(-3)!.id}`);
    assert.deepEqual(edge, kept, "the cursor before the oldest kept event still works");
    await sweep(service.service.store, { retention: { ...cut, maxChanges: 0 } });
    await createSession(service, "c");
    const ids = new Set([...events, ...(await stored(service))].map(({ id }) => id));
    assert.ok(ids.size > events.length, "ids are not issued again");
  },
);

scenario(
  "streamEvents",
  400,
  { title: "a malformed or future cursor, or an unknown type" },
  async (service) => {
    await createSession(service, "s");
    const { id } = (await stored(service)).at(-1)!;
    const future = id.replace(
      /(\d+)-(\d+)$/,
      (_, tx, number) => `${Number(tx) + (tx === "0" ? 0 : 1e6)}-${Number(number) + 1}`,
    );
    for (const cursor of ["1", "s", `${id}0x`, future]) {
      for (const [query, headers, param] of [
        [`?after=${cursor}`, {}, "after"],
        ["", { "last-event-id": cursor }, "Last-Event-ID"],
      ] as const) {
        const response = await service.request(`/v1/events${query}`, { headers: { ...headers, ...json } });
        assert.equal((await assertError(response, 400, "invalid_cursor")).param, param);
      }
    }
    for (const type of ["run.*,ran.*", "run", "*"]) {
      const error = await assertError(
        await service.request(`/v1/events?types=${type}`),
        400,
        "unsupported_parameter",
      );
      assert.equal(error.param, "types");
    }
  },
);

scenario(
  "streamEvents",
  429,
  {
    title: "the ninth stream of a key is 429, and one that closes makes room",
    keys: [
      { key: KEY, name: "a", scopes: ["admin"] },
      { key: OTHER, name: "b", scopes: ["admin"] },
    ],
  },
  async (service) => {
    await using stack = new AsyncDisposableStack();
    for (let count = 1; count < 8; count++) stack.use(await open(service));
    const eighth = await open(service);
    await assertError(await service.request("/v1/events"), 429, "too_many_subscribers");
    stack.use(await open(service, "", other));
    await eighth[Symbol.asyncDispose]();
    for (;;) {
      const response = await service.request("/v1/events");
      if (response.status === 200) return void (await response.body?.cancel());
      await assertError(response, 429, "too_many_subscribers");
    }
  },
);

/** They show what no event announces, or what follows from the clock alone. */
const WITHOUT_CURSOR: ReadonlySet<string> = new Set([
  "listConsoleSessions",
  "listJobTimes",
  "listLogs",
  "listVariables",
  "streamEvents",
]);

test("each list of the control API names the position of the feed before it was read", async () => {
  await using service = await startTestService({ keys: [{ key: KEY, name: "a", scopes: ["admin"] }] });
  await createSession(service, "s");
  const lists = (Object.entries(operations) as [string, OperationMeta][]).filter(
    ([name, { method, strict, query }]) =>
      method === "GET" && strict && query?.coerce["limit"] !== undefined && !WITHOUT_CURSOR.has(name),
  );
  assert.ok(lists.length >= 18, lists.join());
  for (const [name, { route }] of lists) {
    const response = await service.request(route.replace("{session_id}", "s"));
    assert.equal(response.status, 200, name);
    const cursor = response.headers.get("x-agent-event-cursor");
    assert.ok(cursor, `${name} has no position`);
    await response.body?.cancel();
    assert.equal((await service.request(`/v1/events?after=${cursor}`, { headers: json })).status, 200, name);
  }
});

const cursorOf = ({ headers }: Response) => headers.get("x-agent-event-cursor") ?? assert.fail();
const clock = new WatchedClock();
scenario(
  "streamEvents",
  200,
  { title: "a subscriber filtered to one type gets bookmarks and does not expire", clock },
  async (service) => {
    await using feed = await open(service, "?types=message.created");
    const begun = (await stored(service)).at(-1)?.id ?? cursorOf(await service.request("/v1/sessions"));
    await createSession(service, "s");
    await stored(service);
    const isBookmark = (frame: FeedFrame) => frame.object === "feed.bookmark";
    const frames = await clock.tickUntil(feed.until(isBookmark), 60_000);
    assert.equal(frames.length, 1);
    const [bookmark] = frames;
    assert.ok(bookmark?.object === "feed.bookmark");
    await sweep(service.service.store, { retention: { changesMs: Number.MAX_SAFE_INTEGER, maxChanges: 0 } });
    const resumed = (after: string) =>
      service.request(`/v1/events?types=message.*&after=${after}`, { headers: json });
    await assertError(await resumed(begun), 410, "events_expired");
    assert.deepEqual((await (await resumed(bookmark.cursor)).json()).data, []);
  },
);

test("two processes on one database see the same events in the same order", async () => {
  await using first = await startTestService();
  const second = await startTestService({ like: first });
  try {
    await using here = await open(first);
    await using there = await open(second);
    await Promise.all([
      ...Array.from({ length: 5 }, (_, index) => startRun(first, { input: `a${index}` })),
      ...Array.from({ length: 5 }, (_, index) => startRun(second, { input: `b${index}` })),
    ]);
    const ends = () => {
      let left = 10;
      return (frame: FeedFrame) => isEnd(frame) && --left === 0;
    };
    const [mine, theirs] = await Promise.all([here.until(ends()), there.until(ends())]);
    assert.deepEqual(theirs, mine);
  } finally {
    await second.service.stop({ graceMs: 0 });
  }
});
