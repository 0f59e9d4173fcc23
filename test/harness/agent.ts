/** The agent room over a fresh database, with a scripted engine and tools that the test holds in its hand. */
import assert from "node:assert/strict";
import { Questions } from "../../src/agent/question/questions.ts";
import type { Engine, Message } from "../../src/agent/engine.ts";
import { defineTool, type Tool } from "../../src/agent/tool/tool.ts";
import { Grants } from "../../src/agent/question/grants.ts";
import { AttachedClients, VariableShares } from "../../src/agent/session/session.ts";
import { registerSecret, createLog } from "../../src/base/observe.ts";
import { createScriptedEngine, type Script } from "../../src/agent/engines/scripted.ts";
import { createModelCatalog, type ModelProvider, Prices } from "../../src/agent/model.ts";
import { toRunEvent, type Prompt, type Submitted, type RunTrigger } from "../../src/agent/run/run.ts";
import type { AgentDeps, AgentSettings } from "../../src/agent/deps.ts";
import { Recovery } from "../../src/agent/recovery/recovery.ts";
import type { RunScheduler } from "../../src/agent/run/scheduler.ts";
import { Agent } from "../../src/agent/agent.ts";
import { systemClock, type Clock } from "../../src/base/time.ts";
import { formatIssue, SchemaSet } from "../../src/base/schema.ts";
import { specSchemas } from "../../src/http/edge/input.ts";
import type { JournalEvent } from "../../src/store/journal/journal.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { createTestDatabase } from "./store.ts";

export interface TestAgentOptions {
  readonly script?: Script;
  readonly engine?: Engine;
  readonly tools?: readonly Tool[];
  /** Instead of `tools`: the tools there are at each turn. */
  readonly liveTools?: () => readonly Tool[];
  readonly settings?: Partial<AgentSettings>;
  readonly clock?: Clock;
  /** Of the database, where it is another than the process's. */
  readonly storeClock?: Clock;
  readonly variables?: TestVariables;
  readonly providers?: readonly ModelProvider[];
  /** Another process's view of the same database. */
  readonly database?: string;
  /** Of keys of the API. */
  readonly keyLimits?: AgentDeps["keyLimits"];
  /** Made of the store: what asks for runs and keeps a record of its own of them. */
  readonly trigger?: (store: Store) => RunTrigger;
}

/** The variables of a home that is only in memory. */
export class TestVariables {
  readonly values = new Map<string, string>();

  get(name: string): string | undefined {
    return this.values.get(name);
  }

  async set(name: string, value: string): Promise<void> {
    registerSecret(value);
    this.values.set(name, value);
  }
}

export class TestAgent implements AsyncDisposable {
  readonly deps: AgentDeps;
  readonly core: Agent;
  readonly runs: RunScheduler;
  readonly recovery: Recovery;
  readonly databaseUrl: string;
  readonly logLines: string[];
  readonly #drop: () => Promise<void>;
  /** A service has its listener to stay alive; a room alone has only timers that do not count. */
  readonly #alive = setInterval(() => {}, 60_000);

  constructor(deps: AgentDeps, database: { url: string; drop: () => Promise<void> }, logLines: string[]) {
    this.deps = deps;
    this.core = new Agent(deps, { maxLiveSessions: 100 });
    this.runs = this.core.runs;
    this.recovery = new Recovery(deps, this.runs);
    this.databaseUrl = database.url;
    this.#drop = database.drop;
    this.logLines = logLines;
  }

  get store(): Store {
    return this.deps.store;
  }

  submit(
    text: string,
    more: Partial<Prompt> & { id?: string; answerable?: boolean } = {},
  ): Promise<Submitted> {
    const { id, answerable = false, ...rest } = more;
    return this.runs.submit({
      address: { owner: "tester", ...(id === undefined ? {} : { id }) },
      seed: { source: "test" },
      kind: "run",
      input: { prompt: [{ role: "user", text }], settings: {}, answerable },
      ...rest,
    });
  }

  /** Every event of a run up to its final one. */
  async events(runId: string): Promise<JournalEvent[]> {
    const all: JournalEvent[] = [];
    for await (const event of this.follow(runId)) all.push(event);
    return all;
  }

  /** The events of a run as they come, each held to the spec; ends after the final one. */
  async *follow(runId: string): AsyncGenerator<JournalEvent> {
    for await (const group of this.store.journal.follow({ runId })) {
      for (const event of group) {
        const issues = specSchemas.checkNamed("RunEvent", toRunEvent(event));
        assert.equal(issues, undefined, `${event.type} does not fit the spec: ${JSON.stringify(issues)}`);
        yield event;
        if (/^run\.(completed|failed|cancelled|interrupted)$/.test(event.type)) return;
      }
    }
  }

  /** Waits for the first event of a type. */
  async event(runId: string, type: string): Promise<JournalEvent> {
    for await (const event of this.follow(runId)) if (event.type === type) return event;
    throw new Error(`the run ended without ${type}`);
  }

  /** The transcript of a session, oldest first. */
  async transcript(sessionId: string): Promise<readonly Message[]> {
    const { messages } = await this.core.sessions.reads.transcript(sessionId);
    return messages.map(({ message }) => message);
  }

  async run(runId: string) {
    return this.store.read.selectFrom("runs").selectAll().where("id", "=", runId).executeTakeFirstOrThrow();
  }

  async session(id: string) {
    return this.store.read.selectFrom("sessions").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.runs.drain(0);
    await this.core.stop();
    await this.recovery.stop();
    await this.store.close();
    await this.#drop();
    clearInterval(this.#alive);
  }
}

export async function createTestAgent(options: TestAgentOptions = {}): Promise<TestAgent> {
  const { clock = systemClock, tools = [] } = options;
  const database = options.database
    ? { url: options.database, drop: async () => {} }
    : await createTestDatabase({ isOwn: true });
  const { storeClock = clock } = options;
  const store = await openStore({ url: database.url, now: () => storeClock.now() });
  const logLines: string[] = [];
  const variables = options.variables ?? new TestVariables();
  const schemas = new SchemaSet({});
  const models = createModelCatalog({ providers: options.providers ?? [] });
  const deps: AgentDeps = {
    store,
    clock,
    log: createLog("info", (line) => void logLines.push(line)),
    engine: options.engine ?? createScriptedEngine(options.script ?? (() => ({ text: "done" })), { clock }),
    models,
    prices: new Prices(models, clock),
    tools: options.liveTools ?? (() => tools),
    toolsSettled: async () => {},
    briefing: async () => [],
    notices: () => [],
    clients: new AttachedClients(),
    switches: { yolo: false },
    questions: new Questions(store, clock, variables),
    grants: new Grants(store),
    variables: new VariableShares(variables),
    checkInput: (tool, input) => {
      const issue = schemas.check(tool.parameters, input)?.[0];
      return issue && formatIssue(issue, "the arguments");
    },
    settings: { ...defaults, ...options.settings },
    ...(options.keyLimits ? { keyLimits: options.keyLimits } : {}),
    ...(options.trigger ? { trigger: options.trigger(store) } : {}),
  };
  return new TestAgent(deps, database, logLines);
}

const defaults: AgentSettings = {
  instructions: "Be good.",
  workspace: "/workspace",
  workspaceRoots: [],
  userHome: "/home/tester",
  agentHome: "/home/tester/.agentd",
  maxSteps: 10,
  runTimeoutMs: 0,
  policyMode: "ask",
  allowedCommands: [],
  questionTimeouts: { approvalMs: 0, clarifyMs: 0, passwordMs: 0 },
  onApprovalTimeout: "deny",
  whenBusy: "queue",
  maxQueuePerSession: 32,
  maxConcurrentRuns: 0,
  reasoningEffort: undefined,
  fallbacks: [],
  budget: { runTokens: 0, dayTokens: 0, dayCostUsd: 0, unpriced: "allow" },
  compression: { threshold: undefined, keepMessages: 4, model: undefined },
  delegation: { maxDepth: 2, maxConcurrent: 4, maxTasks: 8, maxSteps: 10, tokenBudget: 0, model: undefined },
  titles: "off",
};

/**
 * A tool that does what the test says; its intent is a command, so that the policy decides by that. A single word is no
 * program but names what the test is to do, and is taken for a word that is printed.
 */
export function testTool(
  run: (input: { command: string }, context: Parameters<Tool["run"]>[1]) => Promise<string>,
  name = "terminal",
): Tool {
  return defineTool<{ command: string }>({
    name,
    toolset: "terminal",
    description: "For tests.",
    parameters: {
      type: "object",
      additionalProperties: false,
      required: ["command"],
      properties: { command: { type: "string" } },
    },
    inspect: ({ command }, { cwd }) => {
      const script = /^\w+$/.test(command) ? { script: { text: `echo ${command}`, folder: cwd } } : {};
      return { kind: "command", title: `Run: ${command}`, command, ...script };
    },
    run,
  });
}

/** Calls `command` in the first step, and says what came back in the second. */
export function callsOnce(...commands: string[]): Script {
  return ({ step, toolResults }) =>
    step === 0
      ? { calls: commands.map((command) => ({ tool: "terminal", input: { command } })) }
      : { text: toolResults.map(({ status, text }) => `${status}: ${text}`).join("\n") };
}
