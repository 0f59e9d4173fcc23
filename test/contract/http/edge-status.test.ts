/** What belongs to a status, whatever operation answers it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { errorTable, ServiceError, type ErrorCode } from "../../../src/base/errors.ts";
import { errorAnswer } from "../../../src/http/edge/answer.ts";
import { assertError, assertHealthy, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService } from "../../harness/service.ts";
import { send } from "../../harness/wire.ts";

const hi = { messages: [{ role: "user", content: "hi" }] };
const bearer = { authorization: `Bearer ${KEY}` };

/** The contract's table: status, type, codes. */
const TABLE: readonly (readonly [number, string, readonly ErrorCode[]])[] = [
  [
    400,
    "invalid_request_error",
    [
      ...(["invalid_json", "invalid_request", "missing_required_parameter"] as const),
      ...(["unsupported_parameter", "unsupported_content_type", "invalid_image_url"] as const),
      ...(["invalid_content_part", "string_above_max_length", "model_not_found"] as const),
      ...(["invalid_session_id", "invalid_session_key", "invalid_idempotency_key"] as const),
      ...(["invalid_cursor", "invalid_approval_choice", "invalid_approval_request"] as const),
      "invalid_steer_input",
    ],
  ],
  [401, "authentication_error", ["missing_api_key", "invalid_api_key"]],
  [
    403,
    "permission_error",
    ["insufficient_scope", "auth_required_for_session", "origin_not_allowed", "host_not_allowed"],
  ],
  [
    404,
    "not_found_error",
    ["not_found", "run_not_found", "response_not_found", "previous_response_not_found", "session_not_found"],
  ],
  [405, "invalid_request_error", ["method_not_allowed"]],
  [408, "invalid_request_error", ["request_timeout"]],
  [
    409,
    "conflict_error",
    [
      ...(["approval_not_active", "approval_not_pending", "run_not_active"] as const),
      ...(["run_not_accepting_steer", "idempotency_key_conflict", "session_busy"] as const),
      "response_not_cancellable",
    ],
  ],
  [410, "not_found_error", ["run_events_expired"]],
  [413, "invalid_request_error", ["body_too_large"]],
  [415, "invalid_request_error", ["unsupported_media_type"]],
  [429, "rate_limit_error", ["rate_limit_exceeded", "too_many_concurrent_runs", "too_many_subscribers"]],
  [500, "server_error", ["internal_error"]],
  [502, "server_error", ["provider_error", "agent_incomplete"]],
  [503, "overloaded_error", ["server_draining", "state_store_unavailable"]],
  [504, "server_error", ["agent_timeout"]],
];

for (const [status, type, codes] of TABLE) {
  test(`http ${status}: ${codes.join(", ")} have the type ${type}, in one envelope`, async () => {
    for (const code of codes) {
      const answer = errorAnswer(new ServiceError(code, "What to do next."), { "x-request-id": "req_1" });
      const error = await assertError(answer, status, code);
      assert.deepEqual([error.type, error.param, error.message], [type, null, "What to do next."]);
      assert.equal(answer.headers.get("content-type"), "application/json");
      const { headers } = answer;
      const isBusy = status === 429 || status === 503;
      assert.equal(headers.get("retry-after"), isBusy ? "1" : null, code);
      assert.equal(headers.get("x-should-retry"), status === 409 ? "false" : null, code);
      assert.equal(headers.get("www-authenticate"), status === 401 ? "Bearer" : null, code);
    }
  });
}

test("http: Retry-After is rounded up to seconds, and errors that repeat say not to retry", () => {
  const wait = errorAnswer(new ServiceError("rate_limit_exceeded", "", { retryAfterSeconds: 0.2 }), {});
  assert.equal(wait.headers.get("retry-after"), "1");
  const spent = errorAnswer(new ServiceError("budget_exceeded", ""), {});
  assert.equal(spent.status, 429);
  assert.equal(spent.headers.get("x-should-retry"), "false");
  for (const [code, { http, retryable }] of Object.entries(errorTable)) {
    const { headers } = errorAnswer(new ServiceError(code as ErrorCode, ""), {});
    const isFinal = http === 409 || (http === 429 && !retryable);
    assert.equal(headers.get("x-should-retry"), isFinal ? "false" : null, code);
  }
});

scenario(
  "createChatCompletion",
  500,
  {
    title: "an internal error answers only with its request id",
    script: () => {
      throw new Error("the password is hunter2");
    },
  },
  async (service) => {
    // The run ends first; what it failed with is as generic.
    const response = await service.chat(hi);
    const error = await assertError(response, 500, "internal_error");
    assert.doesNotMatch(JSON.stringify(error), /hunter2/);
    await assertHealthy(service);
  },
);

const atWork = Promise.withResolvers<void>();
scenario(
  "createChatCompletion",
  502,
  {
    title: "a run that is stopped is agent_incomplete for its waiting client",
    script: ({ signal }) => {
      atWork.resolve();
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason as Error)),
      );
    },
  },
  async (service) => {
    const waiting = service.chat(hi);
    const { store, runs } = service.service;
    await atWork.promise;
    const run = await store.read.selectFrom("runs").select("id").executeTakeFirstOrThrow();
    await runs.stop(run.id, "enough");
    const response = await waiting;
    assert.equal(response.headers.get("x-agent-run-id"), run.id);
    assert.equal((await assertError(response, 502, "agent_incomplete")).type, "server_error");
  },
);

scenario(
  "createRun",
  404,
  { title: "resources of another key answer 404", keys: twoKeys() },
  async (service) => {
    const headers = { "content-type": "application/json" };
    const post = (body: unknown, more: Record<string, string> = {}) =>
      service.request("/v1/runs", {
        method: "POST",
        headers: { ...headers, ...more },
        body: JSON.stringify(body),
      });
    const { run_id: run, session_id: id } = await (await post({ input: "hi" })).json();
    const other = { authorization: "Bearer other-key-0123456789" };
    await assertError(await post({ input: "hi", session_id: id }, other), 404, "session_not_found");
    await assertError(await service.request(`/v1/runs/${run}`, { headers: other }), 404, "run_not_found");
    assert.equal((await service.request(`/v1/runs/${run}?wait=10`)).status, 200);
  },
);

function twoKeys() {
  return [
    { key: KEY, name: "mine", scopes: ["admin"] },
    { key: "other-key-0123456789", name: "other", scopes: ["admin"] },
  ];
}

test("http 400: a malformed path has a request id and is not logged", async () => {
  await using service = await startTestService();
  for (const path of ["/v1/runs/%", "/v1/runs/%E0%A4%A", "/v1/models/%ff"]) {
    await assertError(await send(service, { method: "GET", path, headers: bearer }), 400, "invalid_request");
  }
  assert.deepEqual(service.logLines, []);
  await assertHealthy(service);
});

test("http: names in a path are unescaped", async () => {
  const name = "my org/agent %2F é";
  await using service = await startTestService({ config: { api_server: { model_name: name } } });
  const response = await service.request(`/v1/models/${encodeURIComponent(name)}`);
  assert.deepEqual([response.status, (await response.json()).id], [200, name]);
  await assertError(await service.request("/v1/runs/%00"), 404, "run_not_found");
});

test("http X-Request-Id: is on every answer, even without an operation", async () => {
  await using service = await startTestService();
  for (const [method, path, status] of [
    ["GET", "/nothing", 404],
    ["PUT", "/health", 405],
    ["OPTIONS", "/v1/runs", 405],
    ["GET", "/v1/runs/%", 400],
    ["GET", "/docs", 200],
    ["HEAD", "/", 302],
    ["GET", "/v1/models", 401],
  ] as const) {
    const headers = { "x-request-id": "mine-1" };
    const response = await send(service, { method, path, headers });
    assert.deepEqual([response.status, response.headers.get("x-request-id")], [status, "mine-1"], path);
  }
});
