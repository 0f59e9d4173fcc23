/** The receiver of webhooks inside a real service: signed requests to it, each answer held against the spec. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { test } from "node:test";
import type { WebhookRouteConfig } from "../../generated/config/types.gen.ts";
import { schemas } from "../../generated/webhook/schemas.gen.ts";
import { operations, type OperationId } from "../../generated/webhook/server.gen.ts";
import { SchemaSet } from "../../src/base/schema.ts";
import { createTargets } from "../../src/deliver/target.ts";
import { createLogTarget } from "../../src/deliver/targets/local.ts";
import { listen, type Listener } from "../../src/gateway/listen.ts";
import type { DeliveryBodyRow, DeliveryRow } from "../../src/store/schema/tables.ts";
import { createWebhookApp } from "../../src/webhook/receive/receive.ts";
import type { WebhookDeps } from "../../src/webhook/deps.ts";
import { createReceiver } from "../../src/webhook/receiver.ts";
import { startTestService, testConfig, type TestService, type TestServiceOptions } from "./service.ts";

/** The secret of routes that name none. */
export const SECRET = "s3cr3t-of-the-tests";

export interface WebhookServiceOptions extends TestServiceOptions {
  readonly routes?: Readonly<Record<string, Partial<WebhookRouteConfig>>>;
  /** Of `platforms.webhook`, besides the routes. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- check\(\) validates it against the spec
  readonly body: any;
}

export interface Post {
  /** Default: {@link SECRET}; null sends no signature. */
  readonly secret?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
  readonly signal?: AbortSignal;
}

/** A delivery with its body. */
export type RecordedDelivery = DeliveryRow & Pick<DeliveryBodyRow, "payload" | "rendered">;

/** Starts a service that receives webhooks on loopback, on any free port. */
export async function startWebhookService(options: WebhookServiceOptions = {}): Promise<WebhookService> {
  return new WebhookService(await startTestService(withReceiver(options)));
}

/** Returns options of a service that receives webhooks on loopback, on any free port. */
export function withReceiver({
  routes = { hook: {} },
  settings,
  ...rest
}: WebhookServiceOptions = {}): TestServiceOptions {
  const webhook = {
    enabled: true,
    host: "127.0.0.1",
    port: 0,
    secret: SECRET,
    rate_limit: 1000,
    ...settings,
    routes,
  };
  const platforms = { ...Object(rest.config?.["platforms"]), webhook };
  return { ...rest, config: { ...rest.config, platforms } };
}

/** Serves a receiver with changed dependencies that no configuration produces, over real HTTP and the service's store. */
export async function serveChangedDeps(
  service: WebhookService,
  change: (deps: WebhookDeps) => Partial<WebhookDeps>,
): Promise<WebhookService> {
  const { home, service: running } = service.test;
  const { agent, skills } = running.deps;
  const { log, clock } = agent.deps;
  const opened = createReceiver(
    {
      config: testConfig(withReceiver({}).config),
      env: {},
      paths: { agentHome: join(home, "agentd"), userHome: home, workspace: home },
    },
    { agent, skills, targets: createTargets([createLogTarget(log)]) },
  );
  assert.ok(opened);
  const deps = { ...opened.deps, ...change(opened.deps) };
  const app = createWebhookApp(deps);
  const listener = await listen(app, { host: "127.0.0.1", port: 0, maxBodyBytes: 2_000_000, clock });
  return new ChangedService(service, listener);
}

export class WebhookService implements AsyncDisposable {
  readonly test: TestService;
  readonly url: string;
  /** `operation status` of every answer, and `operation status header` of what the spec lists with it. */
  readonly seen: Set<string>;

  constructor(service: TestService, url = service.service.webhookUrl, seen = new Set<string>()) {
    assert.ok(url, "the receiver does not listen");
    this.test = service;
    this.url = url;
    this.seen = seen;
  }

  /** Posts to a route: text and bytes as they are, anything else as JSON. Signed as the code host does it. */
  async post(
    route: string,
    body: unknown = {},
    { secret = SECRET, headers, method = "POST", signal }: Post = {},
  ) {
    const bytes = bytesOf(body);
    const signature: Record<string, string> =
      secret === null ? {} : { "x-hub-signature-256": sign(bytes, secret) };
    const response = await fetch(`${this.url}/webhooks/${route}`, {
      method,
      headers: { "content-type": "application/json", ...signature, ...headers },
      ...(signal ? { signal } : {}),
      ...(method === "GET" || method === "HEAD" ? {} : { body: bytes }),
    });
    const isAtSecretPath = route.includes("/");
    return this.check(isAtSecretPath ? "receiveWebhookAtSecretPath" : "receiveWebhook", response);
  }

  async health(): Promise<Answer> {
    return this.check("getHealth", await fetch(`${this.url}/health`));
  }

  /** Reads an answer and holds it against the spec: its status, headers and body. */
  async check(operation: OperationId, response: Response): Promise<Answer> {
    const { status, headers } = response;
    const text = await response.text();
    const declared = operations[operation].responses[String(status)];
    assert.ok(declared, `${operation} answered ${status}, which the spec does not list: ${text}`);
    this.seen.add(`${operation} ${status}`);
    for (const name of declared.headers) {
      assert.ok(headers.has(name), `${operation} ${status} has no ${name}`);
      this.seen.add(`${operation} ${status} ${name}`);
    }
    for (const name of ["allow", "retry-after"]) {
      assert.ok(!headers.has(name) || declared.headers.includes(name), `${operation} ${status} has ${name}`);
    }
    // A HEAD has none.
    if (text === "") return { status, headers, body: undefined };
    if (declared.json === undefined) {
      assert.equal(headers.get("content-type"), declared.raw);
      return { status, headers, body: text };
    }
    assert.equal(headers.get("content-type"), "application/json");
    const body: unknown = JSON.parse(text);
    assert.equal(
      answerSchemas.check(declared.json, body)?.map(({ path, message }) => `${path} ${message}`),
      undefined,
    );
    return { status, headers, body };
  }

  /** The record, oldest first. */
  deliveries(): Promise<readonly RecordedDelivery[]> {
    const { read } = this.test.service.store;
    return read
      .selectFrom("deliveries")
      .leftJoin("delivery_bodies", "delivery_bodies.id", "deliveries.id")
      .selectAll("deliveries")
      .select(["payload", "rendered"])
      .orderBy("deliveries.id")
      .execute();
  }

  /** Resolves to the deliveries once `until` holds. Stopped requests are recorded after their answer. */
  async recorded(
    until: (rows: readonly RecordedDelivery[]) => boolean,
  ): Promise<readonly RecordedDelivery[]> {
    const patience = AbortSignal.timeout(60_000);
    for (;;) {
      const rows = await this.deliveries();
      if (until(rows)) return rows;
      patience.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Lines of the log with this message, as they were written. */
  logged(message: string): readonly Readonly<Record<string, unknown>>[] {
    const entries = this.test.logLines.map((line) => JSON.parse(line) as Record<string, unknown>);
    return entries.filter((entry) => entry["message"] === message);
  }

  /** Resolves to the lines with this message once there are `count`: some are written after what they tell of is stored. */
  async loggedSoon(message: string, count = 1): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const patience = AbortSignal.timeout(60_000);
    for (;;) {
      const lines = this.logged(message);
      if (lines.length >= count) return lines;
      patience.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Stops the service and starts another on the same database and home. */
  async restart(options: WebhookServiceOptions = {}): Promise<WebhookService> {
    return new WebhookService(await this.test.restart(withReceiver(options)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.test[Symbol.asyncDispose]();
  }
}

/** A second receiver of a service, which lives on when this one ends. */
class ChangedService extends WebhookService {
  readonly #listener: Listener;

  constructor(service: WebhookService, listener: Listener) {
    super(service.test, listener.url, service.seen);
    this.#listener = listener;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await this.#listener.close(0);
  }
}

const answerSchemas = new SchemaSet(schemas);

export function bytesOf(body: unknown): Uint8Array<ArrayBuffer> {
  if (body instanceof Uint8Array) return new Uint8Array(body);
  return new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
}

/** `sha256=` and the hex MAC, as `X-Hub-Signature-256` carries it. */
export function sign(body: Uint8Array, secret: string = SECRET): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}

/**
 * Registers the test `title`. It fails unless the receiver gave what is `proven`: `operation status` or
 * `operation status header`. coverage.test.ts counts them.
 */
export function webhookScenario(
  proven: string | readonly string[],
  title: string,
  run: (service: WebhookService) => Promise<void>,
  options: WebhookServiceOptions = {},
): void {
  test(title, async () => {
    await using service = await startWebhookService(options);
    await run(service);
    for (const each of [proven].flat()) assert.ok(service.seen.has(each), `never seen: ${each}`);
  });
}
