import assert from "node:assert/strict";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { testTool } from "../../harness/agent.ts";
import { allEvents, createGate, fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const RUN = "createRun";
const OTHER = "another-key-0123456789";
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];

/** Answers with what the model was given. */
const echo: Script = ({ user, messages, instructions, tools }) => ({
  text: JSON.stringify({ user, roles: messages.map(({ role }) => role), instructions, tools }),
});

async function outputOf(service: TestService, id: string) {
  const run = await fetchRun(service, id, 30);
  assert.equal(run.status, "completed", JSON.stringify(run));
  return JSON.parse(run.output ?? "null");
}

async function echoOf(service: TestService, body: Readonly<Record<string, unknown>>) {
  return outputOf(service, (await startRun(service, body)).run_id);
}

type Refusal = [status: number, code: string, param?: string];

async function refused(service: TestService, body: unknown, ...[status, code, param]: Refusal) {
  const error = await assertError(await post(service, "/v1/runs", body), status, code);
  if (param !== undefined) assert.equal(error.param, param);
  return error;
}

scenario(RUN, 202, { title: "answers at once with its URLs", script: echo }, async (service) => {
  const response = await post(service, "/v1/runs", { input: "hi", metadata: { a: "b" } });
  const body = await response.json();
  const id: string = body.run_id;
  assert.equal(response.headers.get("location"), `/v1/runs/${id}`);
  assert.equal(response.headers.get("x-agent-run-id"), id);
  assert.equal(response.headers.get("x-agent-session-id"), body.session_id);
  assert.equal(response.headers.get("x-agent-model"), "demo:demo");
  assert.equal(response.headers.get("idempotency-replayed"), null);
  assert.equal(body.object, "agent.run");
  assert.equal(body.id, id);
  assert.equal(body.replayed, false);
  assert.equal(body.status, "running");
  assert.deepEqual(body.urls, {
    status: `/v1/runs/${id}`,
    events: `/v1/runs/${id}/events`,
    stop: `/v1/runs/${id}/stop`,
    approval: `/v1/runs/${id}/approval`,
  });
  assert.equal((await outputOf(service, id)).user, "hi");
  const run = await fetchRun(service, id);
  assert.equal(run.kind, "run");
  assert.equal(run.created_at, body.created_at);
  assert.deepEqual(run.metadata, { a: "b" });
});

const gate = createGate();
scenario(
  RUN,
  202,
  { title: "the run needs no client and continues without followers", script: gate.script },
  async (service) => {
    const { run_id: id } = await startRun(service);
    const events = await service.request(`/v1/runs/${id}/events`);
    await events.body?.cancel();
    gate.open();
    assert.equal((await fetchRun(service, id, 30)).output, "before after");
  },
);

scenario(
  RUN,
  202,
  { title: "input as chat messages, with calls and their results", script: echo },
  async (service) => {
    const call = { id: "c1", type: "function", function: { name: "look", arguments: "{}" } };
    const { user, roles, instructions } = await echoOf(service, {
      instructions: "Be brief.",
      input: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "one" },
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "c1", content: "seen" },
        { role: "assistant", content: "two" },
        { role: "user", content: [{ type: "text", text: "three" }] },
      ],
    });
    assert.equal(user, "three");
    assert.deepEqual(roles, ["user", "assistant", "tool", "assistant", "user"]);
    assert.match(instructions, /Be brief\.\n\nBe kind\./);
  },
);

scenario(
  RUN,
  202,
  { title: "input as items of the responses format, with earlier messages", script: echo },
  async (service) => {
    const { user, roles } = await echoOf(service, {
      conversation_history: [
        { role: "user", content: "before" },
        { role: "assistant", content: "that" },
      ],
      input: [
        { type: "message", role: "user", content: [{ type: "input_text", text: "one" }] },
        { type: "function_call", call_id: "c1", name: "look", arguments: "{}" },
        { type: "function_call_output", call_id: "c1", output: "seen" },
      ],
    });
    assert.equal(user, "one");
    assert.deepEqual(roles, ["user", "assistant", "user", "assistant", "tool"]);
  },
);

scenario(
  RUN,
  202,
  { title: "continues the session named in body or headers; the headers win", script: echo },
  async (service) => {
    const first = await startRun(service, { session_id: "s1", session_key: "k1", input: "one" });
    assert.equal(first.session_id, "s1");
    await outputOf(service, first.run_id);
    const byKey = await startRun(service, { session_key: "k1", input: "two" });
    assert.equal(byKey.session_id, "s1");
    assert.deepEqual((await outputOf(service, byKey.run_id)).roles, ["user", "assistant", "user"]);
    const headers = { "x-agent-session-id": "s2", "x-agent-session-key": "k2" };
    const response = await post(
      service,
      "/v1/runs",
      { input: "x", session_id: "s1", session_key: "k1" },
      headers,
    );
    assert.equal(response.headers.get("x-agent-session-key"), "k2");
    assert.equal((await response.json()).session_id, "s2");
    // A session that exists has its own past.
    const history = [
      { role: "user", content: "made up" },
      { role: "assistant", content: "yes" },
    ];
    const again = await startRun(service, { session_id: "s2", input: "y", conversation_history: history });
    assert.deepEqual((await outputOf(service, again.run_id)).roles, ["user", "assistant", "user"]);
  },
);

scenario(
  RUN,
  202,
  { title: "continues a stored response, in its session or in a branch", script: echo },
  async (service) => {
    const response = await (await post(service, "/v1/responses", { input: "one" })).json();
    const next = { previous_response_id: response.id, input: "two" };
    const first = await startRun(service, next);
    assert.deepEqual((await outputOf(service, first.run_id)).roles, ["user", "assistant", "user"]);
    assert.equal(first.session_id, response.agent.session_id);
    const second = await startRun(service, next);
    assert.deepEqual((await outputOf(service, second.run_id)).roles, ["user", "assistant", "user"]);
    assert.notEqual(second.session_id, first.session_id);
  },
);

const busy = createGate();
scenario(
  RUN,
  202,
  { title: "a prompt to a busy session is queued, and runs in its turn", script: busy.script },
  async (service) => {
    const first = await startRun(service, { session_id: "s" });
    const second = await startRun(service, { session_id: "s" });
    assert.deepEqual([first.status, second.status], ["running", "queued"]);
    assert.equal((await fetchRun(service, second.run_id)).status, "queued");
    busy.open();
    assert.equal((await fetchRun(service, second.run_id, 30)).status, "completed");
  },
);

scenario(
  RUN,
  202,
  { title: "toolsets narrow the tools", script: echo, tools: [testTool(async () => "")] },
  async (service) => {
    assert.ok((await echoOf(service, {})).tools.includes("read_file"));
    assert.ok(!(await echoOf(service, { toolsets: ["terminal"] })).tools.includes("read_file"));
    assert.deepEqual((await echoOf(service, { toolsets: [] })).tools, []);
  },
);

const dangerous: Script = ({ step, toolResults }) =>
  step === 0
    ? { calls: [{ tool: "terminal", input: { command: "rm -rf build" } }] }
    : { text: toolResults.map(({ status }) => status).join() };

scenario(
  RUN,
  202,
  {
    title: "approval_mode: wait asks, deny refuses at once",
    script: dangerous,
    tools: [testTool(async () => "ran")],
  },
  async (service) => {
    const denied = await startRun(service, { approval_mode: "deny" });
    assert.equal((await fetchRun(service, denied.run_id, 30)).output, "denied");
    const waits = await startRun(service);
    assert.equal((await fetchRun(service, waits.run_id, 30)).status, "waiting_for_approval");
  },
);

scenario(
  RUN,
  202,
  { title: "a run that takes longer than timeout_seconds fails", script: createGate().script },
  async (service) => {
    const { run_id: id } = await startRun(service, { timeout_seconds: 0.05 });
    const run = await fetchRun(service, id, 30);
    assert.deepEqual([run.status, run.error?.code], ["failed", "agent_timeout"]);
    assert.equal((await allEvents(service, id)).at(-1)?.event, "run.failed");
  },
);

const once = createGate();
scenario(
  RUN,
  202,
  {
    title: "an Idempotency-Key starts one run, also for concurrent requests and at the run limit",
    script: once.script,
    config: { limits: { max_concurrent_runs: 1 } },
  },
  async (service) => {
    const headers = { "idempotency-key": "k-1" };
    const responses = await Promise.all(
      Array.from({ length: 8 }, () => post(service, "/v1/runs", { input: "hi" }, headers)),
    );
    const bodies = await Promise.all(responses.map((response) => response.json()));
    assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([202]), JSON.stringify(bodies));
    assert.equal(new Set(bodies.map((body) => body.run_id)).size, 1);
    assert.equal(bodies.filter((body) => !body.replayed).length, 1);
    const replay = await post(service, "/v1/runs", { input: "hi" }, headers);
    assert.equal(replay.headers.get("idempotency-replayed"), "true");
    assert.equal((await replay.json()).status, "running");
    await refused(service, { input: "another" }, 429, "too_many_concurrent_runs");
    once.open();
    const { run_id: id } = bodies[0];
    assert.equal((await fetchRun(service, id, 30)).status, "completed");
    await service.service.store.write(async (tx) => {
      await tx.db.deleteFrom("events").where("run_id", "=", id).execute();
    });
    const late = await startRun(service, {}, headers);
    assert.deepEqual([late.run_id, late.status, late.replayed], [id, "completed", true]);
  },
);

scenario(RUN, 400, { title: "an invalid input is named" }, async (service) => {
  await refused(service, {}, 400, "missing_required_parameter", "input");
  for (const input of ["", [], 7, null, {}])
    await refused(service, { input }, 400, "invalid_request", "input");
  const say = (content: unknown) => ({ input: [{ role: "user", content }] });
  await refused(service, say([{ type: "video", url: "x" }]), 400, "unsupported_content_type");
  await refused(service, say([{ type: "input_image", image_url: "ftp://x" }]), 400, "invalid_image_url");
  await refused(service, { input: [{ role: "assistant", content: "me" }] }, 400, "invalid_request", "input");
  const answer = { type: "function_call_output", call_id: "c9", output: "x" };
  await refused(service, { input: [answer] }, 400, "invalid_request", "input[0].call_id");
  await refused(service, { input: "hi", surprise: 1 }, 400, "invalid_request", "surprise");
  await refused(service, { input: "hi", timeout_seconds: 86_401 }, 400, "invalid_request", "timeout_seconds");
  await refused(service, { input: "hi", toolsets: ["nope"] }, 400, "invalid_request", "toolsets[0]");
  await refused(service, "{", 400, "invalid_json");
});

scenario(
  RUN,
  400,
  { title: "a too long input is named", config: { limits: { max_text_bytes: 10, max_messages: 2 } } },
  async (service) => {
    const long = "x".repeat(11);
    await refused(service, { input: long }, 400, "string_above_max_length", "input");
    await refused(
      service,
      { input: "hi", instructions: long },
      400,
      "string_above_max_length",
      "instructions",
    );
    const history = [1, 2, 3].map(() => ({ role: "user", content: "x" }));
    const body = { input: "hi", conversation_history: history };
    await refused(service, body, 400, "invalid_request", "conversation_history");
  },
);

scenario(RUN, 400, { title: "an unknown model" }, async (service) => {
  await refused(service, { input: "hi", model: "nope:x" }, 400, "model_not_found", "model");
  const response = await post(service, "/v1/runs", { input: "hi" }, { "x-agent-model": "nope:x" });
  assert.equal((await assertError(response, 400, "model_not_found")).param, "X-Agent-Model");
});

scenario(RUN, 400, { title: "invalid session names and keys" }, async (service) => {
  await refused(service, { input: "hi", session_id: "a/b" }, 400, "invalid_session_id", "session_id");
  await refused(service, { input: "hi", session_key: "a\nb" }, 400, "invalid_session_key", "session_key");
  const both = { input: "hi", session_id: "s", previous_response_id: "resp_x" };
  await refused(service, both, 400, "invalid_request", "previous_response_id");
  const response = await post(service, "/v1/runs", { input: "hi" }, { "idempotency-key": "x".repeat(256) });
  await assertError(response, 400, "invalid_idempotency_key");
});

scenario(RUN, 400, { title: "a webhook that is not allowed" }, async (service) => {
  const webhook = { url: "http://127.0.0.1:1/x", secret: "0123456789abcdef" };
  await refused(service, { input: "hi", webhook }, 400, "invalid_request", "webhook.url");
  const unsigned = { url: "https://example.com/x" };
  await refused(
    service,
    { input: "hi", webhook: unsigned },
    400,
    "missing_required_parameter",
    "webhook.secret",
  );
});

scenario(RUN, 403, { title: "sessions need a key", requireKey: false }, async (service) => {
  await refused(service, { input: "hi", session_key: "k" }, 403, "auth_required_for_session");
});

scenario(
  RUN,
  404,
  { title: "unknown sessions and responses and another key's look the same", keys: twoKeys },
  async (service) => {
    const response = await (await post(service, "/v1/responses", { input: "one" })).json();
    const headers = { authorization: `Bearer ${OTHER}` };
    const foreign = { input: "hi", session_id: response.agent.session_id };
    await assertError(await post(service, "/v1/runs", foreign, headers), 404, "session_not_found");
    const next = { input: "hi", previous_response_id: response.id };
    const gone = await post(service, "/v1/runs", next, headers);
    const error = await assertError(gone, 404, "previous_response_not_found");
    assert.equal(error.param, "previous_response_id");
    await refused(service, { ...next, previous_response_id: "x" }, 404, "previous_response_not_found");
  },
);

scenario(RUN, 409, { title: "an Idempotency-Key of another request" }, async (service) => {
  const headers = { "idempotency-key": "k" };
  await startRun(service, {}, headers);
  const response = await post(service, "/v1/runs", { input: "another" }, headers);
  assert.equal(response.headers.get("x-should-retry"), "false");
  await assertError(response, 409, "idempotency_key_conflict");
});

scenario(
  RUN,
  409,
  {
    title: "a busy session, where prompts do not queue",
    script: createGate().script,
    config: { sessions: { when_busy: "reject" } },
  },
  async (service) => {
    await startRun(service, { session_id: "s" });
    await refused(service, { input: "hi", session_id: "s" }, 409, "session_busy");
  },
);

scenario(
  RUN,
  429,
  {
    title: "more runs than the limit",
    script: createGate().script,
    config: { limits: { max_concurrent_runs: 1 } },
  },
  async (service) => {
    const { run_id: id } = await startRun(service);
    await runEvent(service, id, "message.delta");
    const response = await post(service, "/v1/runs", { input: "hi" });
    assert.equal(response.headers.get("retry-after"), "1");
    await assertError(response, 429, "too_many_concurrent_runs");
  },
);

scenario(RUN, 503, { title: "takes no runs while the server shuts down" }, async (service) => {
  await service.service.runs.drain(0);
  const response = await post(service, "/v1/runs", { input: "hi" });
  assert.equal(response.headers.get("retry-after"), "1");
  await assertError(response, 503, "server_draining");
});
