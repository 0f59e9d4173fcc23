/** Whole services, and what a real collector on loopback gets of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseTraceparent } from "../../../src/base/observe.ts";
import { startCollector, type CollectedSpan, type Collector } from "../../harness/collector.ts";
import { calling, saying } from "../../harness/openai-server.ts";
import { startFlow } from "../../harness/provider-flow.ts";
import { openReceiver } from "../../harness/receiver.ts";
import { fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { startTestService, type TestService } from "../../harness/service.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

const remoteTrace = "0af7651916cd43dd8448eb211c80319c";
const remoteSpan = "b7ad6b7169203331";
const traceparent = `00-${remoteTrace}-${remoteSpan}-01`;
const canary = "canary-of-what-was-said";

const to = ({ url }: Collector, more: Readonly<Record<string, unknown>> = {}) => ({
  telemetry: { endpoint: url, ...more },
});
const chat = (service: TestService, body: object = {}, headers: Record<string, string> = {}) =>
  service.chat({ model: "agentd", messages: [{ role: "user", content: canary }], ...body }, { headers });
const listing = { id: "call_1", name: "search_files", json: JSON.stringify({ pattern: canary }) };
const spanId = (span: CollectedSpan) => span.spanId;
const startOf = (collector: Collector, name: string) => collector.spans.filter((span) => span.name === name);

test("a chat with a tool call is one tree: request, invoke_agent, then chat, execute_tool, chat", async () => {
  await using _ = watchUnhandled();
  await using collector = await startCollector();
  let answered: Response;
  let models: readonly (string | undefined)[];
  {
    const replies = [calling(listing), saying(canary)];
    await using flow = await startFlow(replies, { config: to(collector) });
    answered = await chat(flow.service, {}, { traceparent });
    assert.equal(answered.status, 200);
    assert.match(await answered.text(), new RegExp(canary));
    models = flow.models.requests.map(({ headers }) => headers["traceparent"] as string | undefined);
  }
  const request = collector.span("POST /v1/chat/completions");
  const run = collector.span("invoke_agent agentd");
  const tool = collector.span("execute_tool search_files");
  const calls = startOf(collector, "chat test-model");
  assert.equal(calls.length, 2);
  assert.equal(collector.spans.length, 5, collector.names.join(", "));
  // The tree, and the trace that came with the request.
  assert.ok(collector.spans.every(({ traceId }) => traceId === remoteTrace));
  assert.equal(request.parentSpanId, remoteSpan);
  assert.equal(run.parentSpanId, request.spanId);
  for (const span of [tool, ...calls]) assert.equal(span.parentSpanId, run.spanId);
  assert.deepEqual(
    [request, run, tool, ...calls].map(({ kind }) => kind),
    ["server", "internal", "internal", "client", "client"],
  );
  // What goes on, and back.
  assert.equal(parseTraceparent(answered.headers.get("traceparent"))?.spanId, request.spanId);
  assert.deepEqual(
    models.map((header) => parseTraceparent(header)?.spanId),
    calls.map(spanId),
  );
  // What they tell.
  assert.equal(request.attributes["http.response.status_code"], 200);
  assert.equal(run.attributes["gen_ai.conversation.id"], answered.headers.get("x-agent-session-id"));
  assert.equal(run.attributes["agentd.run.id"], answered.headers.get("x-agent-run-id"));
  assert.equal(run.attributes["agentd.run.status"], "completed");
  assert.equal(run.attributes["agentd.run.tool_calls"], 1);
  assert.equal(tool.attributes["gen_ai.tool.name"], "search_files");
  assert.equal(tool.attributes["gen_ai.tool.call.id"], "call_1");
  assert.deepEqual(
    calls.map(({ attributes }) => attributes["gen_ai.response.finish_reasons"]),
    [["tool-calls"], ["stop"]],
  );
  assert.equal(calls[0]?.attributes["gen_ai.provider.name"], "local");
  assert.equal(typeof calls[0]?.attributes["server.port"], "number");
  assert.equal(run.resource["service.name"], "agentd");
  assert.equal(run.resource["service.version"], "0.0.0-test");
  // What they do not.
  assert.ok(!collector.text.includes(canary), "something that was said is in a span");
});

test("token counts are those of the provider", async () => {
  await using collector = await startCollector();
  {
    const usage = { usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } };
    const reply = { pieces: [{ text: "x" }, { finish: "stop" }, usage] };
    await using flow = await startFlow([reply], { config: to(collector, { service_name: "my-agent" }) });
    await (await chat(flow.service)).text();
  }
  for (const name of ["invoke_agent agentd", "chat test-model"]) {
    const { attributes, resource } = collector.span(name);
    assert.equal(attributes["gen_ai.usage.input_tokens"], 11);
    assert.equal(attributes["gen_ai.usage.output_tokens"], 7);
    assert.equal(resource["service.name"], "my-agent");
  }
});

test("a failed model call, its run and its request carry the error code", async () => {
  await using collector = await startCollector();
  {
    const refusal = { status: 401, body: JSON.stringify({ error: { message: canary } }) };
    await using flow = await startFlow([refusal], { config: to(collector) });
    await (await chat(flow.service)).text();
  }
  const call = collector.span("chat test-model");
  assert.deepEqual([call.isError, call.attributes["error.type"]], [true, "401"]);
  const run = collector.span("invoke_agent agentd");
  assert.deepEqual([run.isError, run.attributes["error.type"]], [true, "provider_error"]);
  assert.equal(run.attributes["agentd.run.status"], "failed");
  assert.ok(!collector.text.includes(canary));
});

test("a queued run belongs to the trace of its request", async () => {
  await using collector = await startCollector();
  const gate = Promise.withResolvers<void>();
  const ids: string[] = [];
  {
    const script = async ({ user }: { readonly user: string }) => {
      if (user === "first") await gate.promise;
      return { text: user };
    };
    await using service = await startTestService({ script, config: to(collector) });
    for (const input of ["first", "second"]) {
      const accepted = await startRun(
        service,
        { input, session_id: "one" },
        input === "second" ? { traceparent } : {},
      );
      ids.push(accepted.run_id);
    }
    assert.equal((await fetchRun(service, ids[1]!)).status, "queued");
    gate.resolve();
    await runEvent(service, ids[1]!, "run.completed");
  }
  const runs = startOf(collector, "invoke_agent agentd");
  const second = runs.find(({ attributes }) => attributes["agentd.run.id"] === ids[1]);
  const request = startOf(collector, "POST /v1/runs").find(({ parentSpanId }) => parentSpanId === remoteSpan);
  assert.equal(runs.length, 2);
  assert.equal(second?.traceId, remoteTrace);
  assert.equal(second?.parentSpanId, request?.spanId);
  const first = runs.find((run) => run !== second);
  assert.notEqual(first?.traceId, remoteTrace);
});

test("a run that waits for a restart keeps its trace", async () => {
  await using collector = await startCollector();
  const gate = Promise.withResolvers<void>();
  const script = async ({ user, signal }: { readonly user: string; readonly signal: AbortSignal }) => {
    if (user !== "first") return { text: user };
    signal.addEventListener("abort", () => gate.resolve());
    await gate.promise;
    return { text: user };
  };
  const service = await startTestService({ script, config: to(collector) });
  await startRun(service, { input: "first", session_id: "one" });
  const { run_id: id } = await startRun(service, { input: "second", session_id: "one" }, { traceparent });
  {
    await using later = await service.restart({ script, config: to(collector) });
    await runEvent(later, id, "run.completed");
  }
  const run = startOf(collector, "invoke_agent agentd").find(
    ({ attributes }) => attributes["agentd.run.id"] === id,
  );
  assert.equal(run?.traceId, remoteTrace);
  assert.deepEqual(collector.path(run!), ["POST /v1/runs", "invoke_agent agentd"]);
});

test("the span of a stream lasts as long as the stream", async () => {
  await using collector = await startCollector();
  const gate = Promise.withResolvers<void>();
  {
    async function* text() {
      yield "a";
      await gate.promise;
      yield "b";
    }
    await using service = await startTestService({
      script: () => ({ text: text() }),
      config: to(collector),
    });
    const response = await chat(service, { stream: true });
    const metrics = await (await service.request("/metrics")).text();
    assert.match(metrics, /agentd_subscribers\{operation="createChatCompletion"\} 1\n/);
    gate.resolve();
    assert.match(await response.text(), /\[DONE\]/);
  }
  const [request, run] = [collector.span("POST /v1/chat/completions"), collector.span("invoke_agent agentd")];
  assert.equal(run.parentSpanId, request.spanId);
  assert.ok(request.durationMs > 0);
});

test("a sub-agent's run belongs to the trace of its tool call", async () => {
  await using collector = await startCollector();
  {
    const json = JSON.stringify({ tasks: [{ goal: "look" }] });
    const replies = [calling({ id: "d", name: "delegate_task", json }), saying("found"), saying("done")];
    await using flow = await startFlow(replies, { config: to(collector) });
    await (await chat(flow.service)).text();
  }
  const runs = startOf(collector, "invoke_agent agentd");
  const child = runs.find(({ attributes }) => attributes["agentd.run.kind"] === "subagent");
  assert.deepEqual(collector.path(child!), [
    "POST /v1/chat/completions",
    "invoke_agent agentd",
    "execute_tool delegate_task",
    "invoke_agent agentd",
  ]);
  assert.equal(new Set(collector.spans.map(({ traceId }) => traceId)).size, 1);
});

test("a completion webhook belongs to the trace of the request, and passes the context to the receiver", async (t) => {
  await using collector = await startCollector();
  const receiver = await openReceiver(t);
  {
    const server = { webhook_allowed_hosts: [receiver.host] };
    await using service = await startTestService({ config: { ...to(collector), api_server: server } });
    const secret = `whsec_${btoa("0123456789abcdef0123456789abcdef")}`;
    await startRun(service, { webhook: { url: receiver.url, secret } }, { traceparent });
    await receiver.count(1);
  }
  const delivery = collector.span("send webhook");
  const request = collector.span("POST /v1/runs");
  assert.deepEqual([delivery.kind, delivery.isError], ["producer", false]);
  assert.deepEqual([delivery.traceId, delivery.parentSpanId], [remoteTrace, request.spanId]);
  const context = parseTraceparent(String(receiver.received[0]?.headers["traceparent"]));
  assert.equal(context?.traceId, remoteTrace);
  assert.equal(context?.spanId, delivery.spanId);
});

test("failed requests have their status, and probes have no span", async () => {
  await using collector = await startCollector();
  {
    await using service = await startTestService({ config: to(collector) });
    await service.request("/v1/runs/run_none");
    await service.request("/v1/models", { headers: { authorization: "" } });
    await service.request("/health");
    await service.request("/metrics");
  }
  const missing = collector.span("GET /v1/runs/{run_id}");
  assert.equal(missing.attributes["http.response.status_code"], 404);
  assert.equal(missing.attributes["http.route"], "/v1/runs/{run_id}");
  assert.equal(missing.isError, false);
  assert.equal(collector.span("GET /v1/models").attributes["http.response.status_code"], 401);
  assert.equal(collector.spans.length, 2);
});

test("the collector's headers come from the environment and stay out of the log", async () => {
  await using collector = await startCollector((response) => void response.writeHead(500).end("no"));
  const key = "Bearer the-collector-key-of-this-test";
  let lines: readonly string[];
  {
    await using service = await startTestService({
      config: to(collector, { headers: { authorization: "env:COLLECTOR_KEY" } }),
      env: { COLLECTOR_KEY: key },
    });
    await (await chat(service)).text();
    lines = service.logLines;
  }
  assert.equal(collector.requests[0]?.headers["authorization"], key);
  assert.match(lines.join(""), /spans could not be sent/);
  assert.ok(!lines.join("").includes(key));
});

test("without tracing, nothing is sent, and a trace context reaches the model, the webhook and the answer", async (t) => {
  await using collector = await startCollector();
  const receiver = await openReceiver(t);
  const server = { webhook_allowed_hosts: [receiver.host] };
  {
    await using flow = await startFlow([saying("a"), saying("b"), saying("c")], {
      config: { api_server: server },
    });
    const { service, models } = flow;
    const none = await chat(service);
    assert.equal(none.headers.get("traceparent"), null);
    const invalid = await chat(service, {}, { traceparent: `00-${"0".repeat(32)}-${remoteSpan}-01` });
    assert.equal(invalid.headers.get("traceparent"), null);
    const secret = `whsec_${btoa("0123456789abcdef0123456789abcdef")}`;
    const webhook = { url: receiver.url, secret };
    const given = await post(service, "/v1/runs", { input: "hi", webhook }, { traceparent });
    assert.equal(given.headers.get("traceparent"), traceparent);
    await receiver.count(1);
    assert.deepEqual(
      models.requests.map(({ headers }) => headers["traceparent"]),
      [undefined, undefined, traceparent],
    );
    assert.equal(receiver.received[0]?.headers["traceparent"], traceparent);
    assert.equal(service.service.agent.deps.tracing, undefined);
  }
  assert.equal(collector.requests.length, 0);
});
