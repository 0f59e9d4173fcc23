import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import type { Webhook, WebhookEvent } from "../../../generated/http/client/types.gen.ts";
import { checkWebhook, recordWebhook, type WebhookSettings } from "../../../src/http/prompt/run-webhook.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { registerSecret } from "../../../src/base/observe.ts";
import { Dispatcher } from "../../../src/deliver/outbox/dispatch.ts";
import { createTargets } from "../../../src/deliver/target.ts";
import { createWebhookTarget } from "../../../src/deliver/targets/webhook.ts";
import { specSchemas } from "../../../src/http/edge/input.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";
import { openReceiver } from "../../harness/receiver.ts";

const secret = "0123456789abcdef";
const settings: WebhookSettings = { hasSecret: false, allowedPrivateHosts: ["127.0.0.1"], maxAttempts: 5 };
const webhookText = (webhook: Partial<Webhook> = {}) =>
  recordWebhook({ url: "https://hooks.example/x?key=1", secret, ...webhook }, settings, { param: "webhook" });

interface Owed {
  readonly target: string;
  readonly ref: string | null;
  readonly maxAttempts: number;
  readonly payload: { id: string; url: string; secret?: string; traceparent?: string };
  readonly event: WebhookEvent;
}

/** What is owed to webhooks, oldest first. */
async function owed({ store }: TestAgent): Promise<readonly Owed[]> {
  const rows = await store.read
    .selectFrom("outbox")
    .selectAll()
    .orderBy("created_at")
    .orderBy("id")
    .execute();
  return rows.map((row) => {
    const { body, ...payload } = JSON.parse(row.payload);
    const issues = specSchemas.checkNamed("WebhookEvent", JSON.parse(body));
    assert.equal(issues, undefined, `an event does not fit the spec: ${JSON.stringify(issues)} ${body}`);
    const { target, ref, max_attempts: maxAttempts } = row;
    return { target, ref, maxAttempts, payload, event: JSON.parse(body) };
  });
}

test("the end of a run is enqueued for its webhook, in the transaction that ends it", async () => {
  await using agent = await createTestAgent({ script: () => ({ text: "the answer" }) });
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const input = {
    prompt: [{ role: "user", text: "hi" } as const],
    settings: {},
    answerable: false,
    traceparent,
  };
  const { runId, sessionId } = await agent.submit("hi", { webhook: webhookText(), input });
  await agent.events(runId);
  const [message, ...others] = await owed(agent);
  assert.deepEqual(others, []);
  const { event, payload } = message!;
  assert.match(event.id, /^evt_/);
  assert.deepEqual([event.object, event.type], ["event", "run.completed"]);
  assert.ok(Math.abs(event.created_at - Date.now() / 1000) < 60);
  const { usage, ...data } = event.data;
  assert.deepEqual(data, {
    run_id: runId,
    session_id: sessionId,
    status: "completed",
    stop: "end",
    output: "the answer",
  });
  assert.equal(typeof (usage as { total_tokens: number }).total_tokens, "number");
  assert.deepEqual(payload, { id: event.id, url: "https://hooks.example/x?key=1", secret, traceparent });
  assert.deepEqual(
    [message?.target, message?.ref, message?.maxAttempts],
    ["webhook:hooks.example", runId, 5],
  );
});

test("without a secret of its own the message carries none", async () => {
  await using agent = await createTestAgent();
  const webhook = recordWebhook(
    { url: "https://hooks.example/" },
    { ...settings, hasSecret: true, maxAttempts: 2 },
    { param: "webhook" },
  );
  await agent.events((await agent.submit("hi", { webhook })).runId);
  const [message] = await owed(agent);
  assert.deepEqual([message?.payload.secret, message?.maxAttempts], [undefined, 2]);
});

test("the webhook of a failed, cancelled or interrupted run has its error", async () => {
  const never = new Promise<never>(() => {});
  await using agent = await createTestAgent({
    script: ({ user, signal }) => {
      if (user === "fail") return { error: { code: "provider_error", message: "the model is gone" } };
      return { text: waits(signal) };
    },
  });
  async function* waits(signal: AbortSignal): AsyncGenerator<string> {
    yield "so far";
    await Promise.race([never, new Promise((go) => signal.addEventListener("abort", go, { once: true }))]);
  }
  const webhook = webhookText();
  const failing = await agent.submit("fail", { webhook });
  await agent.events(failing.runId);
  const stopping = await agent.submit("wait", { webhook });
  await agent.event(stopping.runId, "message.delta");
  await agent.runs.stop(stopping.runId, "enough");
  await agent.events(stopping.runId);
  const cut = await agent.submit("wait", { webhook });
  await agent.event(cut.runId, "message.delta");
  await agent.runs.drain(0);
  const events = (await owed(agent)).map(({ event }) => event);
  assert.deepEqual(
    events.map(({ type, data }) => [type, data.run_id, data.status]),
    [
      ["run.failed", failing.runId, "failed"],
      ["run.cancelled", stopping.runId, "cancelled"],
      ["run.interrupted", cut.runId, "interrupted"],
    ],
  );
  assert.equal(events[0]!.data.error?.code, "provider_error");
  assert.equal(events[2]!.data.error?.code, "interrupted");
});

test("a run that is cancelled in the queue, and one that a dead process left, send their webhooks", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({ script: async () => (await gate.promise, { text: "ok" }) });
  const webhook = webhookText();
  const first = await agent.submit("first", { id: "s1", webhook });
  const queued = await agent.submit("queued", { id: "s1", webhook });
  await agent.runs.stop(queued.runId, "not any more");
  const dead = { lease_owner: "process-that-never-was", lease_until: 1 };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s1" }, dead)));
  await using other = await createTestAgent({ database: agent.databaseUrl });
  assert.equal(await other.recovery.recover(), 1);
  gate.resolve();
  await agent.runs.drain(5_000);
  assert.deepEqual(
    (await owed(agent)).map(({ event }) => [event.type, event.data.run_id]),
    [
      ["run.cancelled", queued.runId],
      ["run.interrupted", first.runId],
    ],
  );
});

test("only subscribed events are sent; a question only on request", async () => {
  await using agent = await createTestAgent({
    script: callsOnce("rm -rf build"),
    tools: [testTool(async () => "ran")],
  });
  const ask = async (events?: Webhook["events"]) => {
    const webhook = webhookText(events ? { events } : {});
    const { runId } = await agent.submit("x", { answerable: true, webhook });
    const request = await agent.event(runId, "approval.request");
    const { status } = await agent.run(runId);
    const id = String(request.data["request_id"]);
    await agent.deps.questions.answer(id, { owner: "tester", choice: "once", by: "t" });
    await agent.events(runId);
    return { runId, id, status };
  };
  await ask(["failed"]);
  assert.deepEqual(await owed(agent), []);
  await ask();
  assert.deepEqual(
    (await owed(agent)).map(({ event }) => event.type),
    ["run.completed"],
  );
  const { runId, id } = await ask(["approval_required", "completed"]);
  const [, question, end] = (await owed(agent)).map(({ event }) => event);
  assert.deepEqual([question?.type, end?.type], ["run.approval_required", "run.completed"]);
  const { approval, session_id: sessionId, ...data } = question!.data;
  assert.deepEqual(data, {
    run_id: runId,
    status: "waiting_for_approval",
    request_id: id,
    request_kind: "approval",
  });
  assert.equal(typeof sessionId, "string");
  assert.deepEqual((approval as { request_id: string; command: string }).command, "rm -rf build");
});

test("the webhook of a response has OpenAI's event names and the response's id", async () => {
  const ends: Record<string, "length" | "refusal"> = { long: "length" };
  await using agent = await createTestAgent({
    script: ({ user }) => {
      if (user === "fail") return { error: { code: "provider_error", message: "gone" } };
      const stop = ends[user];
      return { text: "ok", ...(stop ? { stop } : {}) };
    },
  });
  const ids: (string | null)[] = [];
  for (const user of ["fine", "long", "fail"]) {
    const webhook = webhookText();
    const { runId } = await agent.submit(user, { kind: "response", webhook });
    await agent.events(runId);
    ids.push((await agent.run(runId)).response_id);
  }
  assert.deepEqual(
    (await owed(agent)).map(({ event }) => [event.type, event.data.id]),
    [
      ["response.completed", ids[0]],
      ["response.incomplete", ids[1]],
      ["response.failed", ids[2]],
    ],
  );
});

test("a long answer is cut between characters, and the event says so", async () => {
  const text = `${"a".repeat(65_535)}ü and more`;
  await using agent = await createTestAgent({ script: () => ({ text }) });
  const { runId } = await agent.submit("x", { webhook: webhookText() });
  await agent.events(runId);
  const [message] = await owed(agent);
  const { output, output_truncated: isCut } = message!.event.data;
  assert.deepEqual([output, isCut], ["a".repeat(65_535), true]);
  assert.equal((await agent.run(runId)).output, text);
});

test("no secret that is known here leaves in an event", async () => {
  registerSecret("tiger-in-the-tank-9");
  await using agent = await createTestAgent({
    script: () => ({ text: "it is tiger-in-the-tank-9" }),
  });
  const { runId } = await agent.submit("x", { webhook: webhookText() });
  await agent.events(runId);
  assert.doesNotMatch(JSON.stringify((await owed(agent))[0]?.event), /tiger/);
});

test("the receiver verifies what the dispatcher sends with the openai package", async (t) => {
  await using agent = await createTestAgent();
  const receiver = await openReceiver(t);
  const { clock, store, log } = agent.deps;
  const target = createWebhookTarget({ clock, version: "1", allowedPrivateHosts: ["127.0.0.1"] });
  const dispatcher = new Dispatcher({ store, clock, log, targets: createTargets([target]) });
  await dispatcher.start();
  const webhook = webhookText({ url: receiver.url });
  const { runId } = await agent.submit("x", { kind: "response", webhook });
  const [request] = await receiver.count(1);
  const client = new OpenAI({ apiKey: "unused", webhookSecret: secret });
  const event = await client.webhooks.unwrap(request!.body, request!.headers as Record<string, string>);
  assert.equal(event.type, "response.completed");
  assert.equal((event.data as { id: string }).id, (await agent.run(runId)).response_id);
  assert.equal(request?.headers["webhook-id"], event.id);
  await dispatcher.close();
});

const long = (length: number) => `https://hooks.example/${"a".repeat(length)}`.slice(0, length);

test("an address is a whole http or https URL of at most 2048 characters, without a password, not private", () => {
  const bad = [
    "",
    "hooks.example/x",
    "/x",
    "ftp://hooks.example/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https://user@hooks.example/",
    "https://user:pass@hooks.example/",
    "https://:pass@hooks.example/",
    long(2_049),
    "http://localhost/",
    "http://a.localhost:8080/",
    "http://127.0.0.2/",
    "http://127.2/",
    "http://0x7f000002/",
    "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest",
    "http://metadata.google.internal/",
    "http://0.0.0.0/",
  ];
  for (const url of bad) {
    const refusal = (error: unknown) =>
      error instanceof ServiceError &&
      error.code === "invalid_request" &&
      error.param === "agent.webhook.url";
    assert.throws(() => checkWebhook({ url, secret }, settings, "agent.webhook"), refusal, url);
  }
  for (const url of [
    "https://hooks.example/",
    "http://hooks.example:8080/x?y#z",
    long(2_048),
    "http://8.8.8.8/",
  ])
    checkWebhook({ url, secret }, settings, "webhook");
  checkWebhook({ url: "http://127.0.0.1:1234/", secret }, settings, "webhook");
});

test("a secret has 16 to 256 characters and can sign; without one the server needs its own", () => {
  const check = (given: string | undefined, hasSecret = false) =>
    checkWebhook(
      { url: "https://hooks.example/", ...(given === undefined ? {} : { secret: given }) },
      { ...settings, hasSecret },
      "webhook",
    );
  for (const given of ["", "short", "a".repeat(15), "a".repeat(257), "whsec_not base64 at all"])
    assert.throws(() => check(given, true), { code: "invalid_request", param: "webhook.secret" }, given);
  assert.throws(() => check(undefined), { code: "missing_required_parameter", param: "webhook.secret" });
  check(undefined, true);
  check("a".repeat(16));
  check("a".repeat(256));
  check("whsec_MDEyMzQ1Njc4OWFiY2RlZg==");
});
