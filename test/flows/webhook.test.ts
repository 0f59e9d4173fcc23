/** A completion webhook from end to end: asked for over HTTP, owed with the run's end, sent, signed, verified. */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { Webhook } from "standardwebhooks";
import { openReceiver, type Received } from "../harness/receiver.ts";
import { assertError } from "../harness/scenario.ts";
import { startTestService, type TestServiceOptions } from "../harness/service.ts";

const secret = `whsec_${btoa("0123456789abcdef0123456789abcdef")}`;
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const headersOf = (request: Received) => request.headers as Record<string, string>;
const start = (host: string, more: Record<string, unknown> = {}, options: TestServiceOptions = {}) =>
  startTestService({
    ...options,
    config: { api_server: { webhook_allowed_hosts: [host], ...more } },
  });

test("the end of a run is reported, signed with the client's secret, and verified by the official packages", async (t) => {
  const receiver = await openReceiver(t);
  await using service = await start(receiver.host);
  const response = await service.request("/v1/runs", {
    method: "POST",
    headers: { "content-type": "application/json", traceparent },
    body: JSON.stringify({ input: "hi", webhook: { url: receiver.url, secret } }),
  });
  assert.equal(response.status, 202);
  const { run_id: runId, session_id: sessionId } = await response.json();
  const [request] = await receiver.count(1);
  const event = new Webhook(secret).verify(request!.body, headersOf(request!)) as {
    id: string;
    type: string;
    data: Record<string, unknown>;
  };
  assert.equal(event.type, "run.completed");
  assert.deepEqual(
    [event.data["run_id"], event.data["session_id"], event.data["output"]],
    [runId, sessionId, "hello"],
  );
  assert.equal(request?.headers["webhook-id"], event.id);
  assert.equal(request?.headers["user-agent"], "agentd/0.0.0-test");
  assert.equal(request?.headers["traceparent"], traceparent);
});

test("the end of a response is reported with its id, signed with the configured secret", async (t) => {
  const receiver = await openReceiver(t);
  const options = { env: { HOOK_SECRET: secret } };
  await using service = await start(receiver.host, { webhook_secret: "env:HOOK_SECRET" }, options);
  const client = new OpenAI({
    apiKey: "test-key-0123456789abcdef",
    baseURL: `${service.url}/v1`,
    webhookSecret: secret,
  });
  const agent = { webhook: { url: receiver.url } };
  const body = { model: "agent", input: "hi", agent } as unknown as { model: string; input: string };
  const response = await client.responses.create(body);
  const [request] = await receiver.count(1);
  const event = await client.webhooks.unwrap(request!.body, headersOf(request!));
  assert.equal(event.type, "response.completed");
  assert.equal((event.data as { id: string }).id, response.id);
});

test("the end of a chat is reported too; a forbidden webhook is refused before anything runs", async (t) => {
  const receiver = await openReceiver(t);
  await using service = await start(receiver.host);
  const chat = (webhook: unknown) =>
    service.chat({ messages: [{ role: "user", content: "hi" }], agent: { webhook } });
  const unsigned = await assertError(await chat({ url: receiver.url }), 400, "missing_required_parameter");
  assert.equal(unsigned.param, "agent.webhook.secret");
  const inside = await assertError(await chat({ url: "http://10.0.0.1/", secret }), 400, "invalid_request");
  assert.equal(inside.param, "agent.webhook.url");
  assert.equal((await chat({ url: receiver.url, secret })).status, 200);
  const [request] = await receiver.count(1);
  assert.match(request!.body, /"type":"run\.completed"/);
  assert.equal(receiver.received.length, 1);
});

test("pending webhooks of a stopped service are sent by the next one, under the same id", async (t) => {
  const receiver = await openReceiver(t, (response, _request, count) => {
    if (count > 1) response.writeHead(count > 2 ? 400 : 204).end();
  });
  const service = await start(receiver.host);
  const prompt = {
    messages: [{ role: "user", content: "hi" }],
    agent: { webhook: { url: receiver.url, secret } },
  };
  await service.chat(prompt);
  await receiver.count(1);
  await using next = await service.restart({
    config: { api_server: { webhook_allowed_hosts: [receiver.host] } },
  });
  const [first, second] = await receiver.count(2);
  assert.equal(first?.headers["webhook-id"], second?.headers["webhook-id"]);
  assert.equal(first?.body, second?.body);
  await next.chat(prompt);
  const givenUp = (line: string) => line.includes("no attempt is left");
  while (!next.logLines.some(givenUp)) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(next.logLines.every((line) => !line.includes(secret.slice(6))));
});
