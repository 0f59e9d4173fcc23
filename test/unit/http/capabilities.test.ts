import assert from "node:assert/strict";
import { test } from "node:test";
import type { Capabilities } from "../../../generated/http/client/types.gen.ts";
import { aliases, operations } from "../../../generated/http/server.gen.ts";
import { KeyLimits } from "../../../src/agent/usage/budgets.ts";
import { systemClock } from "../../../src/base/time.ts";
import type { Identity } from "../../../src/http/edge/access.ts";
import { getCapabilities } from "../../../src/http/meta/meta.ts";
import type { HttpDeps } from "../../../src/http/deps.ts";
import { httpSettings } from "../../../src/app/wire-http.ts";
import { testConfig } from "../../harness/service.ts";

const admin: Identity = { name: "default", owner: "default", scopes: ["admin"], authenticated: true };

async function ask(
  config: object = {},
  identity: Identity = admin,
  { required = true, ownRuns }: { required?: boolean; ownRuns?: number } = {},
): Promise<Capabilities> {
  const more = { toolsets: [], workspaceRoots: [], validateResponses: true, env: {} };
  const deps: Partial<HttpDeps> = {
    version: "1.2.3",
    keys: { required, find: () => undefined },
    settings: httpSettings(testConfig({ ...config }), more),
    ...(ownRuns === undefined
      ? {}
      : { keyLimits: new KeyLimits([{ name: identity.name, maxConcurrentRuns: ownRuns }], systemClock) }),
  };
  const { body } = await getCapabilities({ ctx: { identity } } as never, deps as HttpDeps);
  return body as Capabilities;
}

test("every operation and alias of the spec is listed as an endpoint", async () => {
  const { endpoints } = await ask();
  const names = [...Object.keys(operations), ...aliases.map(({ name }) => name)];
  assert.deepEqual(Object.keys(endpoints), names);
  assert.deepEqual(endpoints["getRun"], { method: "GET", path: "/v1/runs/{run_id}" });
});

test("a feature is on when its operation exists", async () => {
  const { features } = await ask();
  for (const name of ["chat_completions", "responses_api", "run_submission", "run_events_sse"] as const)
    assert.equal(features[name], true, name);
  for (const name of [
    "responses_streaming",
    "run_events_replay",
    "tool_progress",
    "sessions_api",
    "jobs_api",
  ] as const)
    assert.equal(features[name], true, name);
  for (const name of ["responses_websocket", "conversations"] as const)
    assert.equal(features[name], false, name);
});

test("features and limits come from the configuration", async () => {
  const usual = await ask();
  assert.deepEqual(
    [usual.features.cors, usual.features.reasoning_streaming, usual.features.tool_items],
    [false, true, "mcp_call"],
  );
  const changed = await ask({
    api_server: {
      cors_origins: ["*"],
      show_reasoning: false,
      tool_items: "none",
      model_name: "helper",
    },
    retention: { runs_hours: 2, events_hours: 1 },
    limits: {
      max_body_bytes: 5000,
      max_messages: 7,
      max_text_bytes: 9,
      max_concurrent_runs: 4,
      sse_keepalive_seconds: 3,
      max_stored_responses: 6,
      max_run_events: 2500,
      webhook_attempts: 2,
      max_subscribers_per_run: 8,
      max_reader_bytes: 2_000_000,
      max_answer_bytes: 4096,
    },
    sessions: { max_queue: 11 },
    approvals: { timeout_seconds: 12 },
    agent: { timeout_seconds: 13 },
  });
  assert.equal(changed.model, "helper");
  const { cors, reasoning_streaming: reasoning, tool_items: items, idempotency } = changed.features;
  assert.deepEqual([cors, reasoning, items, idempotency.retention_seconds], [true, false, "none", 7200]);
  assert.deepEqual(changed.limits, {
    max_body_bytes: 5000,
    max_messages: 7,
    max_text_bytes: 9,
    max_concurrent_runs: 4,
    max_queue_per_session: 11,
    max_stored_responses: 6,
    max_subscribers_per_run: 8,
    max_reader_bytes: 2_000_000,
    max_answer_bytes: 4096,
    run_status_ttl_seconds: 7200,
    run_event_ttl_seconds: 3600,
    run_event_buffer: 2500,
    sse_keepalive_seconds: 3,
    session_header_max_length: 256,
    idempotency_key_max_length: 255,
    approval_timeout_seconds: 12,
    run_timeout_seconds: 13,
    webhook_attempts: 2,
  });
});

test("events are not kept longer than their run", async () => {
  const { limits } = await ask({ retention: { runs_hours: 1, events_hours: 5 } });
  assert.equal(limits.run_event_ttl_seconds, 3600);
});

test("the limit of concurrent runs is the key's own when that is lower than the server's", async () => {
  const runs = async (all: number, own?: number) => {
    const more = own === undefined ? {} : { ownRuns: own };
    return (await ask({ limits: { max_concurrent_runs: all } }, admin, more)).limits.max_concurrent_runs;
  };
  assert.deepEqual(
    [await runs(0), await runs(5), await runs(0, 2), await runs(5, 2), await runs(1, 2)],
    [0, 5, 2, 2, 1],
  );
});

test("capabilities list the scopes of the key; without keys, session headers are off", async () => {
  const some = await ask({}, { ...admin, scopes: ["read", "chat"] });
  assert.deepEqual(some.auth, {
    type: "bearer",
    required: true,
    key: "default",
    owner: "default",
    scopes: ["read", "chat"],
  });
  assert.equal(some.features.session_id_header, true);
  const open = await ask({}, { ...admin, authenticated: false }, { required: false });
  assert.deepEqual([open.auth.required, open.auth.key], [false, null]);
  assert.deepEqual([open.features.session_id_header, open.features.session_key_header], [false, false]);
});
