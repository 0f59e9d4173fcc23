/** How many runs a key may have at once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const OTHER = "other-key-0123456789";
const twoKeys = [
  { key: KEY, name: "limited", scopes: ["admin"], maxConcurrentRuns: 1 },
  { key: OTHER, name: "free", scopes: ["admin"] },
];
const hi = { messages: [{ role: "user", content: "hi" }] };
const BODIES: Readonly<Record<string, object>> = {
  "/v1/chat/completions": hi,
  "/v1/responses": { input: "hi" },
  "/v1/runs": { input: "hi" },
};

function post(service: TestService, path: string, headers: Record<string, string> = {}): Promise<Response> {
  return service.request(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(BODIES[path]),
  });
}

/** A model that begins to answer, which gives a stream its headers, and goes on when it is let. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  async function* hello() {
    yield "hel";
    await promise;
    yield "lo";
  }
  return { script: () => ({ text: hello() }), open: resolve };
}

/** Starts a chat and waits until its run is recorded, which the headers of its stream tell. */
async function startChat(service: TestService, headers: Record<string, string> = {}): Promise<Response> {
  const response = await service.chat({ ...hi, stream: true }, { headers });
  assert.equal(response.status, 200);
  return response;
}

for (const [id, path] of [
  ["createChatCompletion", "/v1/chat/completions"],
  ["createResponse", "/v1/responses"],
  ["createRun", "/v1/runs"],
] as const) {
  const held = gate();
  scenario(
    id,
    429,
    { title: "a key at its limit of runs", keys: twoKeys, script: held.script },
    async (service) => {
      const running = await startChat(service);
      const response = await post(service, path);
      assert.equal(response.headers.get("retry-after"), "1");
      const error = await assertError(response, 429, "too_many_concurrent_runs");
      assert.match(error.message, /"limited".*max_concurrent_runs/);
      const authorization = `Bearer ${OTHER}`;
      const other = await startChat(service, { authorization });
      held.open();
      await Promise.all([running.text(), other.text()]);
      assert.ok((await post(service, path)).ok);
    },
  );
}

test("a repeated request is answered although its key is at its limit", async () => {
  const { script, open } = gate();
  await using service = await startTestService({ keys: twoKeys, script });
  for (const path of ["/v1/runs"]) {
    const first = await post(service, path, { "idempotency-key": "again" });
    const again = await post(service, path, { "idempotency-key": "again" });
    assert.equal(again.headers.get("idempotency-replayed"), "true", path);
    assert.equal((await again.json()).run_id, (await first.json()).run_id);
    await assertError(
      await post(service, path, { "idempotency-key": "new" }),
      429,
      "too_many_concurrent_runs",
    );
  }
  open();
});

test("of many concurrent requests, no more run than the key allows", async () => {
  const { script, open } = gate();
  const keys = [{ key: KEY, name: "limited", scopes: ["admin"], maxConcurrentRuns: 3 }];
  await using service = await startTestService({ keys, script });
  const answers = await Promise.all(Array.from({ length: 20 }, () => post(service, "/v1/runs")));
  const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
  assert.deepEqual(statuses, [...Array(3).fill(202), ...Array(17).fill(429)]);
  const report = await (await service.request("/health/detailed")).json();
  assert.equal(report.runs.running, 3);
  open();
});

test("queued runs of a session do not count for the key", async () => {
  const { script, open } = gate();
  const keys = [{ key: KEY, name: "limited", scopes: ["admin"], maxConcurrentRuns: 2 }];
  await using service = await startTestService({ keys, script });
  const session = { "x-agent-session-id": "one" };
  const first = await post(service, "/v1/runs", session);
  const second = await post(service, "/v1/runs", session);
  const third = await post(service, "/v1/runs");
  assert.deepEqual([first.status, second.status, third.status], [202, 202, 202]);
  await assertError(await post(service, "/v1/runs"), 429, "too_many_concurrent_runs");
  open();
});
