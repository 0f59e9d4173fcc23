import assert from "node:assert/strict";
import { assertError, scenario } from "../../harness/scenario.ts";
import { isTicking } from "../../../src/cron/tick/status.ts";
import { KEY } from "../../harness/service.ts";

const failing = {
  mcp: { servers: { broken: { command: "/nonexistent/server", timeout_seconds: 1, enabled: true } } },
};

scenario(
  "getDetailedHealth",
  200,
  {
    title: "reports each part, with counts of runs and sessions",
    configProblems: ["foo is not a known key"],
  },
  async (service) => {
    await service.chat({ messages: [{ role: "user", content: "hi" }] });
    const response = await service.request("/health/detailed?strict=true");
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    assert.deepEqual(body.runs, {
      queued: 0,
      running: 0,
      waiting_for_approval: 0,
      stopping: 0,
      limit: 0,
    });
    assert.deepEqual([body.platform, body.version, body.draining], ["agent", "0.0.0-test", false]);
    assert.ok(Date.parse(body.started_at) <= Date.now());
    assert.equal(body.readiness.checks.config.warnings, 1);
    assert.ok(body.readiness.checks.disk.free_bytes > 0);
    assert.ok(!("mcp" in body.readiness.checks));
    while ((await isTicking(service.service.store, Date.now())) === false) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const report = await (await service.request("/health/detailed")).json();
    const { cron } = report.readiness.checks;
    assert.deepEqual([cron.status, cron.enabled, cron.scheduler, cron.late], ["ok", true, "ticking", 0]);
    assert.ok(Date.parse(cron.last_tick_at) <= Date.now());
  },
);

scenario(
  "getDetailedHealth",
  200,
  { title: "a server with cron off says so, and is ready", config: { cron: { enabled: false } } },
  async (service) => {
    const response = await service.request("/health/detailed?strict=true");
    const { cron } = (await response.json()).readiness.checks;
    assert.deepEqual(
      [response.status, cron.status, cron.enabled, cron.scheduler],
      [200, "ok", false, "none"],
    );
  },
);

scenario(
  "getDetailedHealth",
  200,
  { title: "is 200 even when something is degraded", config: failing },
  async (service) => {
    while (service.service.deps.mcp.status()[0]?.status === "connecting") {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const response = await service.request("/health/detailed");
    const body = await response.json();
    assert.deepEqual([response.status, body.status], [200, "degraded"]);
    assert.equal(body.readiness.checks.mcp.failed, 1);
    assert.equal((await service.request("/health/detailed?strict=true")).status, 503);
  },
);

scenario("getDetailedHealth", 400, { title: "strict is true or false" }, async (service) => {
  const error = await assertError(
    await service.request("/health/detailed?strict=yes"),
    400,
    "invalid_request",
  );
  assert.equal(error.param, "strict");
});

scenario(
  "getCapabilities",
  200,
  {
    title: "capabilities are those of the caller's key",
    keys: [{ key: KEY, name: "some", scopes: ["read"], maxConcurrentRuns: 2 }],
    config: { limits: { max_concurrent_runs: 10 } },
  },
  async (service) => {
    const body = await (await service.request("/v1/capabilities")).json();
    assert.deepEqual(body.auth, {
      type: "bearer",
      required: true,
      key: "some",
      owner: "some",
      scopes: ["read"],
    });
    assert.equal(body.limits.max_concurrent_runs, 2);
    assert.equal(body.endpoints.createRun.path, "/v1/runs");
  },
);
