import assert from "node:assert/strict";
import { test } from "node:test";
import { operations, type OperationId } from "../../../generated/http/server.gen.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { RequestWatch, type WatchDeps } from "../../../src/http/edge/serve.ts";
import { KeepingTracer } from "../../harness/tracer.ts";

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

function watch(id: OperationId, more: Partial<WatchDeps> = {}, headers: Record<string, string> = {}) {
  const tracer = new KeepingTracer();
  const clock = new FakeClock();
  const seen: string[] = [];
  const deps: WatchDeps = {
    clock,
    tracer,
    metrics: {
      text: async () => "",
      answered: (operation, status, seconds) => void seen.push(`${operation} ${status} ${seconds}`),
      streamOpened: (operation) => void seen.push(`open ${operation}`),
      streamClosed: (operation) => void seen.push(`close ${operation}`),
    },
    ...more,
  };
  const request = new Request("http://localhost:1/v1/runs/run_1?wait=5&key=sesame", { headers });
  return { tracer, clock, seen, watch: new RequestWatch(deps, { id, operation: operations[id] }, request) };
}

test("a request is a server span with method, route and status, below the caller's span", () => {
  const { tracer, clock, seen, watch: one } = watch("getRun", {}, { traceparent: parent });
  clock.tick(250);
  one.answered(200);
  const span = tracer.span("GET /v1/runs/{run_id}");
  assert.deepEqual([span.kind, span.parent, span.ends, span.error], ["server", parent, 1, undefined]);
  assert.deepEqual(span.attributes, {
    "http.request.method": "GET",
    "http.route": "/v1/runs/{run_id}",
    "url.path": "/v1/runs/run_1",
    "url.scheme": "http",
    "http.response.status_code": 200,
  });
  assert.equal(one.traceparent, span.traceparent);
  assert.deepEqual(seen, ["getRun 200 0.25"]);
});

test("a client error does not fail the server span", () => {
  const wrong = watch("getRun");
  wrong.watch.answered(404, { error: new ServiceError("run_not_found", "no") });
  assert.equal(wrong.tracer.spans[0]?.error, undefined);
  assert.equal(wrong.tracer.spans[0]?.attributes["http.response.status_code"], 404);
  const failed = watch("getRun");
  failed.watch.answered(503, { error: new ServiceError("state_store_unavailable", "no") });
  assert.equal(failed.tracer.spans[0]?.error, "state_store_unavailable");
});

test("the span of a stream ends with the stream", () => {
  const { tracer, seen, watch: one } = watch("streamRunEvents");
  one.answered(200, { isStream: true });
  assert.equal(tracer.spans[0]?.ends, 0);
  one.streamed();
  assert.equal(tracer.spans[0]?.ends, 1);
  assert.deepEqual(seen, ["streamRunEvents 200 0", "open streamRunEvents", "close streamRunEvents"]);
});

test("health probes leave no span, and are counted", () => {
  for (const id of ["getHealth", "getMetrics"] as const) {
    const { tracer, seen, watch: one } = watch(id, {}, { traceparent: parent });
    one.answered(200);
    assert.equal(one.traceparent, parent);
    assert.equal(tracer.spans.length, 0);
    assert.deepEqual(seen, [`${id} 200 0`]);
  }
});

test("without tracing, a valid trace context is passed on and an invalid one is dropped", () => {
  const { clock } = watch("getRun");
  const off: WatchDeps = { clock };
  const contextOf = (headers: Record<string, string>) => {
    const request = new Request("http://localhost/", { headers });
    const one = new RequestWatch(off, { id: "getRun", operation: operations.getRun }, request);
    one.answered(200);
    return one.traceparent;
  };
  assert.equal(contextOf({ traceparent: parent }), parent);
  assert.equal(contextOf({ traceparent: "00-0-0-0" }), undefined);
  assert.equal(contextOf({}), undefined);
});
