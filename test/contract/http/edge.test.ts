/** What every request passes on its way in, for each operation that there is. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { sha256 } from "../../../src/base/text.ts";
import {
  assertError,
  operationsWith,
  scenario,
  scenarioOfAll,
  type NamedOperation,
} from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { send } from "../../harness/wire.ts";

const bearer = { authorization: `Bearer ${KEY}` };
/** The feed of events never ends. */
const NOT_A_STREAM = { accept: "application/json" };
const json = { "content-type": "application/json" };

/** Bodies that are accepted, of the operations that need one. */
const BODIES: Readonly<Record<string, object>> = {
  createChatCompletion: { messages: [{ role: "user", content: "hi" }] },
  createResponse: { input: "hi" },
  createRun: { input: "hi" },
  resolveRunApproval: { choice: "once" },
  steerRun: { input: "and now?" },
  stopRun: {},
  createSession: {},
  updateSession: { title: "another" },
  answerQuestion: { decline: true },
  createRoute: { name: "y", secret: "a-secret-of-the-tests" },
  updateRoute: { events: [] },
  rotateRouteSecret: {},
  testRoute: {},
  replayDelivery: {},
  replayDeliveries: { route: "x", from: 0 },
  sendMessage: { target: "local", text: "hi" },
  retryMessage: {},
  retryMessages: { status: ["dead"] },
  dropMessages: { status: ["dead"] },
  testPlatform: {},
  testModel: {},
  detectProviders: {},
  reloadMcp: {},
  importJobs: { jobs: [{ id: "0123456789ab", schedule: "daily", prompt: "hi" }] },
  createJob: { schedule: "daily", prompt: "hi" },
  updateJob: { name: "another" },
  pauseJob: {},
  resumeJob: {},
  createKey: { name: "y", scopes: ["read"] },
  updateKey: { scopes: ["read"] },
  rotateKey: {},
  drainService: {},
  createBackup: {},
  importBackup: {},
  reloadService: {},
  putVariable: { value: "x" },
  forkSession: {},
  compressSession: {},
  undoSession: {},
  updateConfig: { log: { level: "warn" } },
  createConsoleCode: {},
  createConsoleSession: { key: KEY },
};

/** Signs in with a key in its body: who may call it is in console-sign-in.test.ts. */
const SIGN_IN = ["createConsoleSession"];

/** Operations that use the database for an Idempotency-Key alone. */
const KEYED = new Set(["testPlatform", "testModel", "testRoute", "detectProviders", "reloadMcp"]);

/** Operations that use the database for the session of a browser alone. */
const OF_SESSION = new Set(["getConsoleSession", "deleteConsoleSession"]);

function aSessionOf({ service: { store } }: TestService): Record<string, string> {
  const name = `agentd_${sha256(store.epoch).slice(0, 8)}`;
  return { cookie: `${name}=${"x".repeat(43)}`, "sec-fetch-site": "same-origin" };
}

const pathOf = ({ route }: NamedOperation) =>
  route.replaceAll(/\{(sequence|index)\}/g, "1").replaceAll(/\{[^}]+\}/g, "x");

/** The routes are in a file: an operation that finds its route looks at the database next. */
async function writeSubscriptions(service: TestService, subscriptions: object): Promise<void> {
  const home = join(service.home, "agentd");
  await mkdir(home, { recursive: true });
  await writeFile(join(home, "webhook_subscriptions.json"), JSON.stringify(subscriptions));
}

/** A request that the operation accepts. */
function ask(
  service: TestService,
  operation: NamedOperation,
  headers: Record<string, string> = bearer,
): Promise<Response> {
  const { id, method, body } = operation;
  if (body && !BODIES[id]) throw new Error(`add a body for ${id} to BODIES`);
  return send(service, {
    method,
    path: pathOf(operation),
    headers: {
      ...(id === "streamEvents" ? NOT_A_STREAM : {}),
      ...(id === "updateConfig" ? { "if-match": "*" } : {}),
      ...(body ? json : {}),
      ...(SIGN_IN.includes(id) ? { origin: service.url } : {}),
      ...headers,
    },
    ...(body ? { body: JSON.stringify(BODIES[id]) } : {}),
  });
}

scenarioOfAll(
  401,
  {
    title: "every operation answers 401 without a key and its error conforms to the envelope",
    except: SIGN_IN,
  },
  async (service, operation) => {
    for (const [authorization, code] of [
      [undefined, "missing_api_key"],
      ["Basic eDp5", "missing_api_key"],
      ["Bearer wrong-key-0123456789", "invalid_api_key"],
    ] as const) {
      const response = await ask(service, operation, authorization === undefined ? {} : { authorization });
      assert.equal(response.headers.get("www-authenticate"), "Bearer");
      const { type } = await assertError(response, 401, code);
      assert.equal(type, "authentication_error");
    }
  },
);

scenarioOfAll(
  403,
  {
    title: "a page of a foreign origin",
    config: { api_server: { cors_origins: ["https://app.example"] } },
  },
  async (service, operation) => {
    const response = await ask(service, operation, { ...bearer, origin: "https://evil.example" });
    assert.equal(response.headers.get("access-control-allow-origin"), null);
    assert.equal((await assertError(response, 403, "origin_not_allowed")).type, "permission_error");
  },
);

scenarioOfAll(
  403,
  { title: "an unknown host name while keys are off", requireKey: false },
  async (service, operation) => {
    await assertError(await ask(service, operation, { host: "evil.example" }), 403, "host_not_allowed");
  },
);

scenarioOfAll(
  403,
  { title: "a foreign page while keys are off, even without CORS", requireKey: false },
  async (service, operation) => {
    const response = await ask(service, operation, { origin: "https://evil.example" });
    await assertError(response, 403, "origin_not_allowed");
    const [name] = [...response.headers.keys()].filter((each) => each.startsWith("access-control-"));
    assert.equal(name, undefined);
  },
);

const SCOPES = ["chat", "runs", "approvals", "sessions", "jobs", "webhooks", "messages", "read", "admin"];

test("each operation with each scope: the key is refused unless the scope is that of the operation, or admin", async () => {
  const all = operationsWith(403).filter(({ scope }) => scope !== undefined);
  assert.deepEqual(new Set(all.map(({ scope }) => scope)), new Set(SCOPES));
  // What follows a drain is refused for another reason.
  const ordered = all.toSorted((a, b) => Number(a.id === "drainService") - Number(b.id === "drainService"));
  for (const scope of SCOPES) {
    await using service = await startTestService({ keys: [{ key: KEY, name: "some", scopes: [scope] }] });
    for (const operation of ordered) {
      const response = await ask(service, operation);
      if (scope === "admin" || scope === operation.scope) {
        const { code } = response.status === 403 ? (await response.json()).error : { code: undefined };
        assert.notEqual(code, "insufficient_scope", `${operation.id} with ${scope}`);
        await response.body?.cancel().catch(() => {});
        continue;
      }
      const error = await assertError(response, 403, "insufficient_scope");
      assert.match(error.message, new RegExp(`"${operation.scope}"`), `${operation.id} with ${scope}`);
    }
  }
});

test("every operation with a scope 403: a key with all other scopes", async () => {
  // The scope admin contains the others.
  const every = SCOPES.filter((scope) => scope !== "admin");
  for (const scope of SCOPES) {
    const keys = [{ key: KEY, name: "some", scopes: every.filter((other) => other !== scope) }];
    await using service = await startTestService({ keys });
    for (const operation of operationsWith(403).filter((each) => each.scope === scope)) {
      const error = await assertError(await ask(service, operation), 403, "insufficient_scope");
      assert.match(error.message, new RegExp(`"${scope}"`), operation.id);
    }
  }
});

/** Those that tell a key what it may do, and what clients ask before anything else. */
const ANY_SCOPE: ReadonlySet<string> = new Set([
  "getCapabilities",
  "listModels",
  "getModel",
  "getConsoleSession",
  "deleteConsoleSession",
  "listConsoleSessions",
  "deleteConsoleSessions",
]);

test("every operation is public, or requires a key with one scope, or describes the key", () => {
  const all = operationsWith(200).concat(operationsWith(202));
  for (const isOpen of [true, false]) assert.ok(all.some(({ scope }) => (scope === undefined) === isOpen));
  for (const { id, security, scope } of all) {
    assert.equal(security.length === 0 || ANY_SCOPE.has(id), scope === undefined, id);
  }
});

scenarioOfAll(408, { title: "a body that does not come", config: slow() }, async (service, operation) => {
  const response = await send(service, {
    method: operation.method,
    path: pathOf(operation),
    headers: { ...bearer, ...json, "content-length": "100" },
    body: "{",
    keepOpen: true,
  });
  await assertError(response, 408, "request_timeout");
});

function slow() {
  return { limits: { body_timeout_seconds: 0.02 } };
}

scenarioOfAll(
  413,
  { title: "a body over the limit, before it is read", config: { limits: { max_body_bytes: 2000 } } },
  async (service, operation) => {
    const response = await send(service, {
      method: operation.method,
      path: pathOf(operation),
      headers: { ...bearer, ...json, "content-length": "2001" },
      keepOpen: true,
    });
    await assertError(response, 413, "body_too_large");
  },
);

scenarioOfAll(415, { title: "a body that is not JSON" }, async (service, operation) => {
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
    const headers = { ...bearer, "content-type": type };
    await assertError(await ask(service, operation, headers), 415, "unsupported_media_type");
  }
});

test("every operation with a body accepts JSON under any JSON content type, and without one", async () => {
  await using service = await startTestService();
  const withBody = operationsWith(415);
  assert.ok(withBody.length > 0);
  for (const operation of withBody) {
    for (const type of ["application/json; charset=utf-8", "Application/Vnd.Api+JSON", ""]) {
      const response = await ask(service, operation, { ...bearer, "content-type": type });
      assert.notEqual(response.status, 415, operation.id);
    }
    const { method } = operation;
    const body = JSON.stringify(BODIES[operation.id]);
    const bare = await send(service, { method, path: pathOf(operation), headers: bearer, body });
    assert.notEqual(bare.status, 415, operation.id);
  }
});

scenarioOfAll(
  429,
  {
    title: "a key that has made its requests of this minute",
    clock: new FakeClock(),
    except: SIGN_IN,
    keys: [
      { key: KEY, name: "busy", scopes: ["admin"], rateLimitRpm: 1 },
      { key: "another-key-0123456789", name: "calm", scopes: ["admin"], rateLimitRpm: 1_000_000 },
    ],
  },
  async (service, operation) => {
    await service.request("/v1/models");
    const response = await ask(service, operation);
    const seconds = Number(response.headers.get("retry-after"));
    assert.ok(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `Retry-After ${seconds}`);
    assert.equal(response.headers.get("x-should-retry"), null);
    const error = await assertError(response, 429, "rate_limit_exceeded");
    assert.equal(error.type, "rate_limit_error");
    const other = await ask(service, operation, { authorization: "Bearer another-key-0123456789" });
    assert.notEqual(other.status, 429);
  },
);

scenarioOfAll(503, { title: "the database cannot be reached" }, async (service, operation) => {
  // It looks at no database; what it answers 503 for is in meta.test.ts.
  if (operation.tags.includes("Health") && operation.security.length === 0) {
    await service.service.runs.drain(0);
    return void (await assertError(await ask(service, operation), 503, "server_draining"));
  }
  await writeSubscriptions(service, { x: { secret: "a-secret-of-the-tests" } });
  await service.service.store.close();
  const path = operation.id === "getDetailedHealth" ? "?strict=true" : "";
  // Only the key of such a request is in the database.
  const keyed = KEYED.has(operation.id) ? { ...bearer, "idempotency-key": "k" } : bearer;
  // Only the session of a browser is in the database.
  const headers = OF_SESSION.has(operation.id) ? aSessionOf(service) : keyed;
  const response = await ask(service, { ...operation, route: `${operation.route}${path}` }, headers);
  assert.equal(response.status, 503, await response.clone().text());
  if (operation.id === "getDetailedHealth") return; // answers with what it knows, see health.test.ts
  assert.equal(response.headers.get("retry-after"), "1");
  const error = await assertError(response, 503, "state_store_unavailable");
  assert.equal(error.type, "overloaded_error");
});

for (const id of ["createChatCompletion", "createResponse", "createRun"]) {
  scenario(id, 503, { title: "no new run while the server shuts down" }, async (service) => {
    await service.service.runs.drain(0);
    const operation = operationsWith(503).find((each) => each.id === id);
    assert.ok(operation);
    const response = await ask(service, operation);
    assert.equal(response.headers.get("retry-after"), "1");
    await assertError(response, 503, "server_draining");
    await assertError(await service.request("/health"), 503, "server_draining");
  });
}

/** They help active runs to their end, or look at what a backup or a page may still do. */
const WHILE_DRAINING: ReadonlySet<string> = new Set([
  "answerQuestion",
  "resolveRunApproval",
  "steerRun",
  "stopRun",
  "deleteResponse",
  "cancelResponse",
  "drainService",
  "createBackup",
  "createSocketTicket",
  "testRoute",
  "createConsoleCode",
  "createConsoleSession",
  "deleteConsoleSession",
  "deleteConsoleSessions",
]);

test("while the server drains, each operation that reads answers as before and each that writes is 503", async () => {
  await using service = await startTestService();
  await service.service.runs.drain(0);
  const wrong: string[] = [];
  for (const operation of operationsWith(401)) {
    const response = await ask(service, operation);
    const { code } = response.status === 503 ? (await response.json()).error : { code: null };
    const isRefused = operation.method !== "GET" && !WHILE_DRAINING.has(operation.id);
    if (code !== (isRefused ? "server_draining" : null)) wrong.push(`${operation.id}: ${code}`);
    await response.body?.cancel().catch(() => {});
  }
  assert.deepEqual(wrong, []);
});

test("the edge checks host, origin, key, rate and input, in this order", async () => {
  const wrong = {
    host: "evil.example",
    origin: "https://other.example",
    authorization: "Bearer wrong-key-0123456789",
    "content-type": "text/plain",
  };
  const path = "/v1/runs";
  const post = async (service: TestService, headers: Record<string, string>) => {
    const response = await send(service, { method: "POST", path, headers, body: "{}" });
    return (await response.json()).error.code;
  };
  await using open = await startTestService({ requireKey: false });
  assert.equal(await post(open, wrong), "host_not_allowed");
  assert.equal(await post(open, { ...wrong, host: "localhost" }), "origin_not_allowed");
  await using service = await startTestService({
    config: { api_server: { cors_origins: ["https://app.example"] } },
    keys: [{ key: KEY, name: "one", scopes: ["runs"], rateLimitRpm: 1 }],
  });
  assert.equal(await post(service, wrong), "origin_not_allowed");
  const page = { ...wrong, origin: "https://app.example" };
  assert.equal(await post(service, page), "invalid_api_key");
  const known = { ...page, ...bearer };
  assert.equal(await post(service, known), "unsupported_media_type");
  assert.equal(await post(service, known), "rate_limit_exceeded");
});

test("a refused key does not count for the rate limit of any key", async () => {
  const keys = [{ key: KEY, name: "one", scopes: ["read"], rateLimitRpm: 1 }];
  await using service = await startTestService({ keys });
  for (let i = 0; i < 3; i++) {
    assert.equal((await service.chat({})).status, 403);
    assert.equal((await fetch(`${service.url}/v1/models`)).status, 401);
    assert.equal((await fetch(`${service.url}/health`)).status, 200);
  }
  assert.equal((await service.request("/v1/models")).status, 200);
  assert.equal((await service.request("/v1/models")).status, 429);
});
