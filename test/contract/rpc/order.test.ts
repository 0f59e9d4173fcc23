/** The order rules of a turn, for whatever the model says and calls and whatever people do meanwhile. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import process from "node:process";
import fc from "fast-check";
import type { Script, ScriptStep } from "../../../src/agent/engines/scripted.ts";
import type { Tool } from "../../../src/agent/tool/tool.ts";
import { testTool } from "../../harness/agent.ts";
import { connectSocket, type Json, type RpcHost } from "../../harness/rpc.ts";
import { oncePerFile } from "../../harness/guard.ts";
import { startTestService, type TestService } from "../../harness/service.ts";
import { assertSameStream, assertTurnOrder } from "../../harness/turn-order.ts";

/** How one call of the model goes. */
type Call = "plain" | "progress" | "fails" | "approval" | "clarify" | "sudo" | "secret" | "child" | "unknown";

interface Step {
  readonly reasoning?: string;
  readonly text?: readonly string[];
  readonly calls?: readonly Call[];
  readonly isFailing?: boolean;
}

/** What a host does when it has heard so many events. */
interface Deed {
  readonly at: number;
  readonly what: "interrupt" | "steer" | "queue" | "background" | "title";
}

interface Program {
  readonly turns: readonly (readonly Step[])[];
  readonly deeds: readonly Deed[];
  /** What people answer, one after the other. */
  readonly answers: readonly ("yes" | "no" | "interrupt")[];
  /** Whether the second host gets its questions as requests, and answers them too. */
  readonly questions: boolean;
}

const text = fc.array(fc.string({ minLength: 1, maxLength: 6, unit: "grapheme" }), { maxLength: 5 });
const calls = fc.array(
  fc.constantFrom<Call>(
    "plain",
    "progress",
    "fails",
    "approval",
    "clarify",
    "sudo",
    "secret",
    "child",
    "unknown",
  ),
  { maxLength: 3 },
);
const step: fc.Arbitrary<Step> = fc.record(
  { reasoning: fc.string({ minLength: 1, maxLength: 9 }), text, calls, isFailing: fc.constant(true) },
  { requiredKeys: [] },
);
const program: fc.Arbitrary<Program> = fc.record({
  turns: fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 3 }),
  deeds: fc.array(
    fc.record({
      at: fc.integer({ min: 1, max: 25 }),
      what: fc.constantFrom("interrupt", "steer", "queue", "background", "title"),
    }),
    { maxLength: 3 },
  ),
  answers: fc.array(fc.constantFrom("yes", "yes", "no", "interrupt"), { minLength: 1, maxLength: 4 }),
  questions: fc.boolean(),
});

let playing: Program | undefined;
const script: Script = ({ user, step: at }) => {
  if (user.startsWith("child")) {
    const wanted: readonly Call[] = at > 0 ? [] : user.startsWith("child b") ? ["approval"] : ["plain"];
    return { reasoning: "hm", text: ["working"], ...callsOf(wanted) };
  }
  const turn = Number(/^turn (\d+)/.exec(user)?.[1] ?? 0);
  const step = playing?.turns[turn]?.[at];
  if (!step) return { text: "the end" };
  const { isFailing, calls: wanted = [], ...said } = step;
  const error = { code: "provider_error" as const, message: "The provider is away." };
  return { ...said, ...callsOf(wanted), ...(isFailing && wanted.length === 0 ? { error } : {}) };
};

function callsOf(wanted: readonly Call[]): Pick<ScriptStep, "calls"> {
  return {
    calls: wanted.map((how) => {
      if (how === "unknown") return { tool: "nowhere", input: {} };
      if (how === "child")
        return { tool: "delegate_task", input: { tasks: [{ goal: "child a" }, { goal: "child b" }] } };
      return { tool: "probe", input: { command: how === "approval" ? "rm -rf /x" : how } };
    }),
  };
}

const probe: Tool = testTool(async ({ command }, { progress, questions }) => {
  switch (command) {
    case "progress":
      for (const part of ["one\n", "two\n", "three\n"]) progress(part);
      return "moved";
    case "fails":
      throw new Error("inside");
    case "clarify":
      return JSON.stringify(
        await questions.clarify([{ id: "q1", question: "Which?", choices: ["a", "b"], multi_select: false }]),
      );
    case "sudo":
      return (await questions.sudo("sudo true")) === undefined ? "refused" : "taken";
    case "secret":
      return questions.secret({ prompt: "A value", envVar: "ORDER_TEST" });
    default:
      return "plain";
  }
}, "probe");

/** Who plays a program to its end, over two hosts of one session. */
class Player {
  readonly #program: Program;
  readonly #host: RpcHost;
  readonly #other: RpcHost;
  readonly #id: string;
  #answer = 0;

  constructor(from: { program: Program; host: RpcHost; other: RpcHost; id: string }) {
    this.#program = from.program;
    this.#host = from.host;
    this.#other = from.other;
    this.#id = from.id;
  }

  async play(): Promise<void> {
    const { turns, deeds } = this.#program;
    const left = [...deeds].sort((a, b) => a.at - b.at);
    const done: Promise<unknown>[] = turns.map((_, at) => this.#submit(`turn ${at}`));
    const heard = { one: 0, other: 0, events: 0 };
    await Promise.all(done.splice(0));
    while (!(await this.#isOver(heard))) {
      for (; heard.one < this.#host.frames.length; heard.one++) {
        const frame = this.#host.frames[heard.one];
        if (frame.method === "event" && frame.params.session_id === this.#id) heard.events += 1;
        if (frame.method === "event") done.push(...this.#react(frame.params));
        while (left[0] && left[0].at <= heard.events) done.push(this.#do(left.shift()!.what));
      }
      for (; heard.other < this.#other.frames.length; heard.other++) {
        this.#answerRequest(this.#other.frames[heard.other]);
      }
      await Promise.all(done.splice(0));
    }
  }

  /** Over when nothing is at work, nothing waits, and both hosts have heard all there is. */
  async #isOver(heard: { one: number; events: number }): Promise<boolean> {
    const { state } = await this.#host.result("session.status", { session_id: this.#id });
    if (state.running || state.queue_length > 0) {
      // Something has yet to come: the end at least.
      await this.#host.frame(({ method }) => method !== undefined, heard.one);
      return false;
    }
    const since = { session_id: this.#id, last_seen: Number.MAX_SAFE_INTEGER };
    const { latest_seq: last } = await this.#host.result("session.events.since", since);
    await Promise.all([this.#host, this.#other].map((host) => heardAll(host, this.#id, last)));
    return this.#host.events(this.#id).length === heard.events;
  }

  #submit(words: string): Promise<Json> {
    return this.#host.result("prompt.submit", { session_id: this.#id, text: words });
  }

  #do(what: Deed["what"]): Promise<Json> {
    const about = { session_id: this.#id };
    switch (what) {
      case "interrupt":
        return this.#host.result("session.interrupt", about);
      case "steer":
        return this.#host.result("session.steer", { ...about, text: "mind the gap" });
      case "queue":
        return this.#submit("one more");
      case "background":
        return this.#host.result("prompt.background", { ...about, text: "child of its own" });
      case "title":
        return this.#host.call("session.title", { ...about, title: `Title ${this.#host.frames.length}` });
    }
  }

  /** Answers as a host does that knows the event style only. */
  #react({ type, payload }: Json): Promise<Json>[] {
    if (!/^(approval|clarify|sudo|secret)\.request$/.test(type)) return [];
    const { answers } = this.#program;
    const answer = answers[this.#answer++ % answers.length];
    if (answer === "interrupt") return [this.#do("interrupt")];
    const about = { request_id: payload.request_id, session_id: this.#id };
    const yes = answer === "yes";
    switch (type) {
      case "approval.request":
        return [this.#host.call("approval.respond", { ...about, choice: yes ? "once" : "deny" })];
      case "clarify.request":
        return [this.#host.call("clarify.respond", { ...about, answer: yes ? "a" : "" })];
      case "sudo.request":
        return [this.#host.call("sudo.respond", { ...about, password: yes ? "pw-order-test" : "" })];
      default:
        return [this.#host.call("secret.respond", { ...about, value: yes ? "value-order-test" : "" })];
    }
  }

  #answerRequest({ id, method }: Json): void {
    if (id === undefined || method === undefined) return;
    const results: Json = {
      approval: { choice: "deny" },
      clarify: { answer: "b" },
      sudo: { value: "" },
      secret: { value: "" },
    };
    this.#other.send({ jsonrpc: "2.0", id, result: results[method] });
  }
}

async function heardAll(host: RpcHost, id: string, last: number): Promise<void> {
  const isMine = ({ params }: Json) => params?.session_id === id;
  await host.frame((frame) => isMine(frame) && frame.params.seq >= last);
  const end = host.frames.findLastIndex(({ params }) => params?.type === "message.complete");
  if (end >= 0) await host.frame((frame) => isMine(frame) && frame.params.type === "session.info", end);
}

let service: TestService;
const openService = oncePerFile(() => startTestService({ script, tools: [probe] }));
before(async () => void (service = await openService()));

test("the order rules hold for each of two hosts, for any script and any input", async () => {
  await fc.assert(
    fc.asyncProperty(program, async (drawn) => {
      playing = drawn;
      await using host = await connectSocket(service);
      await using other = await connectSocket(service);
      if (drawn.questions) await other.result("client.capabilities", { server_requests: true });
      const { session_id: id } = await host.result("session.create");
      await other.result("session.activate", { session_id: id });
      await new Player({ program: drawn, host, other, id }).play();
      for (const each of [host, other]) {
        const open = assertTurnOrder(each.frames, id, 0);
        assert.deepEqual([open.turn, open.questions.size], [undefined, 0]);
      }
      const starts = host.events(id).filter(({ type }) => type === "message.start");
      const ends = host.events(id).filter(({ type }) => type === "message.complete");
      assert.deepEqual(
        ends.map(({ turn_id: turn }) => turn),
        starts.map(({ turn_id: turn }) => turn),
      );
      assertSameStream(await replayed(other, id), host.events(id));
    }),
    { numRuns: Number(process.env["AGENTD_ORDER_RUNS"] ?? 25) },
  );
});

/** The whole stream, as pages of `session.events.since`. */
async function replayed(host: RpcHost, id: string): Promise<readonly Json[]> {
  const events: Json[] = [];
  for (;;) {
    const last = events.findLast(({ seq }) => seq !== undefined)?.seq ?? 0;
    const page = await host.result("session.events.since", { session_id: id, last_seen: last });
    assert.equal(page.truncated, false);
    // A page that begins behind a turn's end repeats the session.info of that end.
    const repeats = page.events[0]?.type === "session.info" && events.at(-1)?.type === "session.info";
    events.push(...(repeats ? page.events.slice(1) : page.events));
    if (last === page.latest_seq) return events;
  }
}
