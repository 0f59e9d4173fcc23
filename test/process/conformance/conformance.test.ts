/** agentd passes the conformance kit, on each runtime. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { agentdCommand } from "../../harness/program.ts";
import { check, startPlace } from "./place.ts";

test("agentd passes every scenario of HTTP, of the gateway on a socket and on standard input and output, and of webhooks", async () => {
  await using place = await startPlace();
  const webhook = ["--webhook", `${place.webhooks}/webhooks/conformance`];
  const { code, report, problems } = await check(
    ["--timeout", "200", "--http", place.url, "--gateway", place.url, ...webhook],
    place.env,
  );
  assert.deepEqual(problems, []);
  assert.equal(code, 0);
  assert.deepEqual(
    [...new Set(report.scenarios.map(({ surface }) => surface))],
    ["http", "gateway", "webhook"],
  );
  assert.ok(report.passed >= 60, `${report.passed} scenarios`);
  const child = await check(["--timeout", "200", "--gateway", agentdCommand("rpc").join(" ")], {
    AGENTD_HOME: place.home,
  });
  assert.deepEqual(child.problems, []);
});
