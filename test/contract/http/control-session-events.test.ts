/** The stream of the events of a session. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createSession, patch } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";

interface Frame {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string | undefined;
}

const eventsOf = (id: string, query = "") => `/v1/sessions/${id}/events${query}`;

/** Reads `count` frames, then leaves. */
async function read(service: TestService, path: string, count: number, headers: Record<string, string> = {}) {
  const leaving = new AbortController();
  const response = await service.request(path, { headers, signal: leaving.signal });
  assert.equal(response.status, 200, response.status === 200 ? "" : await response.text());
  const found: Frame[] = [];
  for await (const { id, event, data } of readFrames(response)) {
    if (data === undefined) continue;
    found.push({ id, event, data });
    if (found.length === count) break;
  }
  leaving.abort();
  return found;
}

/** Opens a stream, whose frames come while other things happen. */
async function collect(service: TestService, path: string) {
  const leaving = new AbortController();
  const response = await service.request(path, { signal: leaving.signal });
  assert.equal(response.status, 200);
  const frames = readFrames(response);
  return {
    /** Resolves to the first `count` frames, then leaves. */
    async until(count: number): Promise<Frame[]> {
      const found: Frame[] = [];
      while (found.length < count) {
        const { value } = await frames.next();
        if (value?.data !== undefined) found.push({ id: value.id, event: value.event, data: value.data });
      }
      leaving.abort();
      return found;
    },
  };
}

const lastSeq = async (service: TestService, id: string) =>
  (await (await service.request(`/v1/sessions/${id}`)).json()).last_seq as number;

scenario(
  "streamSessionEvents",
  200,
  { title: "the session stream resumed by Last-Event-ID equals the live one across a restart" },
  async (service) => {
    assert.equal((await post(service, "/v1/sessions", { id: "s" })).status, 201);
    const first = await lastSeq(service, "s");
    const live = collect(service, eventsOf("s", "?after=0"));
    await createSession(service, "s");
    await patch(service, "/v1/sessions/s", { title: "t" });
    const count = await lastSeq(service, "s");
    assert.ok(count > first + 4, "most of it came while the stream was open");
    const whole = await (await live).until(count);
    assert.deepEqual(
      whole.map(({ id }) => Number(id)),
      Array.from({ length: count }, (_, index) => index + 1),
    );
    assert.ok(whole.some(({ event }) => event === "message.completed"));
    assert.equal(whole.at(-1)?.event, "session.updated");
    await using later = await service.restart({});
    for (const [index, { id = "" }] of whole.slice(0, -1).entries()) {
      const rest = await read(later, eventsOf("s"), count - index - 1, { "last-event-id": id });
      assert.deepEqual(rest, whole.slice(index + 1));
    }
    service.seen.add("streamSessionEvents 200");
  },
);

test("without a cursor the stream begins now, and follows every run of the session", async () => {
  await using service = await startTestService({});
  await createSession(service, "s");
  const before = await lastSeq(service, "s");
  const live = read(service, eventsOf("s", "?types=session.*,run.completed"), 2);
  // The stream is open once its subscriber counts.
  await patch(service, "/v1/sessions/s", { title: "t" });
  let last = 0;
  const body = { messages: [{ role: "user", content: "again" }] };
  await (await service.chat(body, { headers: { "x-agent-session-id": "s" } })).text();
  const frames = await live;
  for (const { id } of frames) {
    assert.ok(Number(id) > Math.max(before, last));
    last = Number(id);
  }
  assert.deepEqual(new Set(frames.map(({ event }) => event)).size, frames.length);
});

scenario(
  "streamSessionEvents",
  400,
  { title: "a wrong or future cursor, and an unknown event" },
  async (service) => {
    await createSession(service, "s");
    for (const after of ["x", "-1", "99999"]) {
      const refused = await service.request(eventsOf("s", `?after=${after}`));
      assert.equal((await assertError(refused, 400, "invalid_cursor")).param, "after");
    }
    const header = await service.request(eventsOf("s"), { headers: { "last-event-id": "x" } });
    assert.equal((await assertError(header, 400, "invalid_cursor")).param, "Last-Event-ID");
    const types = await service.request(eventsOf("s", "?types=nothing.*"));
    assert.equal((await assertError(types, 400, "unsupported_parameter")).param, "types");
  },
);

scenario("streamSessionEvents", 404, { title: "a session that does not exist" }, async (service) => {
  await assertError(await service.request(eventsOf("none")), 404, "session_not_found");
});

scenario(
  "streamSessionEvents",
  410,
  { title: "events that are no longer kept: events_expired" },
  async (service) => {
    await createSession(service, "s");
    const last = await lastSeq(service, "s");
    await service.service.store.write((tx) => tx.db.deleteFrom("events").where("seq", "<=", 2).execute());
    await assertError(await service.request(eventsOf("s", "?after=0")), 410, "events_expired");
    await assertError(await service.request(eventsOf("s", "?after=1")), 410, "events_expired");
    assert.equal((await read(service, eventsOf("s", "?after=2"), last - 2)).length, last - 2);
  },
);

scenario(
  "streamSessionEvents",
  429,
  {
    title: "more clients than limits.max_subscribers_per_run",
    config: { limits: { max_subscribers_per_run: 1 } },
  },
  async (service) => {
    await createSession(service, "s");
    const leaving = new AbortController();
    const open = await service.request(eventsOf("s"), { signal: leaving.signal });
    assert.equal(open.status, 200);
    await assertError(await service.request(eventsOf("s")), 429, "too_many_subscribers");
    leaving.abort();
  },
);
