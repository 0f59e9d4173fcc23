/** Runs that one process works on and another is asked about, and leave that is waited for across restarts. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import {
  AgentApiError,
  createAgentClient,
  streamRunEvents,
  type Run,
  type RunEvent,
} from "../../src/client/http.ts";
import { createGatewayPlace, type GatewayPlace, type GatewayProcess } from "../harness/gateway.ts";

const ASKS = "run: rm -rf old; echo once >> marks.txt";

/** What a client does with the runs of a place, through one of its processes. */
class Runs {
  readonly #place: GatewayPlace;
  readonly #apiKey: string;
  /** The process that is asked. */
  at: GatewayProcess;

  constructor(place: GatewayPlace, at: GatewayProcess, apiKey: string) {
    this.#place = place;
    this.#apiKey = apiKey;
    this.at = at;
  }

  get client() {
    return createAgentClient({ baseUrl: this.at.url, apiKey: this.#apiKey });
  }

  async start(input: string): Promise<string> {
    const { data } = await this.client.createRun({ body: { input } });
    return data!.run_id;
  }

  /** The run once it is over or waits for an answer. */
  async settled(run_id: string): Promise<Run> {
    const { data } = await this.client.getRun({ path: { run_id }, query: { wait: 20 } });
    return data!;
  }

  async answer(run_id: string, choice: "once" | "deny", reason?: string): Promise<number> {
    const body = { choice, ...(reason === undefined ? {} : { reason }) };
    try {
      const { response } = await this.client.resolveRunApproval({ path: { run_id }, body });
      return response.status;
    } catch (error) {
      if (error instanceof AgentApiError) return error.status;
      throw error;
    }
  }

  async *follow(runId: string): AsyncGenerator<RunEvent> {
    yield* streamRunEvents({ baseUrl: this.at.url, apiKey: this.#apiKey }, runId);
  }

  async events(runId: string): Promise<readonly RunEvent[]> {
    const all: RunEvent[] = [];
    for await (const event of this.follow(runId)) all.push(event);
    return all;
  }

  async until(runId: string, name: RunEvent["event"]): Promise<void> {
    for await (const { event } of this.follow(runId)) if (event === name) return;
    assert.fail(`the run ended without ${name}`);
  }

  marks(): Promise<string> {
    return readFile(join(this.#place.home, "workspace", "marks.txt"), "utf8").catch(() => "");
  }
}

async function begin(place: GatewayPlace): Promise<Runs> {
  const at = await place.start();
  return new Runs(place, at, await place.key());
}

const count = (events: readonly RunEvent[], name: RunEvent["event"]) =>
  events.filter(({ event }) => event === name).length;

test("a run is steered by way of another process: the text reaches the model or comes back, once", async () => {
  await using place = await createGatewayPlace();
  const runs = await begin(place);
  const first = runs.at;
  const second = await place.start();
  const runId = await runs.start("run: until [ -e go ]; do sleep 0.1; done; echo slept");
  runs.at = second;
  await runs.until(runId, "tool.started");
  const { data } = await runs.client.steerRun({
    path: { run_id: runId },
    body: { input: "and mind the gap" },
  });
  assert.equal(data?.accepted, true);
  await writeFile(join(place.home, "workspace", "go"), "");
  const events = await runs.events(runId);
  assert.equal(events.at(-1)?.event, "run.completed");
  assert.equal(count(events, "run.steer_accepted"), 1);
  const last = events.at(-1) as { pending_steer?: readonly string[] };
  const given = events.flatMap((event) => (event.event === "run.steered" ? [event.text] : []));
  assert.deepEqual([...given, ...(last.pending_steer ?? [])], ["and mind the gap"]);
  await Promise.all([first.kill("SIGTERM"), second.kill("SIGTERM")]);
});

test("a run that waits for approval is stopped by way of another process, and its question is closed", async () => {
  await using place = await createGatewayPlace();
  const runs = await begin(place);
  const first = runs.at;
  const runId = await runs.start(ASKS);
  await runs.settled(runId);
  runs.at = await place.start();
  const { data } = await runs.client.stopRun({ path: { run_id: runId } });
  assert.ok(data?.status === "stopping" || data?.status === "cancelled", data?.status);
  const events = await runs.events(runId);
  assert.equal(events.at(-1)?.event, "run.cancelled");
  assert.equal(count(events, "approval.expired"), 1);
  assert.equal(await runs.answer(runId, "once"), 409);
  assert.equal(await runs.marks(), "");
  await Promise.all([first.kill("SIGTERM"), runs.at.kill("SIGTERM")]);
});

test("leave is waited for across two restarts, and the tool runs once", async () => {
  await using place = await createGatewayPlace();
  const runs = await begin(place);
  const runId = await runs.start(ASKS);
  const asked = (await runs.settled(runId)).approval?.request_id;
  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    await runs.at.kill(signal);
    runs.at = await place.start();
    const waiting = await runs.settled(runId);
    assert.equal(waiting.status, "waiting_for_approval");
    assert.equal(waiting.approval?.request_id, asked);
  }
  assert.equal(await runs.answer(runId, "once"), 200);
  const events = await runs.events(runId);
  assert.equal(events.at(-1)?.event, "run.completed");
  assert.deepEqual([count(events, "approval.request"), count(events, "tool.completed")], [1, 1]);
  assert.equal(await runs.marks(), "once\n");
  await runs.at.kill("SIGTERM");
});

test("an approval that is denied after a restart reaches the model with the reason; nothing ran", async () => {
  await using place = await createGatewayPlace();
  const runs = await begin(place);
  const runId = await runs.start(ASKS);
  await runs.settled(runId);
  await runs.at.kill("SIGKILL");
  runs.at = await place.start();
  assert.equal(await runs.answer(runId, "deny", "keep it"), 200);
  const run = await runs.settled(runId);
  assert.equal(run.status, "completed");
  assert.match(run.output ?? "", /Denied by the user: keep it/);
  assert.equal(await runs.marks(), "");
  await runs.at.kill("SIGTERM");
});

test("a question keeps its expiry across a restart: without an answer the call is refused", async () => {
  await using place = await createGatewayPlace();
  await writeFile(join(place.home, "config.yaml"), JSON.stringify({ approvals: { timeout_seconds: 6 } }));
  const runs = await begin(place);
  const runId = await runs.start(ASKS);
  const asked = await runs.settled(runId);
  assert.ok(asked.approval?.expires_at, JSON.stringify(asked));
  await runs.at.kill("SIGKILL");
  runs.at = await place.start();
  const events = await runs.events(runId);
  const expired = events.find(({ event }) => event === "approval.expired");
  assert.ok(expired, "it never expired");
  // A timer may fire a moment before its time by the wall clock, which it does not count by.
  const earlySeconds = asked.approval.expires_at - expired.timestamp;
  assert.ok(earlySeconds < 0.1, `it expired ${earlySeconds} s early`);
  assert.match((await runs.settled(runId)).output ?? "", /no answer came in time/);
  assert.equal(await runs.answer(runId, "once"), 409);
  assert.equal(await runs.marks(), "");
  await runs.at.kill("SIGTERM");
});

test("a process that is killed leaves its waiting runs to one that is at work already", async () => {
  await using place = await createGatewayPlace();
  const runs = await begin(place);
  const runId = await runs.start(ASKS);
  await runs.settled(runId);
  const first = runs.at;
  runs.at = await place.start();
  await first.kill("SIGKILL");
  // The answer may come before the other has taken the run up, or after.
  assert.equal(await runs.answer(runId, "once"), 200);
  const events = await runs.events(runId);
  assert.equal(events.at(-1)?.event, "run.completed");
  assert.equal(await runs.marks(), "once\n");
  await runs.at.kill("SIGTERM");
});
