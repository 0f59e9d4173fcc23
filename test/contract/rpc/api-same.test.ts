/** `api.call` gives what HTTP gives: the same answers to what works, and the same refusals. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import { operations, type OperationId } from "../../../generated/http/server.gen.ts";
import { post } from "../../harness/runs.ts";
import { connectSocket, type Json, type RpcHost } from "../../harness/rpc.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { occurrenceRow } from "../../unit/store/rows.ts";
import { sendWrite, startForWrites, writes } from "../../harness/writes.ts";

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Json;
}

const all = Object.entries(operations) as [OperationId, OperationMeta][];

/** What a call cannot pass on, and what sets or needs the cookie of a browser. */
const OVER_HTTP_ONLY: Partial<Record<OperationId, string>> = {
  streamRunEvents: "it streams",
  streamSessionEvents: "it streams",
  createBackup: "it answers with bytes",
  importBackup: "it takes bytes",
  createConsoleSession: "it gives a browser a cookie",
  deleteConsoleSession: "it takes the cookie of a browser back",
};

/** Of these, only the refusals are compared. */
const ONLY_REFUSED: Partial<Record<OperationId, string>> = {
  testPlatform: "it sends a message to a platform",
  getConsoleSession: "it needs the cookie of a browser",
};

/** Their answers have a figure of the moment: the time, the free memory, the requests so far. */
const OF_THE_MOMENT: ReadonlySet<OperationId> = new Set([
  "getCalendar",
  "getDetailedHealth",
  "getDoctor",
  "getMetrics",
  "previewSchedule",
]);

const QUERIES: Partial<Record<OperationId, Readonly<Record<string, string>>>> = {
  previewSchedule: { schedule: "every 1h" },
};

test("api.call and HTTP answer the same for every operation", async () => {
  await using one = await startForWrites();
  await using two = await startForWrites();
  await using host = await connectSocket(two, `/api/ws?token=${KEY}`);
  const compared = all.filter(([id]) => !(id in OVER_HTTP_ONLY) && !(id in ONLY_REFUSED));
  const changing = compared.filter(([id, { method }]) => method !== "GET" && id !== "drainService");
  for (const [id] of changing) await compareWrite(id, [one, two], host);
  const known = await knownIn(two);
  for (const [id, { method }] of compared) if (method === "GET") await compareRead(id, known, two, host);
  await compareWrite("drainService", [one, two], host);
});

/** Makes the same request of two services that have done the same: over HTTP of one, over a connection to the other. */
async function compareWrite(
  id: OperationId,
  [one, two]: readonly [TestService, TestService],
  host: RpcHost,
): Promise<void> {
  const prepare = writes[id] ?? assert.fail(`add a request for ${id} to test/harness/writes.ts`);
  const sent = await answerOf(await sendWrite(one, id, await prepare(one)));
  assert.ok(sent.status < 300, `${id}: ${sent.status} ${JSON.stringify(sent.body)}`);
  const { path, body } = await prepare(two);
  const called: Answer = await host.result("api.call", {
    operation: id,
    path: pathOf(id, path),
    ...(body ? { body } : {}),
    ...(id === "updateConfig" ? { headers: { "if-match": "*" } } : {}),
  });
  assert.deepEqual(masked(called), masked(sent), id);
}

/** Reads the same of one service, over HTTP before and after the call, until nothing has changed in between. */
async function compareRead(
  id: OperationId,
  known: Readonly<Record<string, string>>,
  service: TestService,
  host: RpcHost,
): Promise<void> {
  const { route, path, query: allowed } = operations[id] as OperationMeta;
  const values = Object.fromEntries(
    Object.keys(path?.coerce ?? {}).map((name) => [name, known[name] ?? assert.fail(`${id}: ${name}`)]),
  );
  const query = QUERIES[id] ?? (allowed?.coerce["limit"] === undefined ? {} : { limit: "2" });
  const headers = { "x-request-id": "req_same" };
  const url = route.replace(/\{([^}]+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
  const read = async () => {
    const init = { headers: { accept: "application/json", ...headers }, redirect: "manual" } as const;
    const answer = await answerOf(await service.request(`${url}?${new URLSearchParams(query)}`, init));
    assert.ok(answer.status < 400, `${id}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return readable(id, answer);
  };
  for (;;) {
    const before = await read();
    const called = await host.result("api.call", { operation: id, path: values, query, headers });
    if (!isDeepStrictEqual(before, await read())) continue;
    return assert.deepEqual(readable(id, called), before, id);
  }
}

test("api.call and HTTP refuse the same for every operation", async () => {
  await using service = await startTestService();
  await using host = await connectSocket(service, `/api/ws?token=${KEY}`);
  for (const [id, { method, route, path, body }] of all) {
    // A drain would end the service of the test. JSON instead of an archive is refused on both.
    if (id === "drainService" || (id in OVER_HTTP_ONLY && id !== "importBackup")) continue;
    const names = Object.keys(path?.coerce ?? {});
    const sent = await answerOf(
      await service.request(route.replace(/\{[^}]+\}/g, "nothing"), {
        method,
        redirect: "manual",
        headers: { accept: "application/json", ...(body ? { "content-type": "application/json" } : {}) },
        ...(body ? { body: "{}" } : {}),
      }),
    );
    const called: Answer = await host.result("api.call", {
      operation: id,
      path: Object.fromEntries(names.map((name) => [name, "nothing"])),
      ...(body ? { body: {} } : {}),
    });
    assert.equal(called.status, sent.status, `${id}: ${JSON.stringify(called.body)}`);
    assert.deepEqual(outlineOf(called.body), outlineOf(sent.body), id);
    assert.deepEqual(Object.keys(called.headers).sort(), Object.keys(sent.headers).sort(), id);
  }
});

/** The id of one of each kind of thing that the requests of the test have made. */
async function knownIn(service: TestService): Promise<Readonly<Record<string, string>>> {
  const first = async (path: string, name = "id"): Promise<string> => {
    const { data } = await (await service.request(path)).json();
    return String(data[0]?.[name] ?? assert.fail(path));
  };
  const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } };
  const pictured = { messages: [{ role: "user", content: [image] }] };
  await (await service.chat(pictured, { headers: { "x-agent-session-id": "pictured" } })).text();
  const answered = await post(service, "/v1/responses", { input: "good day" });
  const job = await first("/v1/jobs");
  return {
    response_id: (await answered.json()).id,
    run_id: await first("/v1/runs"),
    session_id: "pictured",
    sequence: await first("/v1/sessions/pictured/messages?order=asc", "sequence"),
    index: "0",
    question_id: await first("/v1/questions?status=answered"),
    job_id: job,
    occurrence_id: await anOccurrence(service, job),
    message_id: await first("/v1/outbox"),
    delivery_id: await first("/v1/webhooks/deliveries"),
    route_name: await first("/v1/webhooks/routes", "name"),
    key_id: await first("/v1/keys"),
    skill: await first("/v1/skills", "name"),
    platform: await first("/v1/platforms", "name"),
    model: await first("/v1/models"),
  };
}

/** Adds a run of a job, which no scheduler of these services makes, and what it wrote. */
async function anOccurrence({ service, home }: TestService, jobId: string): Promise<string> {
  const row = occurrenceRow({ job_id: jobId, output_file: OUTPUT });
  await service.store.write((tx) => tx.insert("occurrences", [row]));
  const folder = join(home, "agentd", "cron", "output", jobId);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, OUTPUT), "# Tea\n");
  return row.id;
}

/** Returns the values of a path by the names in its route. */
function pathOf(id: OperationId, path: string): Readonly<Record<string, string>> {
  const names = operations[id].route.split("/");
  const entries = path.split("/").map((value, at) => [names[at], decodeURIComponent(value)] as const);
  return Object.fromEntries(
    entries.flatMap(([name, value]) => (name?.startsWith("{") ? [[name.slice(1, -1), value]] : [])),
  );
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  const headers = Object.fromEntries(response.headers);
  for (const name of ["connection", "date", "keep-alive", "transfer-encoding", "content-length"])
    delete headers[name];
  return { status: response.status, headers, body: text === "" ? null : isJson ? JSON.parse(text) : text };
}

/** Ids and ETags, the secrets of keys and routes, times, the folder and the port of a service. */
const OWN =
  /\b(?:agk_[\w.-]+|(?:[a-z]+_)+[0-9a-z]{20,}|\d{8}_\d{6}_[0-9a-f]{12}|[0-9a-f]{12,}|[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+)|agentd-test-\w+|127\.0\.0\.1:\d+)/g;
const SECRET = /^(?:secret|ticket|code)$/;
const TIME = /_at$|^created$|_ms$/;

/** What each service has of its own becomes the same word; null stays null. */
function masked(value: unknown, name = ""): unknown {
  if (Array.isArray(value)) return value.map((each) => masked(each, name));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, masked(each, key)]));
  }
  if (typeof value === "number") return TIME.test(name) ? "TIME" : value;
  if (typeof value !== "string") return value;
  return SECRET.test(name) ? "SECRET" : value.replaceAll(OWN, "OWN");
}

/** Without the trace of each request and the port, which a call has none of; and without the figures of the moment. */
function readable(
  id: OperationId,
  { status, headers: { traceparent: _, ...headers }, body }: Answer,
): unknown {
  const text = JSON.stringify(body).replaceAll(/127\.0\.0\.1:\d+/g, "HOST");
  const shown: unknown = JSON.parse(OF_THE_MOMENT.has(id) ? text.replaceAll(/\d+(?:\.\d+)?/g, "0") : text);
  return { status, headers, body: shown };
}

/** The names in a value, and its error; measurements differ from call to call. */
function outlineOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return typeof value;
  if ("error" in value && value.error !== null) return value;
  return Object.keys(value).sort();
}

const OUTPUT = "2026-11-27_05-00-00.md";
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
