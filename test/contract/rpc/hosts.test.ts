/** What existing hosts of this protocol family send, in their order, passes unchanged over both transports. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { demoScript, type Script } from "../../../src/agent/engines/scripted.ts";
import { testTool } from "../../harness/agent.ts";
import { connectPipes } from "../../harness/rpc-pipe.ts";
import { connectSocket, type Json, type RpcHost } from "../../harness/rpc.ts";
import { startTestService, type TestService } from "../../harness/service.ts";
import { assertTurnOrder } from "../../harness/turn-order.ts";
import sequences from "./fixtures/hosts.json" with { type: "json" };

/** What a host does or waits for. `$name` stands for what an earlier step kept, by the host's own knowledge of it. */
interface Step {
  /** A frame, and what its answer holds at least. */
  readonly send?: Json;
  /** A frame as its text, with the id of its answer. */
  readonly text?: string;
  readonly binary?: boolean;
  readonly id?: Json;
  readonly result?: Json;
  readonly error?: number | "any";
  /** The next event of a type, and what its payload holds at least. */
  readonly event?: string;
  readonly payload?: Json;
  /** The next question as a request. */
  readonly asked?: string;
  readonly restart?: boolean;
  /** Names for parts of what came. */
  readonly keep?: Readonly<Record<string, string>>;
}

const script: Script = (state) => {
  const [, kind] = /^ask (\w+)$/.exec(state.user) ?? [];
  const command = kind ?? (state.user === "wait" ? "wait" : undefined);
  if (command === undefined) return demoScript(state);
  if (state.toolResults.length > 0) return { text: state.toolResults.map(({ text }) => text).join() };
  return { calls: [{ tool: "probe", input: { command } }] };
};

const probe = testTool(async ({ command }, { questions, signal }) => {
  if (command === "wait") await new Promise((resolve) => signal.addEventListener("abort", resolve));
  if (command === "clarify") {
    const question = { id: "q1", question: "Which?", choices: ["this", "that"], multi_select: false };
    return (await questions.clarify([question]))["q1"] || "nothing";
  }
  if (command === "secret") return questions.secret({ prompt: "A value", envVar: "HOSTS_TEST" });
  return (await questions.sudo("sudo true")) === undefined ? "refused" : "taken";
}, "probe");

/** Plays one sequence. Events are waited for in order: each behind the one before. */
class Player {
  service: TestService;
  host!: RpcHost;
  readonly #transport: "ws" | "stdio";
  readonly #kept = new Map<string, Json>();
  #eventsFrom = 0;

  constructor(service: TestService, transport: "ws" | "stdio") {
    this.service = service;
    this.#transport = transport;
  }

  async connect(): Promise<void> {
    const identity = { owner: "default", scopes: ["admin"] };
    this.host =
      this.#transport === "ws"
        ? await connectSocket(this.service)
        : await connectPipes(this.service.service.hub, identity);
    this.#eventsFrom = 0;
  }

  async play(step: Step): Promise<void> {
    if (step.restart) return this.#restart();
    const came = await this.#came(this.#filled(step) as Step);
    for (const [name, path] of Object.entries(step.keep ?? {})) {
      const value = path.split(".").reduce((from, key) => from?.[key], came);
      assert.ok(value !== undefined, `${path} is not in ${JSON.stringify(came)}`);
      this.#kept.set(name, value);
    }
  }

  async #came(step: Step): Promise<Json> {
    const { send, text, event, asked } = step;
    if (event !== undefined) return this.#event(event, step.payload);
    if (asked !== undefined) return this.#next(({ method }) => method === asked);
    if (send !== undefined) this.host.send(send);
    else this.#raw(text ?? "", step.binary === true);
    if (step.result === undefined && step.error === undefined) return undefined;
    const id = send === undefined ? step.id : send.id;
    const answer = await this.host.frame((frame) => frame.id === id && frame.method === undefined);
    if (step.error === "any") return assert.ok(answer.error, JSON.stringify(answer));
    if (step.error !== undefined) return assert.equal(answer.error?.code, step.error, JSON.stringify(answer));
    assert.ok(answer.result, JSON.stringify(answer));
    assertHolds(answer.result, step.result, `the answer of ${send?.method ?? text}`);
    return answer.result;
  }

  async #event(type: string, payload: Json = {}): Promise<Json> {
    const { params } = await this.#next((frame) => frame.method === "event" && frame.params.type === type);
    assertHolds(params.payload, payload, type);
    return params;
  }

  async #next(fits: (frame: Json) => boolean): Promise<Json> {
    const frame = await this.host.frame(fits, this.#eventsFrom);
    this.#eventsFrom = this.host.frames.indexOf(frame) + 1;
    return frame;
  }

  #raw(text: string, isBinary: boolean): void {
    try {
      this.host.validator.fromHost(JSON.parse(text));
    } catch {
      // It is to be refused.
    }
    this.host.wire.send(isBinary ? new TextEncoder().encode(text) : text);
  }

  async #restart(): Promise<void> {
    const old = this.host;
    this.service = await this.service.restart({ script, tools: [probe] });
    await old.wire.closed;
    await this.connect();
  }

  #filled(value: Json): Json {
    const text = JSON.stringify(value).replace(/\$([a-z]+)/g, (whole, name) => this.#kept.get(name) ?? whole);
    return JSON.parse(text);
  }
}

/** Objects hold what is expected at least; the first members of a list do. */
function assertHolds(actual: Json, expected: Json, what: string): void {
  if (typeof expected !== "object" || expected === null) return assert.deepEqual(actual, expected, what);
  assert.equal(typeof actual, "object", `${what}: ${JSON.stringify(actual)}`);
  assert.equal(Array.isArray(actual), Array.isArray(expected), what);
  for (const [key, value] of Object.entries(expected)) assertHolds(actual[key], value, `${what}: ${key}`);
}

for (const { name, steps } of sequences as readonly { name: string; steps: readonly Step[] }[]) {
  for (const transport of ["ws", "stdio"] as const) {
    test(`${name} (${transport})`, async () => {
      const player = new Player(await startTestService({ script, tools: [probe] }), transport);
      try {
        await player.connect();
        for (const step of steps) await player.play(step);
        const session = player.host.frames.find(({ result }) => result?.session_id !== undefined)?.result;
        // A cursor repeats what this connection heard before.
        const isRepeated = JSON.stringify(steps).includes('"cursor"');
        if (session && !isRepeated) assertTurnOrder(player.host.frames, session.session_id);
        await player.host[Symbol.asyncDispose]();
      } finally {
        await player.service[Symbol.asyncDispose]();
      }
    });
  }
}
