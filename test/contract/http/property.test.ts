/**
 * Requests made from the spec: right ones, and ones that are wrong in exactly one place. AGENTD_PROPERTY_RUNS says how
 * many of each for an operation, AGENTD_PROPERTY_SEED where the dice begin.
 */
import assert from "node:assert/strict";
import process from "node:process";
import { test, type TestContext } from "node:test";
import fc from "fast-check";
import type { ScriptState, ScriptStep } from "../../../src/agent/engines/scripted.ts";
import { specSchemas } from "../../../src/http/edge/input.ts";
import { assertHealthy, operationsWith, type NamedOperation } from "../../harness/scenario.ts";
import { oncePerFile } from "../../harness/guard.ts";
import { startTestService, type TestService } from "../../harness/service.ts";
import {
  CLIENT_TOOL,
  requestFor,
  wrongRequestFor,
  type Known,
  type Request,
} from "../../harness/spec-request.ts";
import { readFrames } from "../../harness/sse.ts";

const RUNS = Number(process.env["AGENTD_PROPERTY_RUNS"] ?? 15);
const SEED = Number(process.env["AGENTD_PROPERTY_SEED"] ?? 8642);
/** Longest that one property may take. */
const PATIENCE_MS = 60_000;

/** Streams that go on for as long as their reader stays. */
const ENDLESS: ReadonlySet<string> = new Set(["streamSessionEvents", "listLogs"]);

/** It would end the service that the other requests need. */
const LEFT_OUT: ReadonlySet<string> = new Set(["drainService"]);

/** What removes things comes last. */
const all = [...operationsWith(200), ...operationsWith(202)]
  .filter(({ id }) => !LEFT_OUT.has(id))
  .toSorted((a, b) => Number(a.method === "DELETE") - Number(b.method === "DELETE"));

async function send(service: TestService, operation: NamedOperation, request: Request): Promise<Response> {
  const path = operation.route.replaceAll(/\{([^}]+)\}/g, (_, name: string) =>
    encodeURIComponent(request.path[name] ?? "x"),
  );
  const query = new URLSearchParams(
    Object.entries(request.query).map(([name, value]) => [name, String(value)]),
  );
  return service.request(`${path}?${query}`, {
    method: operation.method,
    headers: {
      // The feed of events never ends.
      ...(operation.id === "streamEvents" ? { accept: "application/json" } : {}),
      ...request.headers,
      ...(request.body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
}

/** The answer is one that the spec lists for the operation, to the last field. */
async function assertDeclared({ id, responses }: NamedOperation, response: Response): Promise<void> {
  const declared = responses[String(response.status)];
  const type = response.headers.get("content-type") ?? "";
  if (!declared) return assert.fail(`${id} answered ${response.status}: ${await response.text()}`);
  if (response.status === 500) return assert.fail(`${id} failed: ${await response.text()}`);
  assert.ok(response.headers.get("x-request-id"));
  if (type.startsWith("text/event-stream")) {
    assert.ok(declared.sse, `${id} streams`);
    if (ENDLESS.has(id)) return response.body?.cancel();
    for await (const { data } of readFrames(response)) {
      if (data === undefined || data === "[DONE]") continue;
      assert.deepEqual(specSchemas.check(declared.sse, JSON.parse(data)), undefined, data);
    }
    return;
  }
  const text = await response.text();
  if (declared.raw !== undefined) return assert.equal(type, declared.raw);
  assert.ok(declared.json, `${id} ${response.status} has a body: ${text}`);
  assert.deepEqual(specSchemas.check(declared.json, JSON.parse(text)), undefined, text);
}

/** Thinks, calls the client's tool where there is one, answers. */
function script({ tools: offered, user }: ScriptState): ScriptStep {
  const reasoning = "Let me see.";
  if (offered.includes(CLIENT_TOOL))
    return { reasoning, calls: [{ tool: CLIENT_TOOL, input: { about: user } }] };
  return { reasoning, text: `You said: ${user}`, chunkSize: 8 };
}

async function makeKnown(service: TestService): Promise<Known> {
  const headers = { "content-type": "application/json" };
  const post = async (path: string, body: object) =>
    (await service.request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
  const response = await post("/v1/responses", { input: "hi" });
  const run = await post("/v1/runs", { input: "hi" });
  await service.request(`/v1/runs/${run.run_id}?wait=10`);
  return { run: run.run_id, response: response.id, session: run.session_id };
}

const openService = () =>
  oncePerFile(() => startTestService({ script, config: { limits: { max_stored_responses: 10_000 } } }));
// The operations share a service, so leaks show at the end of the file.
const services = { valid: openService(), wrong: openService() };

/** Runs the check over requests of every operation, against one service that must come through it unharmed. */
async function tryAll(
  context: TestContext,
  kind: keyof typeof services,
  check: (service: TestService, operation: NamedOperation, known: Known) => fc.IAsyncProperty<[never]>,
): Promise<void> {
  const service = await services[kind]();
  const known = await makeKnown(service);
  for (const operation of all) {
    const options = { numRuns: RUNS, seed: SEED, interruptAfterTimeLimit: PATIENCE_MS };
    await context.test(operation.id, () => fc.assert(check(service, operation, known), options));
  }
  await assertHealthy(service);
  const undeclared = [...service.seen].filter((answer) => answer.endsWith(" 0"));
  assert.deepEqual(undeclared, []);
  const errors = service.logLines.filter((line) => line.includes('"level":"error"'));
  assert.deepEqual(errors, []);
}

test("every operation answers any valid request as the spec lists", (context) =>
  tryAll(
    context,
    "valid",
    (service, operation, known) =>
      fc.asyncProperty(requestFor(operation, known), async (request) => {
        await assertDeclared(operation, await send(service, operation, request));
      }) as never,
  ));

test("every operation refuses a request with one error with 400 and its path", (context) =>
  tryAll(
    context,
    "wrong",
    (service, operation, known) =>
      fc.asyncProperty(wrongRequestFor(operation, known), async (wrong) => {
        if (!wrong) return;
        const response = await send(service, operation, wrong.request);
        assert.equal(
          response.status,
          400,
          `${operation.id}: ${wrong.what}: ${await response.clone().text()}`,
        );
        await assertDeclared(operation, response);
      }) as never,
  ));
