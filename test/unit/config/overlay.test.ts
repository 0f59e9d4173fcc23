import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../../src/config/config.ts";
import { secretValues } from "../../../src/config/secret-values.ts";

const file = "telemetry: { endpoint: 'http://file:4318', headers: { a: b }, service_name: file }\n";

test("the standard's variables say where traces go, above the file", () => {
  const { config, issues } = readConfig(file, {
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318",
    OTEL_EXPORTER_OTLP_HEADERS: "x-api-key=abc, authorization = Bearer%20d%3De=f%2C,",
    OTEL_SERVICE_NAME: "agent-7",
  });
  assert.deepEqual(issues, []);
  const { endpoint, headers, service_name: name } = config.telemetry;
  assert.equal(endpoint, "http://127.0.0.1:4318");
  assert.deepEqual(headers, { "x-api-key": "abc", authorization: "Bearer d=e=f," });
  assert.equal(name, "agent-7");
});

test("there are no traces unless the file or a variable names a collector", () => {
  assert.equal(readConfig("").config.telemetry.endpoint, undefined);
  assert.equal(readConfig("", { OTEL_SERVICE_NAME: "a" }).config.telemetry.endpoint, undefined);
  assert.equal(readConfig(file).config.telemetry.endpoint, "http://file:4318");
});

test("headers that are no pairs are told of without their value", () => {
  for (const value of [
    "hunter2hunter2",
    "a=hunter2hunter2%zz",
    "a=%ffhunter2hunter2",
    "=hunter2hunter2",
    "a=1,x",
  ]) {
    const { issues } = readConfig("", { OTEL_EXPORTER_OTLP_HEADERS: value });
    assert.deepEqual(
      issues.map(({ path, severity }) => [path, severity]),
      [["OTEL_EXPORTER_OTLP_HEADERS", "error"]],
      value,
    );
    assert.doesNotMatch(JSON.stringify(issues), /hunter2/);
  }
});

test("the collector's headers are secrets", () => {
  const env = { OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20collector-key" };
  const { config } = readConfig("", env);
  assert.ok(secretValues(config, env).includes("Bearer collector-key"));
});
