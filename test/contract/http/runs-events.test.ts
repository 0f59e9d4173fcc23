/** The events of a run: replay, cursors, cuts, snapshots, and who may follow. */
import assert from "node:assert/strict";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { testTool } from "../../harness/agent.ts";
import { createGate, fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";
import { readFrames, type Frame } from "../../harness/sse.ts";

const EVENTS = "streamRunEvents";
const hi = { messages: [{ role: "user", content: "hi" }] };
const OTHER = "another-key-0123456789";
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];

async function chatRun(service: TestService): Promise<string> {
  const response = await service.chat(hi);
  await response.text();
  return response.headers.get("x-agent-run-id")!;
}

async function frames(response: Response): Promise<Frame[]> {
  const all = [];
  for await (const frame of readFrames(response)) all.push(frame);
  return all;
}

const spoken: Script = () => ({ text: "one two three", chunkSize: 3 });

scenario(
  "streamRunEvents",
  200,
  { title: "replays a finished run, numbered from 1 without gaps, and ends", script: spoken },
  async (service) => {
    const id = await chatRun(service);
    const response = await service.request(`/v1/runs/${id}/events`);
    assert.equal(response.headers.get("x-agent-run-id"), id);
    const all = await frames(response);
    assert.equal(all[0]?.comment, "connected");
    assert.equal(all.at(-1)?.comment, "stream closed");
    const events = all.filter((frame) => frame.data !== undefined);
    const data = events.map((frame) => JSON.parse(frame.data!));
    assert.deepEqual(
      data.map((event) => event.seq),
      data.map((_, index) => index + 1),
    );
    assert.deepEqual(
      events.map((frame) => frame.id),
      data.map((event) => String(event.seq)),
    );
    assert.deepEqual(
      events.map((frame) => frame.event),
      data.map((event) => event.event),
    );
    assert.deepEqual(
      data.map((event) => event.event).filter((name) => name !== "message.delta"),
      ["run.queued", "run.started", "message.started", "message.completed", "run.completed"],
    );
    const text = data.map((event) => (event.event === "message.delta" ? event.delta : "")).join("");
    assert.equal(text, "one two three");
  },
);

scenario(
  "streamRunEvents",
  200,
  { title: "resumes after the cursor; Last-Event-ID wins over after" },
  async (service) => {
    const id = await chatRun(service);
    const whole = (await frames(await service.request(`/v1/runs/${id}/events`))).filter((frame) => frame.id);
    for (const cut of whole.keys()) {
      const headers = { "last-event-id": String(cut + 1) };
      const rest = await frames(await service.request(`/v1/runs/${id}/events?after=0`, { headers }));
      assert.deepEqual(
        rest.filter((frame) => frame.id),
        whole.slice(cut + 1),
      );
    }
    const byQuery = await frames(await service.request(`/v1/runs/${id}/events?after=2`));
    assert.deepEqual(
      byQuery.filter((frame) => frame.id),
      whole.slice(2),
    );
  },
);

async function* gated(gate: Promise<void>, signal: AbortSignal): AsyncGenerator<string> {
  yield "before ";
  await Promise.race([
    gate,
    new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true })),
  ]);
  yield "after";
}

const gate = Promise.withResolvers<void>();
scenario(
  "streamRunEvents",
  200,
  {
    title: "follows a run live, from several clients at once",
    script: ({ signal }) => ({ text: gated(gate.promise, signal) }),
  },
  async (service) => {
    const chat = service.chat(hi);
    const stream = await service.chat({ ...hi, stream: true });
    const id = stream.headers.get("x-agent-run-id")!;
    const followers = await Promise.all([1, 2, 3].map(() => service.request(`/v1/runs/${id}/events`)));
    const reading = followers.map(frames);
    gate.resolve();
    const all = await Promise.all(reading);
    assert.deepEqual(all[1], all[0]);
    assert.deepEqual(all[2], all[0]);
    assert.equal(all[0]?.at(-2)?.event, "run.completed");
    await stream.text();
    await (await chat).text();
  },
);

scenario("streamRunEvents", 400, { title: "a cursor that is not an event of the run" }, async (service) => {
  const id = await chatRun(service);
  for (const after of ["999", "-1", "1.5", "abc", "99999999999999999999"]) {
    const path = `/v1/runs/${id}/events`;
    const asked = await assertError(await service.request(`${path}?after=${after}`), 400, "invalid_cursor");
    assert.equal(asked.param, "after");
    const headers = { "last-event-id": after };
    const resumed = await assertError(await service.request(path, { headers }), 400, "invalid_cursor");
    assert.equal(resumed.param, "Last-Event-ID");
  }
});

scenario(
  "streamRunEvents",
  404,
  { title: "an unknown run and another owner's look the same", keys: twoKeys },
  async (service) => {
    const id = await chatRun(service);
    const headers = { authorization: `Bearer ${OTHER}` };
    await assertError(await service.request(`/v1/runs/${id}/events`, { headers }), 404, "run_not_found");
    await assertError(await service.request("/v1/runs/nope/events"), 404, "run_not_found");
  },
);

scenario("streamRunEvents", 410, { title: "events that have expired" }, async (service) => {
  const id = await chatRun(service);
  await service.service.store.write(async (tx) => {
    await tx.db.deleteFrom("events").where("run_id", "=", id).execute();
  });
  await assertError(await service.request(`/v1/runs/${id}/events`), 410, "run_events_expired");
});

scenario(
  "streamRunEvents",
  429,
  {
    title: "more followers of a run than the limit; a follower that leaves frees its place",
    config: { limits: { max_subscribers_per_run: 2 } },
    script: ({ signal }) => ({ text: gated(new Promise(() => {}), signal) }),
  },
  async (service) => {
    const chat = await service.chat({ ...hi, stream: true });
    const path = `/v1/runs/${chat.headers.get("x-agent-run-id")}/events`;
    const first = await service.request(path);
    const second = await service.request(path);
    const third = await service.request(path);
    assert.equal(third.headers.get("retry-after"), "5");
    await assertError(third, 429, "too_many_subscribers");
    await first.body?.cancel();
    for (;;) {
      const again = await service.request(path); // the server learns of a cut connection in its own time
      await again.body?.cancel();
      if (again.status === 200) break;
    }
    await second.body?.cancel();
    await chat.body?.cancel();
  },
);

/** Reasons, calls a tool that requires approval, and answers. */
const eventful: Script = ({ step, toolResults }) =>
  step === 0
    ? {
        reasoning: "let me see",
        text: "I will look.",
        chunkSize: 4,
        calls: [{ tool: "terminal", input: { command: "rm -rf build" } }],
      }
    : { text: `It said: ${toolResults.map(({ text }) => text).join()}`, chunkSize: 5, delayMs: 1 };
const loud = testTool(async (_input, context) => {
  for (const piece of ["one ", "two ", "three"]) context.progress(piece);
  return "done";
});

/** Reads one event at a time and cuts after each, to the end of the run. */
async function inPieces(service: TestService, id: string): Promise<Frame[]> {
  const all: Frame[] = [];
  for (;;) {
    const last = all.at(-1)?.id;
    const headers = last === undefined ? {} : { "last-event-id": last };
    const response = await service.request(`/v1/runs/${id}/events`, {
      headers: headers as Record<string, string>,
    });
    assert.equal(response.status, 200, await (response.status === 200 ? "" : response.text()));
    const next = await firstEvent(response);
    if (!next) return all;
    all.push(next);
  }
}

async function firstEvent(response: Response): Promise<Frame | undefined> {
  for await (const frame of readFrames(response)) if (frame.data !== undefined) return frame;
  return undefined;
}

const events = (all: readonly Frame[]) => all.filter(({ data }) => data !== undefined);

/** The rest after each event, by both cursors, is the rest of the whole. */
async function assertResumable(service: TestService, id: string, whole: readonly Frame[]): Promise<void> {
  for (const [index, { id: seq }] of whole.entries()) {
    const headers = { "last-event-id": seq! };
    const byHeader = events(await frames(await service.request(`/v1/runs/${id}/events`, { headers })));
    assert.deepEqual(byHeader, whole.slice(index + 1));
    const byQuery = events(await frames(await service.request(`/v1/runs/${id}/events?after=${seq}`)));
    assert.deepEqual(byQuery, whole.slice(index + 1));
  }
}

scenario(
  EVENTS,
  200,
  {
    title: "a stream cut at any event and resumed equals the uncut one, live, replayed and after a restart",
    script: eventful,
    tools: [loud],
  },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    const uncut = service.request(`/v1/runs/${id}/events`).then(frames);
    const pieces = inPieces(service, id);
    await runEvent(service, id, "approval.request");
    await post(service, `/v1/runs/${id}/approval`, { choice: "once" });
    const whole = events(await uncut);
    assert.deepEqual(await pieces, whole);
    const names = new Set(whole.map(({ event }) => event));
    for (const name of [
      "reasoning.delta",
      "tool.progress",
      "approval.responded",
      "usage.updated",
      "run.completed",
    ]) {
      assert.ok(names.has(name), name);
    }
    assert.deepEqual(
      whole.map((frame) => frame.id),
      whole.map((_, index) => String(index + 1)),
    );
    await assertResumable(service, id, whole);
    await using again = await service.restart();
    assert.deepEqual(events(await frames(await again.request(`/v1/runs/${id}/events`))), whole);
    assert.deepEqual(await inPieces(again, id), whole);
    await assertResumable(again, id, whole);
  },
);

scenario(EVENTS, 200, { title: "a cursor at the end of an ended run ends at once" }, async (service) => {
  const { run_id: id } = await startRun(service);
  const { last_seq: last } = await fetchRun(service, id, 30);
  await service.service.store.write(async (tx) => {
    await tx.db.deleteFrom("events").where("run_id", "=", id).execute();
  });
  const got = await frames(await service.request(`/v1/runs/${id}/events?after=${last}`));
  assert.deepEqual(
    got.map(({ comment }) => comment),
    ["connected", "stream closed"],
  );
});

scenario(
  EVENTS,
  429,
  {
    title: "a client that waits for the run counts as a follower",
    config: { limits: { max_subscribers_per_run: 1 } },
    script: createGate().script,
  },
  async (service) => {
    const { run_id: id } = await startRun(service);
    const leaving = new AbortController();
    const wait = () => service.request(`/v1/runs/${id}?wait=60`, { signal: leaving.signal });
    let waiting = wait();
    const path = `/v1/runs/${id}/events`;
    let refused: Response;
    do {
      refused = await service.request(path); // the other request may still be on its way
      if (refused.status !== 200) break;
      await refused.body?.cancel();
      // It came while this one had the only place.
      const isRefused = await Promise.race([waiting.then(({ status }) => status === 429), sleep(10, false)]);
      if (isRefused) waiting = wait();
    } while (refused.status === 200);
    await assertError(refused, 429, "too_many_subscribers");
    await assertError(await service.request(`/v1/runs/${id}?wait=1`), 429, "too_many_subscribers");
    assert.equal((await fetchRun(service, id)).status, "running", "who only looks is none");
    leaving.abort();
    await assert.rejects(waiting);
    for (;;) {
      const again = await service.request(path); // the server learns of a cut connection in its own time
      await again.body?.cancel();
      if (again.status === 200) break;
    }
  },
);

const LONG_BYTES = 4 << 20;
scenario(
  "streamRunEvents",
  200,
  {
    title: "clients that do not read hold no copy of a long answer each",
    script: () => ({ text: "A long answer. ".repeat(LONG_BYTES / 15), chunkSize: 16_384 }),
  },
  async (service) => {
    const id = await chatRun(service);
    const before = heapBytes();
    const readers = [];
    for (let count = 0; count < 20; count += 1) readers.push(await service.request(`/v1/runs/${id}/events`));
    const grown = heapBytes() - before;
    await Promise.all(readers.map((reader) => reader.body?.cancel()));
    assert.ok(grown < 5 * LONG_BYTES, `20 readers of ${LONG_BYTES} bytes hold ${grown}`);
  },
);

/** What is in use once all garbage is collected. */
function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  return process.memoryUsage().heapUsed;
}
