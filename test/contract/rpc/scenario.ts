/** A contract test of the gateway: it provokes what it names, on both transports, and proves that it was seen. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createScriptedEngine, type Script } from "../../../src/agent/engines/scripted.ts";
import type { Tool } from "../../../src/agent/tool/tool.ts";
import { systemClock } from "../../../src/base/time.ts";
import { testTool } from "../../harness/agent.ts";
import { oncePerFile } from "../../harness/guard.ts";
import { connectPipes } from "../../harness/rpc-pipe.ts";
import { connectSocket, type Json, type RpcHost } from "../../harness/rpc.ts";
import { startTestService, type TestService, type TestServiceOptions } from "../../harness/service.ts";

export type Transport = "ws" | "stdio";

export interface ScenarioOptions extends Omit<TestServiceOptions, "engine" | "keys" | "like" | "requireKey"> {
  /** What is proven, as a sentence. */
  readonly title: string;
  /** What the model says and calls. Default: it says "hello". */
  readonly script?: Script;
  /** What the tool `probe` does, which takes a `command` that the policy judges. Default: it answers with the command. */
  readonly probe?: Probe;
}

export type Probe = (input: { command: string }, context: Parameters<Tool["run"]>[1]) => Promise<string>;

/** Where a scenario takes place. Sessions belong to an owner of its own, so that scenarios do not see each other's. */
export interface RpcSetting {
  readonly transport: Transport;
  readonly service: TestService;
  readonly owner: string;
  /** Turns that begin from now on have this script; for one with a state that both runs of a scenario must not share. */
  play(script: Script): void;
  /** Another host, on the same transport; of the same owner unless another is named. Closed with the scenario. */
  connect(as?: { readonly owner?: string; readonly scopes?: readonly string[] }): Promise<RpcHost>;
}

type Run = (host: RpcHost, setting: RpcSetting) => Promise<void>;

/**
 * Registers a scenario twice, over a WebSocket and over stdio pipes. `proves` names what must have been seen by its end,
 * by any host of it, one or many of:
 *
 * - `"session.create"`: a result of the method,
 * - `"session.create 4022"`: its error of this number,
 * - `"error -32700"`: an error of this number, of whatever method,
 * - `"event message.start"`: an event,
 * - `"question approval"`, `"answer approval"`: a question as a server request, a host's answer to it that fits.
 *
 * Write them as literals: test/contract/rpc/coverage.test.ts reads them from the source. Scenarios of one file share a
 * service, unless the options say more than `title`, `script` and `probe`.
 */
export function rpcScenario(
  proves: string | readonly string[],
  options: string | ScenarioOptions,
  run: Run,
): void {
  const what = typeof options === "string" ? { title: options } : options;
  const all = typeof proves === "string" ? [proves] : proves;
  for (const transport of ["ws", "stdio"] as const) {
    test(`${all[0]}: ${what.title} (${transport})`, async () => {
      await using stage = await openStage(what);
      const { service } = stage;
      const hosts: RpcHost[] = [];
      const owner = `owner-${++owners}`;
      const connect: RpcSetting["connect"] = async (as = {}) => {
        const host = await connectTo(stage, transport, { owner, scopes: ["admin"], ...as });
        hosts.push(host);
        return host;
      };
      try {
        await run(await connect(), { transport, service, owner, play, connect });
      } finally {
        for (const host of hosts) await host[Symbol.asyncDispose]();
      }
      const seen = new Set(hosts.flatMap(({ validator }) => [...validator.seen]));
      for (const each of all) assert.ok(seen.has(each), `it never came to: ${each}`);
    });
  }
}

/** Submits a prompt and waits for the end of its turn. Resolves to the payload of `message.complete`. */
export async function takeTurn(host: RpcHost, sessionId: string, text: string): Promise<Json> {
  const from = host.frames.length;
  const { turn_id } = await host.result("prompt.submit", { session_id: sessionId, text });
  const { payload } = await host.event("message.complete", (event) => event.turn_id === turn_id, from);
  const at = host.frames.findIndex(({ params }) => params?.payload === payload);
  await host.event("session.info", (event) => event.session_id === sessionId, at);
  return payload;
}

/** Opens a session and resolves to its id. */
export async function openSession(host: RpcHost, params: Json = {}): Promise<string> {
  const { session_id: id } = await host.result("session.create", params);
  return id;
}

/** A script of turns that wait until the test lets them go; interrupting lets them go too. */
export function gatedScript(): {
  readonly script: Script;
  /** Resolves when the `n`th turn, counted from 1, waits. */
  waiting(n: number): Promise<void>;
  open(): void;
} {
  const gates: PromiseWithResolvers<void>[] = [];
  const arrivals: PromiseWithResolvers<void>[] = [];
  const arrival = (n: number) => (arrivals[n - 1] ??= Promise.withResolvers<void>());
  let isOpen = false;
  const script: Script = async ({ user, signal }) => {
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    for (let n = 1; n <= gates.length; n++) arrival(n).resolve();
    signal.addEventListener("abort", () => gate.resolve(), { once: true });
    if (!isOpen) await gate.promise;
    return { text: `heard ${user}` };
  };
  const open = () => {
    isOpen = true;
    for (const gate of gates) gate.resolve();
  };
  return { script, waiting: (n) => arrival(n).promise, open };
}

let owners = 0;

function play(script: Script): void {
  current = { ...current, script };
}

/** A service, with the keys that may still be added to it. */
interface Stage extends AsyncDisposable {
  readonly service: TestService;
  readonly keys: { key: string; name: string; scopes: readonly string[] }[];
}

async function connectTo(
  { service, keys }: Stage,
  transport: Transport,
  identity: { readonly owner: string; readonly scopes: readonly string[] },
): Promise<RpcHost> {
  if (transport === "stdio") return connectPipes(service.service.hub, identity);
  const key = `scenario-key-${keys.length}-0123456789abcdef`;
  keys.push({ key, name: identity.owner, scopes: identity.scopes });
  return connectSocket(service, `/api/ws?token=${key}`);
}

/** What the turns and calls of the shared service do that begin now. */
let current: Pick<ScenarioOptions, "script" | "probe"> = {};
const sharedStage = oncePerFile(() => startStage());

async function openStage({ title: _, script, probe, ...own }: ScenarioOptions): Promise<Stage> {
  current = { ...(script ? { script } : {}), ...(probe ? { probe } : {}) };
  if (Object.keys(own).length > 0) return startStage(own);
  const { service, keys } = await sharedStage();
  return { service, keys, [Symbol.asyncDispose]: () => stopTurns(service) };
}

async function startStage(options: Omit<ScenarioOptions, "title" | "script" | "probe"> = {}): Promise<Stage> {
  const keys: Stage["keys"] = [];
  const { clock = systemClock, tools = [] } = options;
  const tool = testTool((input, context) => (current.probe ?? answerCommand)(input, context), "probe");
  const service = await startTestService({
    ...options,
    keys,
    tools: [tool, ...tools],
    // A turn keeps the script that was there when it began.
    engine: {
      name: "scripted",
      runTurn: (turn) => createScriptedEngine(current.script ?? hello, { clock }).runTurn(turn),
    },
  });
  return { service, keys, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
}

const hello: Script = () => ({ text: "hello" });
const answerCommand: Probe = async ({ command }) => command;

/** What a scenario left at work must not meet the next one. */
async function stopTurns({ service: { store, runs } }: TestService): Promise<void> {
  const open = await store.read
    .selectFrom("runs")
    .select("id")
    .where("ended_at", "is", null)
    .orderBy("created_at", "desc")
    .execute();
  for (const { id } of open) await runs.stop(id, "the scenario is over");
}
