/** What stands for the events of a run that are no longer kept. */
import assert from "node:assert/strict";
import type { RunEvent } from "../../../generated/http/client/types.gen.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { sweep } from "../../../src/store/retention.ts";
import { testTool } from "../../harness/agent.ts";
import { allEvents, createGate, fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { scenario } from "../../harness/scenario.ts";
import type { TestService } from "../../harness/service.ts";
import { readFrames, type Frame } from "../../harness/sse.ts";

const EVENTS = "streamRunEvents";

/** The frames of the events after a cursor. */
async function eventsAfter(service: TestService, id: string, after: number): Promise<Frame[]> {
  return frames(await service.request(`/v1/runs/${id}/events?after=${after}`));
}

async function frames(response: Response): Promise<Frame[]> {
  const all = [];
  for await (const frame of readFrames(response)) if (frame.data !== undefined) all.push(frame);
  return all;
}

async function forget(service: TestService, id: string, upTo: number): Promise<void> {
  await service.service.store.write(async (tx) => {
    await tx.db.deleteFrom("events").where("run_id", "=", id).where("run_seq", "<=", upTo).execute();
  });
}

const twoSteps: Script = ({ step }) =>
  step === 0
    ? { text: "I look.", calls: [{ tool: "terminal", input: { command: "ls" } }] }
    : { text: "I saw.", chunkSize: 2, delayMs: 5 };

scenario(
  EVENTS,
  200,
  {
    title: "when the oldest events have expired, run.snapshot comes first and then the kept events",
    script: twoSteps,
    tools: [testTool(async () => "a b")],
  },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    const whole = await allEvents(service, id);
    const first = whole.findIndex(({ event }) => event === "usage.updated") + 2;
    await forget(service, id, first - 1);
    const rest = whole.slice(first - 1);
    for (const after of [0, 1, first - 2]) {
      const got = await eventsAfter(service, id, after);
      const [head, ...tail] = got.map(({ data }) => JSON.parse(data!) as RunEvent);
      assert.ok(head?.event === "run.snapshot");
      assert.deepEqual([got[0]?.event, got[0]?.id], ["run.snapshot", String(first - 1)]);
      assert.deepEqual([head.seq, head.first_seq, head.truncated], [first - 1, first, true]);
      assert.equal(head.text, "I look.", "what was said before");
      assert.deepEqual([head.run.id, head.run.status, head.run.output], [id, "completed", "I saw."]);
      assert.deepEqual(tail, rest);
    }
    // The snapshot's own number resumes like any.
    const resumed = await eventsAfter(service, id, first - 1);
    assert.deepEqual(
      resumed.map(({ data }) => JSON.parse(data!)),
      rest,
    );
  },
);

const growing = createGate();
scenario(
  EVENTS,
  200,
  {
    title: "an open run whose oldest events expired is followed live from a snapshot",
    script: (state) =>
      state.step < 3
        ? { text: `step ${state.step}`, calls: [{ tool: "terminal", input: { command: "ls" } }] }
        : growing.script(state),
    tools: [testTool(async () => "a b")],
  },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    await runEvent(service, id, "message.delta");
    for (;;) {
      // Until the last step has begun.
      const { last_event: last, last_seq: seq } = await fetchRun(service, id);
      if (last === "message.delta" && seq > 20) break;
    }
    const { store } = service.service;
    assert.ok((await sweep(store, { retention: { maxRunEvents: 5 } })).events > 5);
    const response = await service.request(`/v1/runs/${id}/events`);
    const following = frames(response);
    growing.open();
    const [head, ...tail] = (await following).map(({ data }) => JSON.parse(data!) as RunEvent);
    assert.ok(head?.event === "run.snapshot");
    assert.equal(head.run.status, "running");
    assert.match(head.text, /^step 0\n\nstep 1/);
    assert.deepEqual(
      tail.map(({ seq }) => seq),
      tail.map((_, index) => head.first_seq + index),
    );
    assert.equal(tail.at(-1)?.event, "run.completed");
  },
);

const steered = createGate();
scenario(
  EVENTS,
  200,
  {
    title: "steering that is kept for recovery leaves no gap: the snapshot covers it",
    script: steered.script,
  },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    await runEvent(service, id, "message.delta");
    assert.equal((await post(service, `/v1/runs/${id}/steer`, { input: "mind this" })).status, 200);
    const { last_seq: last } = await fetchRun(service, id);
    steered.open();
    const whole = await allEvents(service, id);
    await service.service.store.write(async (tx) => {
      const old = tx.db.deleteFrom("events").where("run_id", "=", id).where("run_seq", "<=", last);
      await old.where("type", "!=", "run.steer_accepted").execute();
    });
    for (const after of [0, last - 1]) {
      const got = await eventsAfter(service, id, after);
      assert.deepEqual(
        got.map((frame) => frame.id),
        [String(last), ...whole.slice(last).map(({ seq }) => String(seq))],
      );
      assert.equal(got[0]?.event, "run.snapshot");
    }
  },
);
