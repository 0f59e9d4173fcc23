import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../../src/config/config.ts";
import { secretValues } from "../../../src/config/secret-values.ts";

const file = "telemetry: { endpoint: 'http://file:4318', headers: { a: b }, service_name: file }\n";

test("the OpenTelemetry variables override the file", () => {
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

test("traces are off unless the file or a variable names a collector", () => {
  assert.equal(readConfig("").config.telemetry.endpoint, undefined);
  assert.equal(readConfig("", { OTEL_SERVICE_NAME: "a" }).config.telemetry.endpoint, undefined);
  assert.equal(readConfig(file).config.telemetry.endpoint, "http://file:4318");
});

test("headers that are not pairs are reported without their value", () => {
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

test("a variable that sets a number, a switch, a word or pairs is refused by name, with what would be right", () => {
  const rows = [
    ["AGENTD_PORT", "abc", "must be a whole number from 0 to 65535"],
    ["AGENTD_PORT", "-1", "must be a whole number from 0 to 65535"],
    ["AGENTD_PORT", "8642.5", "must be a whole number from 0 to 65535"],
    ["WEBHOOK_PORT", "65536", "must be a whole number from 0 to 65535"],
    ["WEBHOOK_ENABLED", "maybe", "must be true or false (or 1, 0, yes, no, on, off)"],
    ["AGENTD_LOG_LEVEL", "loud", "must be debug, info, warn or error"],
    ["AGENT_CRON_TIMEOUT", "1e3", "must be a number from 0 to 86400"],
    ["AGENT_CRON_MAX_PARALLEL", "Infinity", "must be a whole number from 1 to 1000"],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://x", "must be an address that begins with http:// or https://"],
    [
      "OTEL_EXPORTER_OTLP_HEADERS",
      "x",
      "must be pairs such as name=value,name=value, with their values percent-encoded",
    ],
  ] as const;
  for (const [variable, text, message] of rows) {
    const { issues } = readConfig("", { [variable]: text });
    assert.deepEqual(
      issues.map((issue) => `${issue.severity} ${issue.path} ${issue.message}`),
      [`error ${variable} ${message}`],
    );
  }
});

test("a variable that sets a number, a switch or a word may have blanks around it and any case", () => {
  const env = {
    AGENTD_PORT: " 80 ",
    WEBHOOK_ENABLED: "Yes",
    AGENTD_LOG_LEVEL: "DEBUG",
    AGENT_CRON_TIMEOUT: "0.5",
  };
  const { config, issues } = readConfig("", env);
  assert.deepEqual(issues, []);
  const { api_server: server, platforms, log, cron } = config;
  assert.deepEqual(
    [server.port, platforms.webhook.enabled, log.level, cron.inactivity_seconds],
    [80, true, "debug", 0.5],
  );
});
