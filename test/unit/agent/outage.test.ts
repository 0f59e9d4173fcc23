/** The database fails while a run is at work: the run ends all the same, and its session goes on. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { isUnavailable } from "../../../src/store/failure.ts";
import type { JournalEvent } from "../../../src/store/journal.ts";
import { createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";
import { CompressedClock } from "../../harness/compressed-clock.ts";
import { failWrites, type Fault } from "../../harness/failing-store.ts";

const FINAL = /^run\.(completed|failed|cancelled|interrupted)$/;

/** A lease of thirty seconds runs out in a tenth of one. */
const fastClock = () =>
  new CompressedClock({ originMs: Date.now(), epochMs: Date.now(), factor: 300 });

/** Uses one tool that passes and one that asks, and answers. */
const script: Script = ({ step, user }) => {
  if (!user.startsWith("work")) return { text: `did ${user}` };
  if (step === 0) return { text: "looking", calls: [{ tool: "terminal", input: { command: `echo ${user}` } }] };
  if (step === 1) return { calls: [{ tool: "terminal", input: { command: `rm -rf ${user}` } }] };
  return { text: ["one ", "two ", "three"] };
};

interface Place {
  readonly agent: TestAgent;
  /** Commands that ran. */
  readonly marks: readonly string[];
}

async function createPlace(): Promise<Place> {
  const marks: string[] = [];
  const agent = await createTestAgent({
    clock: fastClock(),
    script,
    tools: [testTool(async ({ command }) => (marks.push(command), "ok"))],
    settings: { maxConcurrentRuns: 2 },
  });
  return { agent, marks };
}

/** As a client does that gets a 503. */
async function submitted(agent: TestAgent, text: string, id: string): Promise<string> {
  for (let tries = 0; ; tries++) {
    try {
      return (await agent.submit(text, { id, answerable: true })).runId;
    } catch (error) {
      if (!isUnavailable(error) || tries === 3) throw error;
    }
  }
}

/** Allows whatever is asked until the run is over. */
async function allowing(agent: TestAgent, runId: string): Promise<void> {
  for await (const { type, data } of agent.follow(runId)) {
    if (type !== "approval.request") continue;
    const askId = String(data["request_id"]);
    const answer = { owner: "tester", choice: "once" as const, by: "t" };
    await agent.parts.asks.answer(askId, answer).catch(() => agent.parts.asks.answer(askId, answer)).catch(() => {});
  }
}

/** One run with a prompt behind it, then another prompt. */
async function live({ agent }: Place): Promise<void> {
  const first = await submitted(agent, "work-1", "s1");
  const behind = await submitted(agent, "behind", "s1");
  await allowing(agent, first);
  await agent.events(behind);
  await agent.events(await submitted(agent, "after", "s1"));
}

/** The end of a run is told before its slot is free. */
async function idle({ turns }: TestAgent): Promise<void> {
  while (turns.running > 0) await new Promise((resolve) => setImmediate(resolve));
}

async function assertWhole({ agent, marks }: Place): Promise<void> {
  await idle(agent);
  const runs = await agent.store.read.selectFrom("runs").selectAll().orderBy("created_at").execute();
  for (const run of runs) {
    await agent.events(run.id);
    const events = await agent.store.journal.read({ runId: run.id });
    assertOrdered(events, "runSeq");
    assert.equal(events.filter(({ type }) => FINAL.test(type)).length, 1, "one final event");
    assert.match(events.at(-1)!.type, FINAL, "nothing comes after the end");
    const { status, ended_at: endedAt, last_seq: lastSeq } = await agent.run(run.id);
    assert.equal(`run.${status}`, events.at(-1)!.type);
    assert.ok(endedAt !== null);
    assert.equal(lastSeq, events.length);
  }
  assertOrdered(await agent.store.journal.read({ sessionId: "s1" }), "seq");
  assert.equal(new Set(marks).size, marks.length, `run twice: ${marks.join()}`);
  const open = await agent.store.read.selectFrom("asks").select("id").where("status", "=", "open").execute();
  assert.deepEqual(open, [], "a question stayed open");
  // The limit is two: neither slot is lost.
  const [one, two] = await Promise.all([agent.submit("x", { id: "s2" }), agent.submit("y", { id: "s3" })]);
  assert.deepEqual([one.status, two.status], ["running", "running"]);
  await Promise.all([agent.events(one.runId), agent.events(two.runId)]);
  await agent.turns.drain(1_000_000);
  const { lease_owner: leaseOwner, queued } = await agent.session("s1");
  assert.deepEqual([leaseOwner, queued], [null, 0]);
  assert.deepEqual([agent.turns.running, agent.turns.waiting], [0, 0]);
}

function assertOrdered(events: readonly JournalEvent[], number: "seq" | "runSeq"): void {
  assert.deepEqual(
    events.map((event) => event[number]),
    events.map((_, index) => index + 1),
  );
}

async function writesOfALife(t: TestContext): Promise<number> {
  const place = await createPlace();
  await using agent = place.agent;
  const writes = failWrites(t, agent.store);
  await live(place);
  assert.deepEqual(place.marks, ["echo work-1", "rm -rf work-1"]);
  return writes.count;
}

for (const fault of ["refused", "unanswered"] as const satisfies readonly Fault[]) {
  const how = fault === "refused" ? "is refused" : "is done, and its answer is lost";
  test(`whichever write of a run's life ${how}, the run ends, nothing is done twice, and the queue goes on`, async (t) => {
    const count = await writesOfALife(t);
    assert.ok(count > 10, `${count} writes`);
    for (let chosen = 1; chosen <= count; chosen++) {
      await t.test(`write ${chosen}`, async (t2) => {
        const place = await createPlace();
        await using agent = place.agent;
        const writes = failWrites(t2 as TestContext, agent.store);
        writes.plan = (write) => (write === chosen ? fault : undefined);
        agent.core.start();
        await live(place);
        await assertWhole(place);
      });
    }
  });
}
