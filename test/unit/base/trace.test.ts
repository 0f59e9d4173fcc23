import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import {
  errorType,
  formatTraceparent,
  noSpan,
  offTracer,
  parseTraceparent,
} from "../../../src/base/observe.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";

test("a traceparent is version, trace id, parent id and flags", () => {
  const sampled = { traceId, spanId, isSampled: true };
  assert.deepEqual(parseTraceparent(`00-${traceId}-${spanId}-01`), sampled);
  assert.deepEqual(parseTraceparent(` 00-${traceId}-${spanId}-01 `), sampled);
  assert.equal(parseTraceparent(`00-${traceId}-${spanId}-00`)?.isSampled, false);
});

test("flags other than sampled are ignored", () => {
  assert.equal(parseTraceparent(`00-${traceId}-${spanId}-03`)?.isSampled, true);
  assert.equal(parseTraceparent(`00-${traceId}-${spanId}-fe`)?.isSampled, false);
});

test("the fields of version 00 are read from later versions", () => {
  assert.equal(parseTraceparent(`01-${traceId}-${spanId}-01`)?.traceId, traceId);
  assert.equal(parseTraceparent(`cc-${traceId}-${spanId}-01-what-comes`)?.spanId, spanId);
});

test("an invalid traceparent counts as absent", () => {
  const zeroTrace = "0".repeat(32);
  const zeroSpan = "0".repeat(16);
  for (const header of [
    null,
    undefined,
    "",
    "00",
    `ff-${traceId}-${spanId}-01`,
    `00-${zeroTrace}-${spanId}-01`,
    `00-${traceId}-${zeroSpan}-01`,
    `00-${traceId}-${spanId}-01-more`,
    `00-${traceId}-${spanId}-1`,
    `00-${traceId}-${spanId}`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
    `00-${traceId}0-${spanId}-01`,
    `00_${traceId}_${spanId}_01`,
    `01-${traceId}-${spanId}-01more`,
    `01-${traceId}-${spanId}-01-${"x".repeat(600)}`,
    `00-${traceId}-${spanId}-0g`,
  ]) {
    assert.equal(parseTraceparent(header), undefined, String(header));
  }
});

test("a formatted path parses to the same path", () => {
  for (const isSampled of [true, false]) {
    const context = { traceId, spanId, isSampled };
    assert.deepEqual(parseTraceparent(formatTraceparent(context)), context);
  }
});

test("off: every span is the same and records nothing", () => {
  assert.equal(offTracer.isOn, false);
  assert.equal(offTracer.start("a"), noSpan);
  assert.equal(offTracer.start("b", { kind: "server", attributes: { a: 1 } }), noSpan);
  assert.equal(offTracer.start("c", { parent: "nonsense" }), noSpan);
  assert.equal(noSpan.child("d"), noSpan);
  assert.equal(noSpan.traceparent, undefined);
  assert.equal(noSpan.isRecording, false);
  noSpan.set({ a: 1 });
  noSpan.event("e");
  noSpan.fail(new Error("no"));
  noSpan.end();
});

test("off: an incoming context is propagated unchanged", () => {
  const parent = `00-${traceId}-${spanId}-01`;
  const span = offTracer.start("a", { parent });
  assert.equal(span.traceparent, parent);
  assert.equal(span.child("b").child("c").traceparent, parent);
});

test("only the code or name of an error is recorded", () => {
  assert.equal(errorType("timeout"), "timeout");
  assert.equal(errorType(new ServiceError("run_not_found", "run_secret is not there")), "run_not_found");
  assert.equal(errorType(new TypeError("the prompt was: hello")), "TypeError");
  assert.equal(errorType(Object.assign(new Error("x"), { code: "ECONNRESET" })), "ECONNRESET");
  assert.equal(errorType(Object.assign(new Error("x"), { statusCode: 429 })), "429");
  for (const odd of [undefined, null, 7, {}]) assert.equal(errorType(odd), "_OTHER");
});
