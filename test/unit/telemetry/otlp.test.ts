import assert from "node:assert/strict";
import { test } from "node:test";
import { registerSecret, parseTraceparent } from "../../../src/base/observe.ts";
import { createOtlpTracer } from "../../../src/telemetry/otlp.ts";
import type { ExportFailure, TracingSettings } from "../../../src/telemetry/settings.ts";
import { startCollector, type Collector } from "../../harness/collector.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const remote = `00-${traceId}-00f067aa0ba902b7-01`;

function settingsOf(collector: Collector, more: Partial<TracingSettings> = {}): TracingSettings {
  return {
    url: `${collector.url}/v1/traces`,
    headers: {},
    serviceName: "agentd-test",
    version: "0.0.0-test",
    sampleRatio: 1,
    timeoutMs: 60_000,
    maxQueueSpans: 64,
    delayMs: 10,
    ...more,
  };
}

const noLimit = new AbortController().signal;
const never = (failure: ExportFailure) => assert.fail(failure.reason);

test("spans go to the collector with their resource, kind, attributes, events and parents", async () => {
  await using _ = watchUnhandled();
  await using collector = await startCollector();
  const headers = { authorization: "Bearer collector-key-123", "x-tenant": "a" };
  const { tracer, close } = createOtlpTracer(settingsOf(collector, { headers }), never);
  const request = tracer.start("GET /v1/runs", { kind: "server", parent: remote });
  const call = request.child("chat gpt", {
    kind: "client",
    attributes: { text: "a", count: 3, share: 0.5, is: true, list: ["x", "y"], none: undefined },
  });
  call.event("retry", { after: 1 });
  call.set({ late: "yes" });
  call.end();
  request.end();
  await close(noLimit);
  const [span, root] = [collector.span("chat gpt"), collector.span("GET /v1/runs")];
  assert.deepEqual(span.attributes, {
    text: "a",
    count: 3,
    share: 0.5,
    is: true,
    list: ["x", "y"],
    late: "yes",
  });
  assert.deepEqual(span.events, ["retry"]);
  assert.deepEqual([span.kind, root.kind], ["client", "server"]);
  assert.deepEqual([span.traceId, root.traceId], [traceId, traceId]);
  assert.deepEqual([span.parentSpanId, root.parentSpanId], [root.spanId, "00f067aa0ba902b7"]);
  assert.equal(span.resource["service.name"], "agentd-test");
  assert.equal(span.resource["service.version"], "0.0.0-test");
  assert.equal(span.isError, false);
  const { path, headers: got } = collector.requests[0]!;
  assert.equal(path, "/v1/traces");
  assert.equal(got["authorization"], "Bearer collector-key-123");
  assert.equal(got["x-tenant"], "a");
});

test("a span without a parent starts a trace, and its context is passed on", async () => {
  await using collector = await startCollector();
  const { tracer, close } = createOtlpTracer(settingsOf(collector), never);
  const first = tracer.start("first", { parent: "not a context" });
  const context = parseTraceparent(first.traceparent);
  assert.equal(context?.isSampled, true);
  const second = tracer.start("second", { parent: first.traceparent });
  second.end();
  first.end();
  await close(noLimit);
  assert.equal(collector.span("first").parentSpanId, undefined);
  assert.equal(collector.span("first").traceId, context?.traceId);
  assert.deepEqual(collector.path(collector.span("second")), ["first", "second"]);
});

test("a failed span has the code of its error and never its message", async () => {
  await using collector = await startCollector();
  const { tracer, close } = createOtlpTracer(settingsOf(collector), never);
  const span = tracer.start("work");
  span.fail(new TypeError("the prompt said: open sesame"));
  span.end();
  await close(noLimit);
  const { isError, attributes } = collector.span("work");
  assert.equal(isError, true);
  assert.equal(attributes["error.type"], "TypeError");
  assert.ok(!collector.text.includes("sesame"));
});

test("known secrets and texts that look like secrets are redacted in spans", async () => {
  await using collector = await startCollector();
  registerSecret("open-sesame-0123456789");
  const { tracer, close } = createOtlpTracer(settingsOf(collector), never);
  tracer
    .start("work", {
      attributes: { a: "open-sesame-0123456789", b: ["sk-abcdefghijklmnopqrstuvwxyz"], c: "x".repeat(5_000) },
    })
    .end();
  await close(noLimit);
  const { attributes } = collector.span("work");
  assert.deepEqual([attributes["a"], attributes["b"]], ["[redacted]", ["[redacted]"]]);
  assert.equal(String(attributes["c"]).length, 1_024);
});

test("with a ratio of 0, only traces that the caller sampled are sent", async () => {
  await using collector = await startCollector();
  const { tracer, close } = createOtlpTracer(settingsOf(collector, { sampleRatio: 0 }), never);
  const own = tracer.start("own");
  assert.equal(own.isRecording, false);
  assert.equal(parseTraceparent(own.traceparent)?.isSampled, false, "what is not sent says so");
  own.child("own child").end();
  own.end();
  tracer.start("asked", { parent: remote }).end();
  tracer.start("not asked", { parent: remote.replace(/01$/, "00") }).end();
  await close(noLimit);
  assert.deepEqual(collector.names, ["asked"]);
});

test("ended spans are sent soon, without a close", async () => {
  await using collector = await startCollector();
  const { tracer, close } = createOtlpTracer(settingsOf(collector), never);
  tracer.start("soon").end();
  await collector.until(({ names }) => names.includes("soon"));
  await close(noLimit);
});

test("the queue is bounded: surplus spans are dropped without waiting", async () => {
  await using collector = await startCollector();
  const settings = settingsOf(collector, { maxQueueSpans: 64, delayMs: 60_000 });
  const { tracer, close } = createOtlpTracer(settings, never);
  for (let index = 0; index < 500; index++) tracer.start(`span ${index}`).end();
  await close(noLimit);
  assert.ok(collector.spans.length <= 128, `${collector.spans.length} spans were kept`);
  assert.ok(collector.names.includes("span 0"));
});

test("a batch that the collector refuses is reported without the collector's message", async () => {
  await using _ = watchUnhandled();
  await using collector = await startCollector((response) => void response.writeHead(400).end("open sesame"));
  const failures: ExportFailure[] = [];
  const { tracer, close } = createOtlpTracer(settingsOf(collector), (failure) => void failures.push(failure));
  tracer.start("work").end();
  await close(noLimit);
  assert.deepEqual(failures, [{ reason: "The collector answered 400.", spans: 1 }]);
});

test("an unreachable collector fails the batch and nothing else", async () => {
  await using _ = watchUnhandled();
  const collector = await startCollector();
  await collector[Symbol.asyncDispose]();
  const failures: ExportFailure[] = [];
  const { tracer, close } = createOtlpTracer(
    settingsOf(collector, { timeoutMs: 100 }),
    (failure) => void failures.push(failure),
  );
  tracer.start("work").end();
  await close(noLimit);
  assert.equal(failures.length, 1);
  assert.equal(failures[0]?.spans, 1);
  tracer.start("after the close").end();
});

test("close gives up on a collector that does not answer in time", async () => {
  await using _ = watchUnhandled();
  await using collector = await startCollector(() => {});
  const failures: ExportFailure[] = [];
  const settings = settingsOf(collector, { timeoutMs: 60_000 });
  const { tracer, close } = createOtlpTracer(settings, (failure) => void failures.push(failure));
  tracer.start("work").end();
  const limit = new AbortController();
  const closed = close(limit.signal);
  await collector.until(({ requests }) => requests.length === 1);
  limit.abort();
  await closed;
  assert.deepEqual(failures, [{ reason: "The service has stopped.", spans: 1 }]);
});

test("close does not retry a batch after its time", async () => {
  await using _ = watchUnhandled();
  await using collector = await startCollector((response) => void response.writeHead(503).end());
  const failures: ExportFailure[] = [];
  const settings = settingsOf(collector, { timeoutMs: 60_000 });
  const { tracer, close } = createOtlpTracer(settings, (failure) => void failures.push(failure));
  tracer.start("work").end();
  const limit = new AbortController();
  const closed = close(limit.signal);
  await collector.until(({ requests }) => requests.length === 1);
  limit.abort();
  await closed;
  assert.equal(collector.requests.length, 1);
  assert.equal(failures.length, 1);
});
