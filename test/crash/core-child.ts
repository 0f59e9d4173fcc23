/** A service that is brought to a certain point and waits there to be killed, or that looks at what is left after it. */
import { appendFileSync } from "node:fs";
import process from "node:process";
import type { Message } from "../../src/agent/engine.ts";
import { defineTool } from "../../src/agent/tool/tool.ts";
import { createScriptedEngine, type Script } from "../../src/agent/engines/scripted.ts";
import { systemClock } from "../../src/base/time.ts";
import { createLog } from "../../src/base/observe.ts";
import { startFromHome } from "../../src/app/start.ts";
import type { Service } from "../../src/app/service.ts";
import { endWithParent } from "../unit/store/child.ts";

const [scenario = "", home = "", database = "", marks = ""] = process.argv.slice(2);
const OWNER = "tester";
const never = () => new Promise<never>(() => {});
endWithParent();

/** Leaves a mark each time it runs, and hangs when told to. */
const mark = defineTool<{ text: string; hang?: boolean }>({
  name: "mark",
  toolset: "planning",
  description: "Leaves a mark.",
  parameters: {
    type: "object",
    properties: { text: { type: "string" }, hang: { type: "boolean" } },
    required: ["text"],
  },
  inspect: ({ text }) => ({ kind: "tool", effect: "none", title: text }),
  run: async ({ text, hang }) => {
    appendFileSync(marks, `${text}\n`);
    if (!hang) return `marked ${text}`;
    hangs.resolve();
    return never();
  },
});

/** Resolves once a tool hangs: its event may be seen before it runs. */
const hangs = Promise.withResolvers<void>();

const call = (tool: string, input: unknown) => ({ calls: [{ tool, input }] });

const scripts: Readonly<Record<string, Script>> = {
  stream: () => ({
    text: (async function* () {
      yield "half an answer";
      await never();
    })(),
  }),
  tool: ({ step }) =>
    step === 0 ? call("mark", { text: "once" }) : call("mark", { text: "hanging", hang: true }),
  approval: () => call("terminal", { command: "rm -rf precious" }),
  subagent: ({ user }) =>
    user.startsWith("child")
      ? call("mark", { text: "in the child", hang: true })
      : call("delegate_task", { tasks: [{ goal: "child work" }] }),
  compression: ({ instructions, user }) =>
    instructions.startsWith("You summarise") ? never() : { text: `re: ${user}` },
  steer: () => ({
    text: (async function* () {
      yield "talking";
      await never();
    })(),
  }),
  after: ({ messages }) => ({ text: strictProblem(messages) ?? "accepted" }),
};

/** What a strict provider would refuse; undefined when it takes the transcript. */
function strictProblem(messages: readonly Message[]): string | undefined {
  for (const [index, message] of messages.entries()) {
    if (message.role !== "assistant") continue;
    const calls = message.parts.flatMap((part) => (part.type === "tool_call" ? [part.callId] : []));
    const answers = messages
      .slice(index + 1, index + 1 + calls.length)
      .map((answer) => (answer.role === "tool" ? answer.callId : ""));
    if (calls.toSorted().join() !== answers.toSorted().join())
      return `calls ${calls.join()} got ${answers.join()}`;
  }
  return undefined;
}

/** The event whose commit is the point at which to be killed. */
const POINTS: Readonly<Record<string, string>> = {
  stream: "message.delta",
  steer: "message.delta",
  approval: "approval.request",
  subagent: "subagent.tool",
  compression: "compression.started",
};

const { service } = await startFromHome({
  env: { AGENTD_DATABASE_URL: database },
  home,
  port: 0,
  engine: createScriptedEngine(scripts[scenario] ?? (() => ({})), { clock: systemClock }),
  tools: [mark],
  log: createLog("error", () => {}),
});
if (scenario === "after") await look(service);
else await bring(service);

async function bring({ agent, store }: Service): Promise<void> {
  const submit = (text: string) =>
    agent.runs.submit({
      address: { owner: OWNER, id: "s" },
      seed: { source: "test" },
      kind: "run",
      input: { prompt: [{ role: "user", text }], settings: {}, answerable: true },
    });
  if (scenario === "compression") {
    for (const text of ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]) {
      const { runId } = await submit(text);
      await until(store, runId, "run.completed");
    }
    void agent.compress("s", OWNER);
    await untilSession(store, "compression.started");
    return say("there");
  }
  const { runId } = await submit("go");
  await submit("queued behind");
  if (scenario === "tool") await until(store, runId, "tool.started", 2);
  else await until(store, runId, POINTS[scenario] ?? "");
  if (scenario === "tool" || scenario === "subagent") await hangs.promise;
  if (scenario === "steer") await agent.runs.steer(runId, "and mind the gap");
  say("there");
}

async function look({ agent, store }: Service): Promise<void> {
  await agent.recovered;
  const first = await store.read
    .selectFrom("runs")
    .selectAll()
    .where("session_id", "=", "s")
    .orderBy("created_at")
    .execute();
  const interrupted = first.filter(({ status }) => status === "interrupted");
  const queued = first.at(-1);
  if (queued && queued.ended_at === null) await until(store, queued.id, "run.completed");
  const { runId } = await agent.runs.submit({
    address: { owner: OWNER, id: "s" },
    seed: { source: "test" },
    kind: "run",
    input: { prompt: [{ role: "user", text: "and now?" }], settings: {}, answerable: false },
  });
  await until(store, runId, "run.completed");
  const runs = await store.read
    .selectFrom("runs")
    .select(["id", "kind", "status", "output"])
    .orderBy("created_at")
    .execute();
  const questions = await store.read.selectFrom("questions").select(["kind", "status"]).execute();
  const { messages } = await agent.sessions.reads.transcript("s");
  const ends = await store.read
    .selectFrom("events")
    .select("data")
    .where("type", "=", "run.interrupted")
    .execute();
  const session = await agent.sessions.get("s", OWNER);
  say({
    interrupted: interrupted.map(({ kind }) => kind),
    runs,
    questions,
    transcript: messages.map(({ message }) => message),
    ends: ends.map(({ data }) => JSON.parse(data)),
    summarySeq: session.summary_seq,
    answer: runs.at(-1)?.output,
  });
}

async function until(store: Service["store"], runId: string, type: string, times = 1): Promise<void> {
  let left = times;
  for await (const group of store.journal.follow({ runId })) {
    for (const event of group) if (event.type === type && --left === 0) return;
  }
}

async function untilSession(store: Service["store"], type: string): Promise<void> {
  for await (const group of store.journal.follow({ sessionId: "s" })) {
    if (group.some((event) => event.type === type)) return;
  }
}

function say(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}
