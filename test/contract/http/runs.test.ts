import assert from "node:assert/strict";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";
import { readFrames, type Frame } from "../../harness/sse.ts";

const hi = { messages: [{ role: "user", content: "hi" }] };
const OTHER = "another-key-0123456789";
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
const chatOnly = [{ key: KEY, name: "chat only", scopes: ["chat"] }];

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

scenario("getRun", 200, { title: "tells what became of a run" }, async (service) => {
  const id = await chatRun(service);
  const run = await (await service.request(`/v1/runs/${id}`)).json();
  assert.equal(run.status, "completed");
  assert.equal(run.output, "hello");
  assert.equal(run.input_preview, "hi");
  assert.equal(run.kind, "chat");
  assert.equal(run.last_event, "run.completed");
  assert.equal(run.usage.model_calls, 1);
  assert.ok(run.ended_at >= run.started_at && run.started_at >= run.created_at);
});

scenario("getRun", 401, { title: "asks for a key" }, async (service) => {
  await assertError(
    await service.request("/v1/runs/x", { headers: { authorization: "" } }),
    401,
    "missing_api_key",
  );
});

scenario("getRun", 403, { title: "asks for the scope read", keys: chatOnly }, async (service) => {
  await assertError(await service.request("/v1/runs/x"), 403, "insufficient_scope");
});

scenario(
  "getRun",
  404,
  { title: "an unknown run and another owner's look the same", keys: twoKeys },
  async (service) => {
    const id = await chatRun(service);
    await assertError(await service.request("/v1/runs/run_nope"), 404, "run_not_found");
    const foreign = await service.request(`/v1/runs/${id}`, {
      headers: { authorization: `Bearer ${OTHER}` },
    });
    await assertError(foreign, 404, "run_not_found");
  },
);

scenario("getRun", 503, { title: "says that the store is gone" }, async (service) => {
  await service.service.store.close();
  await assertError(await service.request("/v1/runs/x"), 503, "state_store_unavailable");
});

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

scenario("streamRunEvents", 400, { title: "a cursor that is no event of the run" }, async (service) => {
  const id = await chatRun(service);
  for (const after of ["999", "-1", "1.5", "abc", "99999999999999999999"]) {
    await assertError(await service.request(`/v1/runs/${id}/events?after=${after}`), 400, "invalid_cursor");
  }
});

scenario("streamRunEvents", 401, { title: "asks for a key" }, async (service) => {
  const headers = { authorization: "Bearer nope" };
  await assertError(await service.request("/v1/runs/x/events", { headers }), 401, "invalid_api_key");
});

scenario("streamRunEvents", 403, { title: "asks for the scope read", keys: chatOnly }, async (service) => {
  await assertError(await service.request("/v1/runs/x/events"), 403, "insufficient_scope");
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

scenario("streamRunEvents", 410, { title: "events that are no longer kept" }, async (service) => {
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
    title: "more followers of a run than the limit; a place is free again when one leaves",
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

scenario("streamRunEvents", 503, { title: "says that the store is gone" }, async (service) => {
  await service.service.store.close();
  await assertError(await service.request("/v1/runs/x/events"), 503, "state_store_unavailable");
});
