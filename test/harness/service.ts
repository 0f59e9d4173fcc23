/** A real service on a free port, over a fresh database and a fresh home. */
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import { configSchema } from "../../generated/config/schema.gen.ts";
import type { Engine } from "../../src/agent/engine.ts";
import type { Tool } from "../../src/agent/tool/tool.ts";
import { createScriptedEngine, type Script } from "../../src/agent/engines/scripted.ts";
import { createModelCatalog, type ModelProvider } from "../../src/agent/model.ts";
import { systemClock, type Clock } from "../../src/base/time.ts";
import { createLog, type LogLevel } from "../../src/base/observe.ts";
import { sha256 } from "../../src/base/text.ts";
import { applyDefaults } from "../../src/base/schema.ts";
import { Variables } from "../../src/config/variables.ts";
import { startService, type Service } from "../../src/app/service.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { createTestDatabase } from "./store.ts";

export const KEY = "test-key-0123456789abcdef";

export interface TestServiceOptions {
  /** Variables of the process, besides those of the home's `.env` file. */
  readonly env?: Readonly<Record<string, string>>;
  readonly script?: Script;
  readonly engine?: Engine;
  readonly tools?: readonly Tool[];
  /** Deep partial of the configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly keys?: readonly {
    readonly key: string;
    readonly name: string;
    readonly owner?: string;
    readonly scopes: readonly string[];
    readonly rateLimitRpm?: number;
    readonly maxConcurrentRuns?: number;
    readonly dayBudgetUsd?: number;
  }[];
  /** False: no key is asked for. */
  readonly requireKey?: boolean;
  readonly providers?: readonly ModelProvider[];
  readonly clock?: Clock;
  /** Level of the log whose lines are in `logLines`; default info. */
  readonly logLevel?: LogLevel;
  /** Of the configuration, as boot finds them. */
  readonly configProblems?: readonly string[];
  /** What the service gets instead of its store. */
  readonly wrapStore?: (store: Store) => Store;
  /** The built console; default: none. */
  readonly consoleFolder?: URL;
  /** Shares the database and home of a service, which removes them. */
  readonly like?: TestService;
}

export type TestRequest = Omit<RequestInit, "headers"> & {
  readonly headers?: Readonly<Record<string, string>>;
};

export class TestService implements AsyncDisposable {
  readonly url: string;
  readonly service: Service;
  readonly home: string;
  readonly workspace: string;
  readonly database: { readonly url: string; drop(): Promise<void> };
  /** `operation status` of every answer. */
  readonly seen: Set<string>;
  readonly logLines: string[];
  readonly clock: Clock;
  /** Whose database and home it shares. */
  readonly #like: TestService | undefined;
  #keepFiles = false;
  #isGone = false;

  constructor(
    from: Omit<TestService, "request" | "chat" | "json" | "restart" | typeof Symbol.asyncDispose>,
    like?: TestService,
  ) {
    this.#like = like;
    this.url = from.url;
    this.service = from.service;
    this.home = from.home;
    this.workspace = from.workspace;
    this.database = from.database;
    this.seen = from.seen;
    this.logLines = from.logLines;
    this.clock = from.clock;
  }

  /** A request with the test key, unless the headers say otherwise (an empty authorization sends none). */
  request(path: string, init: TestRequest = {}): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${KEY}`, ...init.headers };
    if (headers["authorization"] === "") delete headers["authorization"];
    return fetch(`${this.url}${path}`, { ...init, headers });
  }

  chat(
    body: unknown,
    init: { headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Response> {
    return this.request("/v1/chat/completions", {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
      ...(init.signal ? { signal: init.signal } : {}),
      headers: { "content-type": "application/json", ...init.headers },
    });
  }

  /** Stops the service and starts another on the same database and home. */
  async restart(options: TestServiceOptions = {}): Promise<TestService> {
    this.#keepFiles = true;
    await this[Symbol.asyncDispose]();
    return startTestService({ ...options, like: this });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service.stop({ graceMs: 0 });
    if (this.#keepFiles || this.#isGone) return;
    this.#isGone = true;
    // The service that they belong to removes them, once: on PostgreSQL another test uses the schema then.
    if (this.#like && !this.#like.#keepFiles) return;
    await this.database.drop();
    await rm(this.home, { recursive: true, force: true });
  }
}

export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const { like, clock = systemClock } = options;
  const home = like?.home ?? (await realpath(await mkdtemp(join(tmpdir(), "agentd-test-"))));
  const database = like?.database ?? (await createTestDatabase({ isOwn: true }));
  const seen = new Set<string>();
  const logLines: string[] = [];
  const config = testConfig(options.config);
  const service = await startService({
    config,
    fileConfig: applyDefaults(configSchema, {}) as Config,
    paths: { agentHome: join(home, "agentd"), userHome: home, workspace: home, databaseUrl: database.url },
    keys: keyRing(options),
    models: createModelCatalog({ providers: options.providers ?? [] }),
    engine: options.engine ?? createScriptedEngine(options.script ?? (() => ({ text: "hello" })), { clock }),
    env: options.env ?? {},
    variables: await Variables.open({ env: options.env ?? {}, home: join(home, "agentd") }),
    ...(options.tools ? { tools: options.tools } : {}),
    version: "0.0.0-test",
    ...(options.configProblems ? { configProblems: options.configProblems } : {}),
    log: createLog(options.logLevel ?? "info", (line) => void logLines.push(line)),
    clock,
    validateResponses: true,
    consoleFolder: options.consoleFolder ?? new URL("file:///nonexistent/"),
    ...(options.wrapStore
      ? { store: options.wrapStore(await openStore({ url: database.url, now: () => clock.now() })) }
      : {}),
    observe: (operation, status) => void seen.add(`${operation} ${status}`),
  });
  const parts = { url: service.url, service, home, workspace: home, database, seen, logLines, clock };
  return new TestService(parts, like);
}

/** The defaults with `overrides` on top, on any free port. */
export function testConfig(overrides: Readonly<Record<string, unknown>> = {}): Config {
  const base = { api_server: { port: 0 }, limits: { max_concurrent_runs: 0 }, terminal: { sandbox: "off" } };
  return applyDefaults(configSchema, merge(base, overrides)) as Config;
}

function merge(a: Record<string, unknown>, b: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const out = { ...a };
  for (const [key, value] of Object.entries(b)) {
    const old = out[key];
    const isNested = isObject(old) && isObject(value);
    out[key] = isNested ? merge(old, value) : value;
  }
  return out;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function keyRing({ keys, requireKey = true }: TestServiceOptions) {
  const ring = keys ?? [{ key: KEY, name: "default", scopes: ["admin"] }];
  const find = (presented: string) => ring.find(({ key }) => key === presented);
  const digestOf = (name: string) => {
    const found = ring.find((each) => each.name === name);
    return found && sha256(found.key);
  };
  return { required: requireKey, find, holders: ring, digestOf };
}
