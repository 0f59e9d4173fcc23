/** A host of the gateway, as raw as its frames: over a real socket, or a real process. Every frame is held to the specs. */
import assert from "node:assert/strict";
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { gatewayEvents, hostRequests, type HostMethod } from "../../generated/gateway/host.gen.ts";
import { gatewayRequests, type GatewayMethod } from "../../generated/gateway/rpc.gen.ts";
import { schemas } from "../../generated/gateway/schemas.gen.ts";
import { errorTable } from "../../src/base/errors.ts";
import { SchemaSet } from "../../src/base/schema.ts";
import { agentdCommand, programEnvironment, type Command } from "./program.ts";
import { KEY } from "./service.ts";

// oxlint-disable-next-line typescript/no-explicit-any
export type Json = any;

const set = new SchemaSet(schemas);
/** Numbers that any method may answer: those of the protocol, overload, scopes. */
const ANY_METHOD = new Set([-32700, -32600, -32601, -32602, -32603, -32001, -32003]);
const numbers = new Set<number>([...ANY_METHOD, ...Object.values(errorTable).map(({ rpc }) => rpc)]);

/** Holds every frame of one connection to the two documents, whoever sends it. */
export class FrameValidator {
  readonly #asked = new Map<string | number, { readonly method: string; readonly params: unknown }>();
  readonly #questions = new Map<string, HostMethod>();
  /**
   * `method` of every result, `method code` and `error code` of every error, `event type`, `question method`,
   * `answer method` of every answer of the host that fits: what scenarios prove.
   */
  readonly seen = new Set<string>();

  /** What the host sends; it may be wrong on purpose, so its parameters are looked at when the gateway took them. */
  fromHost(frame: Json): void {
    for (const each of Array.isArray(frame) ? frame : [frame]) {
      if (typeof each !== "object" || each === null) continue;
      if (typeof each.method === "string" && each.id !== undefined && each.id !== null) {
        this.#asked.set(each.id, { method: each.method, params: each.params ?? {} });
      }
      const question = each.method === undefined ? this.#questions.get(each.id) : undefined;
      if (question && "result" in each && !set.check(hostRequests[question].result, each.result)) {
        this.seen.add(`answer ${question}`);
      }
    }
  }

  fromGateway(frame: Json): void {
    if (Array.isArray(frame)) {
      assert.ok(frame.length > 0, "an empty batch was sent");
      return frame.forEach((each) => this.#one(each));
    }
    this.#one(frame);
  }

  #one(frame: Json): void {
    assert.equal(frame.jsonrpc, "2.0", JSON.stringify(frame));
    if (frame.method === "event") return this.#event(frame);
    if (frame.method !== undefined) return this.#question(frame);
    assert.ok("id" in frame, "an answer without an id");
    assert.notEqual("result" in frame, "error" in frame, "either a result or an error");
    const asked = this.#asked.get(frame.id);
    if ("error" in frame) return this.#error(asked, frame);
    assert.ok(asked, `an answer to nothing: ${JSON.stringify(frame)}`);
    const { method, params } = asked;
    const meta = gatewayRequests[method as GatewayMethod];
    assertFits(meta.params, params, `what ${method} took`);
    assertFits(meta.result, frame.result, `the result of ${method}`);
    this.seen.add(method);
  }

  #event({ id, params }: Json): void {
    assert.equal(id, undefined, "an event has no id");
    const meta = gatewayEvents[params.type as keyof typeof gatewayEvents];
    assert.ok(meta, `no such event: ${params.type}`);
    assertFits(meta.event, params, `the event ${params.type}`);
    this.seen.add(`event ${params.type}`);
  }

  #question({ id, method, params }: Json): void {
    const meta = hostRequests[method as HostMethod];
    assert.ok(meta, `no such question: ${method}`);
    assert.equal(typeof id, "string");
    assertFits(meta.params, params, `the question ${method}`);
    this.#questions.set(id, method);
    this.seen.add(`question ${method}`);
  }

  #error(asked: { readonly method: string; readonly params: unknown } | undefined, { error }: Json): void {
    assert.ok(numbers.has(error.code), `no such code: ${JSON.stringify(error)}`);
    assert.equal(typeof error.message, "string");
    assert.equal(typeof error.data.reason, "string");
    assert.equal(typeof error.data.retryable, "boolean");
    if (error.code === -32602 && error.data.reason === "invalid_params")
      assert.ok(error.data.issues.length > 0);
    this.seen.add(`error ${error.code}`);
    if (!asked || !Object.hasOwn(gatewayRequests, asked.method)) return;
    const meta = gatewayRequests[asked.method as GatewayMethod];
    const { method, params } = asked;
    if (error.data.reason !== "invalid_params" && ![-32001, -32003, -32600].includes(error.code)) {
      assertFits(meta.params, params, `what ${method} refused with ${error.code}`);
    }
    assert.ok(
      ANY_METHOD.has(error.code) || meta.errors.includes(error.code),
      `${method} does not list ${error.code}: ${error.message}`,
    );
    this.seen.add(`${method} ${error.code}`);
  }
}

function assertFits(schema: Parameters<SchemaSet["check"]>[0], value: unknown, what: string): void {
  const issues = set.check(schema, value);
  assert.equal(issues, undefined, `${what} does not fit the spec: ${JSON.stringify(issues)}`);
}

/** How frames of a transport come and go. */
export interface RpcWire {
  send(text: string | Uint8Array): void;
  close(): void;
  /** Close code of a socket, exit code of a process. */
  readonly closed: Promise<number | null>;
}

/** A host that remembers all frames it got. */
export class RpcHost implements AsyncDisposable {
  readonly frames: Json[] = [];
  readonly validator = new FrameValidator();
  wire!: RpcWire;
  #nextId = 1;
  #failure: unknown;
  #waiting: (() => void)[] = [];

  /** Sends one JSON value. */
  send(frame: Json): void {
    this.validator.fromHost(frame);
    this.wire.send(JSON.stringify(frame));
  }

  /** A request with an id of its own. Resolves to the whole answer. */
  async call(method: string, params?: Json): Promise<Json> {
    const id = `r${this.#nextId++}`;
    this.send({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) });
    return this.frame((frame) => frame.id === id && frame.method === undefined);
  }

  /** As {@link call}; an error answer throws. */
  async result(method: string, params?: Json): Promise<Json> {
    const answer = await this.call(method, params);
    assert.ok("result" in answer, `${method}: ${JSON.stringify(answer.error)}`);
    return answer.result;
  }

  /** As {@link call}; asserts the code of the error and resolves to it. */
  async error(method: string, params: Json, code: number): Promise<Json> {
    const answer = await this.call(method, params);
    assert.equal(answer.error?.code, code, JSON.stringify(answer));
    return answer.error;
  }

  /** Waits for the first frame, of all so far or to come, that `fits`. */
  async frame(fits: (frame: Json) => boolean, after = 0): Promise<Json> {
    for (let at = after; ;) {
      if (this.#failure) throw this.#failure;
      for (; at < this.frames.length; at++) if (fits(this.frames[at])) return this.frames[at];
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Waits for an event; resolves to its params. */
  async event(type: string, fits: (params: Json) => boolean = () => true, after = 0): Promise<Json> {
    const found = await this.frame(
      (frame) => frame.method === "event" && frame.params.type === type && fits(frame.params),
      after,
    );
    return found.params;
  }

  /** All events so far, of a session if it is named. */
  events(sessionId?: string): Json[] {
    const all = this.frames.filter((frame) => frame.method === "event").map((frame) => frame.params);
    return sessionId === undefined ? all : all.filter((event) => event.session_id === sessionId);
  }

  /** A frame came. */
  take(text: string): void {
    try {
      const frame = JSON.parse(text);
      this.validator.fromGateway(frame);
      this.frames.push(frame);
    } catch (error) {
      this.#failure ??= error;
    }
    this.#wake();
  }

  /** The other side ended: whoever still waits will wait in vain. */
  ended(code: number | null): void {
    this.#failure ??= new Error(`the connection ended (${code})`);
    this.#wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.wire.close();
    await this.wire.closed;
    if (this.#failure instanceof assert.AssertionError) throw this.#failure;
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    waiting.forEach((wake) => wake());
  }
}

/** Connects to `/api/ws` of a service; resolves when the first frame, `gateway.ready`, is there. */
export async function connectSocket(
  service: { readonly url: string },
  path = `/api/ws?token=${KEY}`,
): Promise<RpcHost> {
  const host = new RpcHost();
  const socket = new WebSocket(`${service.url.replace(/^http/, "ws")}${path}`);
  socket.binaryType = "arraybuffer";
  const closed = Promise.withResolvers<number>();
  socket.addEventListener("message", ({ data }) => host.take(data));
  socket.addEventListener("error", () => {});
  socket.addEventListener("close", ({ code }) => {
    host.ended(code);
    closed.resolve(code);
  });
  host.wire = {
    send: (text) => socket.send(text as string),
    close: () => socket.close(),
    closed: closed.promise,
  };
  await host.event("gateway.ready");
  return host;
}

export interface RpcProcess extends RpcHost {
  readonly stderr: () => string;
  kill(signal: NodeJS.Signals): void;
  /** Nobody reads its standard output any more. */
  breakOutput(): void;
}

/** Starts `agentd rpc` on a home, or another command. */
export function spawnRpc(
  home: string,
  env: Readonly<Record<string, string>> = {},
  [file, ...words]: Command = agentdCommand("rpc", "--cwd", join(home, "workspace")),
  cwd?: string,
): ChildProcessWithoutNullStreams {
  return spawn(file, words, {
    cwd,
    env: programEnvironment({ AGENTD_HOME: home, ...env }),
    stdio: ["pipe", "pipe", "pipe"],
  });
}

/** As {@link spawnRpc}; resolves when the first frame is there. */
export async function startRpcProcess(
  home: string,
  env: Readonly<Record<string, string>> = {},
  command?: Command,
  cwd?: string,
): Promise<RpcProcess> {
  const child = spawnRpc(home, env, command, cwd);
  let errors = "";
  let rest = "";
  const host = new RpcHost();
  const closed = Promise.withResolvers<number | null>();
  child.stderr.on("data", (bytes: Uint8Array) => (errors += bytes.toString()));
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach((line) => host.take(line));
  });
  child.stdin.on("error", () => {});
  child.once("close", (code) => {
    host.ended(code);
    closed.resolve(code);
  });
  host.wire = {
    send: (text) => {
      child.stdin.write(text);
      child.stdin.write("\n");
    },
    close: () => void child.stdin.end(),
    closed: closed.promise,
  };
  await host.event("gateway.ready");
  const kill = (signal: NodeJS.Signals) => void process.kill(child.pid!, signal);
  const breakOutput = () => void child.stdout.destroy();
  return Object.assign(host, { stderr: () => errors, kill, breakOutput });
}
