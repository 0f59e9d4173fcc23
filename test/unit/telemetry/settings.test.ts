import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import { tracingSettings } from "../../../src/telemetry/settings.ts";
import { testConfig } from "../../harness/service.ts";

const version = "1.2.3";
const settingsOf = (telemetry: Readonly<Record<string, unknown>>, env = {}) =>
  tracingSettings(testConfig({ telemetry }), { env, version });

test("without an endpoint there are no settings", () => {
  assert.equal(settingsOf({}), undefined);
  assert.equal(settingsOf({ headers: { a: "env:NOT_SET" }, sample_ratio: 0.5 }), undefined);
});

test("everything has a default", () => {
  assert.deepEqual(settingsOf({ endpoint: "http://127.0.0.1:4318" }), {
    url: "http://127.0.0.1:4318/v1/traces",
    headers: {},
    serviceName: "agentd",
    version,
    sampleRatio: 1,
    timeoutMs: 10_000,
    maxQueueSpans: 2_048,
  });
});

test("traces go to /v1/traces below the endpoint", () => {
  for (const [endpoint, url] of [
    ["http://collector", "http://collector/v1/traces"],
    ["https://collector:4318/", "https://collector:4318/v1/traces"],
    ["https://api.example.com/otlp", "https://api.example.com/otlp/v1/traces"],
    ["https://api.example.com/otlp//?tenant=a", "https://api.example.com/otlp/v1/traces?tenant=a"],
  ]) {
    assert.equal(settingsOf({ endpoint })?.url, url);
  }
});

test("headers may refer to the environment", () => {
  const telemetry = { endpoint: "http://c", headers: { authorization: "env:COLLECTOR_KEY", tenant: "a" } };
  assert.deepEqual(settingsOf(telemetry, { COLLECTOR_KEY: "Bearer x" })?.headers, {
    authorization: "Bearer x",
    tenant: "a",
  });
  assert.throws(
    () => settingsOf(telemetry),
    (error: unknown) =>
      error instanceof ServiceError &&
      error.code === "invalid_config" &&
      error.param === "telemetry.headers.authorization",
  );
});

test("an invalid address is refused at start", () => {
  assert.throws(
    () => settingsOf({ endpoint: "http://[" }),
    (error: unknown) => error instanceof ServiceError && error.param === "telemetry.endpoint",
  );
});
