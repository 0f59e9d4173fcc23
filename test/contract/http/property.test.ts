/**
 * Requests made from the spec: right ones, and ones that are wrong in exactly one place. AGENTD_PROPERTY_RUNS says how
 * many of each for an operation, AGENTD_PROPERTY_SEED where the dice begin.
 */
import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import fc, { type Arbitrary } from "fast-check";
import { specSchemas } from "../../../src/http/schemas.ts";
import { fitting, spoiled, type Tastes } from "../../harness/arbitrary.ts";
import { assertHealthy, operationsWith, type NamedOperation } from "../../harness/scenario.ts";
import { startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";

const RUNS = Number(process.env["AGENTD_PROPERTY_RUNS"] ?? 12);
const SEED = Number(process.env["AGENTD_PROPERTY_SEED"] ?? 8642);
/** Longest that one property may take. */
const PATIENCE_MS = 15_000;

const all = [...operationsWith(200), ...operationsWith(202)];

interface Request {
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Things that exist, so that requests get further than the first look-up. */
interface Known {
  readonly run: string;
  readonly response: string;
}

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
// Nothing here leaves this machine: addresses are none, or ones that are refused.
const address = fc.constantFrom(
  `data:image/png;base64,${PNG}`,
  "data:,",
  "data:image/png;base64,%%%",
  "http://127.0.0.1:1/x.png",
  "not an address",
  "",
);
const kind = fc.constantFrom(
  "text",
  "input_text",
  "output_text",
  "image_url",
  "input_image",
  "file",
  "input_file",
);

const part = fc.record(
  {
    type: kind,
    text: fc.string(),
    image_url: fc.oneof(address, fc.record({ url: address }), fc.constant(null)),
    file: fc.record({ file_data: address, filename: fc.string() }, { requiredKeys: [] }),
    file_data: address,
    filename: fc.string(),
  },
  { requiredKeys: ["type"] },
);

function tastesFor(known: Known): Tastes {
  const content = fc.oneof(fc.string(), fc.array(part, { maxLength: 3 }));
  const item = fc.oneof(
    fc.record({ role: fc.constantFrom("user", "assistant", "system"), content }),
    fc.record({ type: fc.constant("message"), role: fc.constant("user"), content }),
    fc.record({ type: fc.constant("function_call_output"), call_id: fc.string(), output: content }),
    fc.record({
      type: fc.constantFrom("function_call", "reasoning", "item_reference", "mcp_call", "other"),
      id: fc.string(),
      call_id: fc.string(),
      name: fc.string(),
      arguments: fc.string(),
    }),
  );
  return {
    ContentPart: part,
    InputItem: item,
    Webhook: fc.record({
      url: fc.constantFrom("http://127.0.0.1/x", "nowhere"),
      secret: fc.constantFrom("s".repeat(16), "whsec_%%%%%%%%%%"),
    }),
    model: fc.constantFrom("agentd", "demo:demo", "gpt-none", ""),
    previous_response_id: fc.constantFrom(known.response, "resp_none", null),
    toolsets: fc.constantFrom(["files"], ["nothing"], []),
    session_id: fc.constantFrom("s1", "s2", "a/b", ""),
    choice: fc.constantFrom("once", "approve", "denied", "perhaps"),
    n: fc.constantFrom(1, 2, null),
  };
}

/** Values that travel in headers; the spec's own limits for them are words, so some miss. */
const headerTastes: Readonly<Record<string, Arbitrary<string>>> = {
  "x-agent-session-id": fc.constantFrom("s1", "s2", "a/b", "..", "x".repeat(257)),
  "x-agent-session-key": fc.constantFrom("k1", "k 2", "x".repeat(257)),
  "x-agent-model": fc.constantFrom("demo:demo", "demo", "nobody:none", "two words"),
  "x-agent-progress": fc.constantFrom("1", "0", "yes"),
  "idempotency-key": fc.oneof(
    fc.string({ minLength: 1, maxLength: 8, unit: fc.constantFrom(..."abc123-_~") }),
    fc.constantFrom("two words", "x".repeat(256)),
  ),
  "last-event-id": fc.constantFrom("0", "1", "999999", "-1", "x", "1.5"),
};

function requestFor({ path, query, headers, body }: NamedOperation, known: Known): Arbitrary<Request> {
  const ids: Readonly<Record<string, string>> = {
    run_id: known.run,
    response_id: known.response,
    model: "agentd",
  };
  const places = Object.keys(path?.coerce ?? {}).map((name) => {
    const odd = fc.constantFrom("x", "run_none", "%00", "a b", "\u{1f600}", "'; drop table runs; --");
    return [name, fc.oneof({ weight: 3, arbitrary: fc.constant(ids[name] ?? "x") }, odd)] as const;
  });
  const sent = Object.keys(headers?.coerce ?? {}).map(
    (name) =>
      [name, headerTastes[name] ?? fc.string({ unit: "grapheme-ascii" }).map((text) => text.trim())] as const,
  );
  return fc.record({
    path: fc.record(Object.fromEntries(places)),
    query: query ? (fitting(query.schema) as Arbitrary<Request["query"]>) : fc.constant({}),
    headers: fc.record(Object.fromEntries(sent), { requiredKeys: [] }) as Arbitrary<Request["headers"]>,
    body: body && !body.raw ? fitting(body.schema, tastesFor(known)) : fc.constant(undefined),
  });
}

/** One thing wrong with the query or the body; undefined when there is nothing that could be. */
function wrongRequestFor(
  operation: NamedOperation,
  known: Known,
): Arbitrary<{ what: string; request: Request }> {
  const right = requestFor(operation, known).map((request) => ({ ...request, headers: {} }));
  return fc.tuple(right, fc.nat()).chain(([request, dice]) => {
    const { query, body } = operation;
    const ways = [
      ...(query ? spoiled(query.schema, request.query) : [])
        .filter(({ value }) => survives(operation, value))
        .map(({ what, value }) => ({ what, request: { ...request, query: value as Request["query"] } })),
      ...(body && !body.raw ? spoiled(body.schema, request.body) : []).map(({ what, value }) => ({
        what,
        request: { ...request, body: value },
      })),
    ];
    const way = ways[dice % Math.max(1, ways.length)];
    return fc.constant(way ?? { what: "nothing", request });
  });
}

/** Whether a wrong query is still wrong after it became text and was read again. */
function survives({ query }: NamedOperation, value: unknown): boolean {
  if (!query || typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const members = Object.entries(value).filter(([name]) => query.coerce[name] !== undefined);
  const read = members.map(([name, item]) => [name, asRead(query.coerce[name], String(item))]);
  return specSchemas.check(query.schema, Object.fromEntries(read)) !== undefined;
}

function asRead(coercion: string | undefined, text: string): unknown {
  if (coercion === "string") return text;
  if (coercion === "boolean") return text === "true" ? true : text === "false" ? false : text;
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

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
  assert.notEqual(response.status, 500, await response.clone().text());
  assert.ok(response.headers.get("x-request-id"));
  if (type.startsWith("text/event-stream")) {
    assert.ok(declared.sse, `${id} streams`);
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

async function makeKnown(service: TestService): Promise<Known> {
  const headers = { "content-type": "application/json" };
  const post = async (path: string, body: object) =>
    (await service.request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
  const response = await post("/v1/responses", { input: "hi" });
  const run = await post("/v1/runs", { input: "hi" });
  await service.request(`/v1/runs/${run.run_id}?wait=10`);
  return { run: run.run_id, response: response.id };
}

/** Runs the check over requests of every operation, against one service that must come through it unharmed. */
async function tryAll(
  check: (service: TestService, operation: NamedOperation, known: Known) => fc.IAsyncProperty<[never]>,
): Promise<void> {
  await using service = await startTestService();
  const known = await makeKnown(service);
  for (const operation of all) {
    const options = { numRuns: RUNS, seed: SEED, interruptAfterTimeLimit: PATIENCE_MS };
    await fc.assert(check(service, operation, known), options);
  }
  await assertHealthy(service);
  const undeclared = [...service.seen].filter((answer) => answer.endsWith(" 0"));
  assert.deepEqual(undeclared, []);
  const errors = service.logLines.filter((line) => line.includes('"level":"error"'));
  assert.deepEqual(errors, []);
}

test("every operation answers what the spec lists to any request that fits the spec", () =>
  tryAll(
    (service, operation, known) =>
      fc.asyncProperty(requestFor(operation, known), async (request) => {
        await assertDeclared(operation, await send(service, operation, request));
      }) as never,
  ));

test("every operation refuses a request that is wrong in one place, with 400 and where", () =>
  tryAll(
    (service, operation, known) =>
      fc.asyncProperty(wrongRequestFor(operation, known), async ({ what, request }) => {
        fc.pre(what !== "nothing" || !(operation.query || operation.body));
        if (what === "nothing") return;
        const response = await send(service, operation, request);
        assert.equal(response.status, 400, `${operation.id}: ${what}: ${await response.clone().text()}`);
        await assertDeclared(operation, response);
      }) as never,
  ));
