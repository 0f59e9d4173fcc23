/** An agent whose database fails when the test says so, and what must hold afterwards. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { AgentSettings } from "../../../src/agent/deps.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import type { JournalEvent } from "../../../src/store/journal/journal.ts";
import { isUnavailable } from "../../../src/store/tx/group.ts";
import { createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";
import { CompressedClock } from "../../harness/compressed-clock.ts";
import { failWrites, type FaultyWrites } from "../../harness/failing-store.ts";

const FINAL = /^run\.(completed|failed|cancelled|interrupted)$/;

/** Uses one tool that passes and one that asks, and answers. */
const script: Script = ({ step, user }) => {
  if (!user.startsWith("work")) return { text: `did ${user}` };
  if (step === 0)
    return { text: "looking", calls: [{ tool: "terminal", input: { command: `echo ${user}` } }] };
  if (step === 1) return { calls: [{ tool: "terminal", input: { command: `rm -rf ${user}` } }] };
  return { text: ["one ", "two ", "three"] };
};

export class Place implements AsyncDisposable {
  readonly agent: TestAgent;
  readonly writes: FaultyWrites;
  /** Commands that ran. */
  readonly marks: readonly string[];

  private constructor(agent: TestAgent, writes: FaultyWrites, marks: readonly string[]) {
    this.agent = agent;
    this.writes = writes;
    this.marks = marks;
  }

  static async create(
    t: TestContext,
    own: {
      readonly script?: Script;
      readonly database?: string;
      readonly settings?: Partial<AgentSettings>;
    } = {},
  ): Promise<Place> {
    const marks: string[] = [];
    const agent = await createTestAgent({
      // A lease of thirty seconds runs out in 1.5 s: longer than a busy machine may pause.
      clock: new CompressedClock({ originMs: Date.now(), epochMs: Date.now(), factor: 20 }),
      script: own.script ?? script,
      tools: [testTool(async ({ command }) => (marks.push(command), "ok"))],
      settings: { maxConcurrentRuns: 2, ...own.settings },
      ...(own.database === undefined ? {} : { database: own.database }),
    });
    const place = new Place(agent, failWrites(t, agent.store), marks);
    agent.core.start();
    await agent.core.recovered;
    return place;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.writes.begin(() => undefined);
    return this.agent[Symbol.asyncDispose]();
  }

  /** As a client does that gets a 503. */
  async submit(text: string, id: string): Promise<string> {
    for (let tries = 0; ; tries++) {
      try {
        return (await this.agent.submit(text, { id, answerable: true })).runId;
      } catch (error) {
        if (!isUnavailable(error) || tries === 3) throw error;
      }
    }
  }

  /** Allows whatever a run asks until it is over. */
  async allow(runId: string): Promise<void> {
    const { questions } = this.agent.deps;
    for await (const { type, data } of this.agent.follow(runId)) {
      if (type !== "approval.request") continue;
      const answer = () =>
        questions.answer(String(data["request_id"]), { owner: "tester", choice: "once", by: "t" });
      await answer()
        .catch(answer)
        .catch(() => {});
    }
  }

  /** One run with a prompt behind it, then another prompt. */
  async live(session: string): Promise<void> {
    const first = await this.submit(`work-${session}`, session);
    const behind = await this.submit("behind", session);
    await this.allow(first);
    await this.agent.events(behind);
    await this.agent.events(await this.submit("after", session));
  }

  /** The end of a run is told before its slot is free. */
  async idle(): Promise<void> {
    while (this.agent.runs.running > 0) await new Promise((resolve) => setImmediate(resolve));
  }

  async assertWhole(session: string): Promise<void> {
    const { agent, marks } = this;
    this.writes.begin(() => undefined);
    await this.idle();
    const { store } = agent;
    const runs = await store.read.selectFrom("runs").select("id").where("session_id", "=", session).execute();
    for (const { id } of runs) await assertEnded(agent, id);
    assertOrdered(await store.journal.read({ sessionId: session }), "seq");
    assert.equal(new Set(marks).size, marks.length, `run twice: ${marks.join()}`);
    assert.deepEqual(await agent.deps.questions.open({ sessionId: session }), [], "a question stayed open");
    const { lease_owner: leaseOwner, queued } = await agent.session(session);
    assert.deepEqual([leaseOwner, queued], [null, 0]);
    await this.assertSlots();
  }

  /** The limit is two: neither slot is lost. */
  async assertSlots(): Promise<void> {
    const { agent } = this;
    await this.idle();
    assert.equal(agent.runs.waiting, 0);
    const both = await Promise.all([agent.submit("x"), agent.submit("y")]);
    assert.deepEqual(
      both.map(({ status }) => status),
      ["running", "running"],
    );
    for (const { runId } of both) await agent.events(runId);
    await this.idle();
  }
}

export async function assertEnded(agent: TestAgent, runId: string): Promise<void> {
  await agent.events(runId);
  const events = await agent.store.journal.read({ runId });
  assertOrdered(events, "runSeq");
  assert.equal(events.filter(({ type }) => FINAL.test(type)).length, 1, "one final event");
  assert.match(events.at(-1)!.type, FINAL, "nothing comes after the end");
  const run = await agent.run(runId);
  assert.equal(`run.${run.status}`, events.at(-1)!.type);
  assert.ok(run.ended_at !== null);
  assert.equal(run.last_seq, events.length);
}

function assertOrdered(events: readonly JournalEvent[], number: "seq" | "runSeq"): void {
  assert.deepEqual(
    events.map((event) => event[number]),
    events.map((_, index) => index + 1),
  );
}

export const HOW = {
  refused: "is refused",
  undone: "is rolled back",
  unanswered: "is done and its answer lost",
};
