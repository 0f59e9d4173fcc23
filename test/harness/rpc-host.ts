/** Hosts of the gateway over an agent that the test holds in its hand, without a transport. */
import assert from "node:assert/strict";
import { gatewayEvents, type GatewayEvent } from "../../generated/gateway/host.gen.ts";
import {
  gatewayRequests,
  type GatewayMethod,
  type GatewayRequests,
} from "../../generated/gateway/rpc.gen.ts";
import type { Connection } from "../../src/rpc/connection/connection.ts";
import { rpcHandlers } from "../../src/rpc/methods/handlers.ts";
import { RpcHub } from "../../src/rpc/events/hub.ts";
import { RPC_LIMITS } from "../../src/rpc/connection/ready.ts";
import { createSubscriptions } from "../../src/rpc/events/subscriptions.ts";
import type { RpcDeps } from "../../src/rpc/deps.ts";
import { rpcSchemas } from "../../src/rpc/connection/calls.ts";
import { Skills } from "../../src/agent/skills/skills.ts";
import { McpServers } from "../../src/agent/mcp/servers.ts";
import { createTestAgent, type TestAgent, type TestAgentOptions } from "./agent.ts";

interface Frame {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: {
    readonly code: number;
    readonly message: string;
    readonly data?: { readonly reason: string };
  };
}

interface HostOptions {
  /** Default: true. */
  readonly isLocal?: boolean;
  /** Default: all. */
  readonly scopes?: readonly string[];
}

const ALL_SCOPES = ["admin", "chat", "read", "sessions", "approvals", "runs"];

/** The gateway of one process. */
export class TestGateway implements AsyncDisposable {
  readonly agent: TestAgent;
  readonly hub: RpcHub;

  constructor(agent: TestAgent) {
    this.agent = agent;
    const { clock, log, store } = agent.deps;
    const deps = {
      store,
      agent: agent.core,
      skills: new Skills({ homeFolder: "/nowhere", folders: [], disabled: [] }),
      mcp: new McpServers(log),
      clock,
      log,
      version: "0.0.0",
      settings: { limits: RPC_LIMITS, cliExec: "off", shellExec: "off" },
      config: { env: {}, home: "/nowhere" },
      subscribe: createSubscriptions,
    } as unknown as Omit<RpcDeps, "peers">;
    this.hub = new RpcHub(deps, rpcHandlers);
  }

  host(owner = "tester", how: HostOptions = {}): TestHost {
    return new TestHost(this.hub, owner, how);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.hub.close();
    await this.agent[Symbol.asyncDispose]();
  }
}

export async function createTestGateway(options: TestAgentOptions = {}): Promise<TestGateway> {
  return new TestGateway(await createTestAgent(options));
}

/** One connection; every frame that it gets is held to the specs. */
export class TestHost {
  readonly frames: Frame[] = [];
  readonly #connection: Connection;
  readonly #methods = new Map<string, GatewayMethod>();
  #watchers = new Set<() => void>();
  #next = 1;

  constructor(hub: RpcHub, owner: string, { isLocal = true, scopes = ALL_SCOPES }: HostOptions = {}) {
    this.#connection = hub.connect({
      wire: { send: (text) => this.#take(text), buffered: () => 0, close: () => {} },
      identity: { owner, scopes },
      transport: "ws",
      isLocal,
    });
  }

  /** Events of sessions, in the order in which they came. */
  get events(): readonly GatewayEvent[] {
    return this.frames.flatMap(({ method, params }) => (method === "event" ? [params as GatewayEvent] : []));
  }

  async call<K extends GatewayMethod>(
    method: K,
    params: Readonly<Record<string, unknown>> = {},
  ): Promise<GatewayRequests[K]["result"]> {
    const { result, error } = await this.send(method, params);
    assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
    return result as GatewayRequests[K]["result"];
  }

  /** The error that a call is answered with. */
  async fails(
    method: GatewayMethod,
    params: Readonly<Record<string, unknown>>,
  ): Promise<NonNullable<Frame["error"]>> {
    const { error } = await this.send(method, params);
    assert.ok(error, `${method} was answered`);
    return error;
  }

  async send(method: GatewayMethod, params: Readonly<Record<string, unknown>>): Promise<Frame> {
    const id = `r${this.#next++}`;
    this.#methods.set(id, method);
    this.#connection.receive(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return this.until(() => this.frames.find((frame) => frame.id === id && frame.method === undefined));
  }

  /** Answers a question of the server. */
  answer(id: string, result: unknown): void {
    this.#connection.receive(JSON.stringify({ jsonrpc: "2.0", id, result }));
  }

  /** Declines a question of the server. */
  refuse(id: string): void {
    const error = { code: -32601, message: "not shown here" };
    this.#connection.receive(JSON.stringify({ jsonrpc: "2.0", id, error }));
  }

  /** The first event of a type behind the `from`th. */
  event<K extends GatewayEvent["type"]>(type: K, from = 0): Promise<Extract<GatewayEvent, { type: K }>> {
    return this.until(() => this.events.slice(from).find((event) => event.type === type)) as never;
  }

  /** The turn's end: a `session.info` that says so. */
  async ended(from = 0): Promise<void> {
    await this.until(() => {
      const events = this.events.slice(from);
      const at = events.findIndex(({ type }) => type === "message.complete");
      return events.slice(at + 1).some(({ type }) => at >= 0 && type === "session.info") || undefined;
    });
  }

  /** Waits until `look` finds something. */
  async until<T>(look: () => T | undefined): Promise<T> {
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => this.#watchers.add(resolve));
    }
  }

  leave(): void {
    this.#connection.close(1000, "left");
  }

  #take(text: string): void {
    const frame = JSON.parse(text) as Frame;
    this.#check(frame);
    this.frames.push(frame);
    const watchers = this.#watchers;
    this.#watchers = new Set();
    for (const watcher of watchers) watcher();
  }

  #check({ id, method, params, result, error }: Frame): void {
    if (method === "event") {
      const { type } = params as GatewayEvent;
      const issues = rpcSchemas.check(gatewayEvents[type].event, params);
      assert.equal(
        issues,
        undefined,
        `${type} does not fit: ${JSON.stringify(issues)} ${JSON.stringify(params)}`,
      );
    }
    const asked = this.#methods.get(String(id));
    if (asked === undefined || method !== undefined || error !== undefined) return;
    const issues = rpcSchemas.check(gatewayRequests[asked].result, result);
    assert.equal(issues, undefined, `${asked} answered ${JSON.stringify(result)}: ${JSON.stringify(issues)}`);
  }
}

/** Without what a replay reports as it is now: the session, and its usage. */
function keptOf(type: string, payload: object): object {
  if (type === "session.info") return { running: "running" in payload && payload.running };
  if (type !== "message.complete") return payload;
  return Object.fromEntries(Object.entries(payload).filter(([name]) => name !== "usage"));
}

/** What counts of a stream: without times, adjacent deltas as one, snapshots by their name. */
export function essence(events: readonly GatewayEvent[]): readonly unknown[] {
  const shown: { type: string; seq?: number; payload: unknown }[] = [];
  for (const event of events) {
    if (event.type === "gateway.ready" || event.type === "sessions.changed") continue;
    // Accompanies a numbered event, and may be lost behind it.
    if (event.type === "message.interim") continue;
    const last = shown.at(-1);
    const { type, seq } = event;
    const payload = event.payload as { readonly text?: string };
    const isDelta = type.endsWith(".delta");
    if (isDelta && last?.type === type) {
      last.payload = { text: (last.payload as { text: string }).text + payload.text };
      if (seq !== undefined) last.seq = seq;
    } else {
      const kept = keptOf(type, payload);
      shown.push({ type, ...(seq === undefined ? {} : { seq }), payload: kept });
    }
  }
  return shown;
}
