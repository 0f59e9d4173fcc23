/** The conformance kit finds the faults of a broken server, and says what it needs. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it, test } from "node:test";
import { HttpTarget } from "../../../src/cli/testing/http-target.ts";
import { httpScenarios } from "../../../src/cli/testing/http.ts";
import { scenariosOfRuns } from "../../../src/cli/testing/runs.ts";
import { runScenarios, type Scenario } from "../../../src/cli/testing/scenario.ts";
import { webhookScenarios } from "../../../src/cli/testing/webhook.ts";
import { agentd } from "../../harness/agentd.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { agentdCommand, scriptCommand } from "../../harness/program.ts";
import { httpFaults, plant, webhookFaults } from "./faults.ts";
import { check, SECRET, startPlace } from "./place.ts";

/** Less than the machine may take: a scenario of a broken server that waits for what never comes. */
const FAULT_MS = 5_000;

/**
 * Runs the scenarios with `finder` in their title in this process, and fails when none finds a problem. What the command adds
 * to them, the other tests show.
 */
async function assertFound<Target>(scenarios: readonly Scenario<Target>[], finder: string, target: Target) {
  const chosen = scenarios.filter(({ title }) => title.includes(finder));
  assert.notEqual(chosen.length, 0, finder);
  const results = await runScenarios("", chosen, { target, timeoutMs: FAULT_MS, onResult: () => {} });
  assert.ok(results.some(({ problem }) => problem !== undefined));
}

describe("a fault is found:", () => {
  let place: Awaited<ReturnType<typeof startPlace>>;
  before(async () => {
    place = await startPlace();
  });
  after(() => place[Symbol.asyncDispose]());

  for (const fault of httpFaults) {
    it(fault.name, async () => {
      await using broken = await plant(place.url, fault);
      const target = new HttpTarget(broken.url, { key: place.env.API_SERVER_KEY, timeoutMs: FAULT_MS });
      await assertFound([...httpScenarios, ...scenariosOfRuns], fault.finder, target);
    });
  }

  for (const fault of webhookFaults) {
    it(fault.name, async () => {
      await using broken = await plant(place.webhooks, fault);
      const target = { url: `${broken.url}/webhooks/conformance`, secret: SECRET };
      await assertFound(webhookScenarios, fault.finder, target);
    });
  }
});

const gatewayFaults = [
  ["no-ready", "the first frame is gateway.ready"],
  ["lost-event", "the events of a session are numbered"],
  ["lost-delta", "its deltas are the text"],
  ["other-code", "an unknown method is -32601"],
  ["twice", "are each answered once"],
  ["no-error-id", "an unknown method is -32601"],
] as const;

for (const [fault, finder] of gatewayFaults) {
  test(`a fault of the gateway is found: ${fault}`, async () => {
    await using place = await createGatewayPlace();
    const script = scriptCommand(
      join(import.meta.dirname, "broken-gateway.ts"),
      fault,
      ...agentdCommand("rpc"),
    );
    const words = ["--timeout", String(FAULT_MS / 1000), "--gateway", script.join(" "), "--only", finder];
    const { code, problems } = await check(words, { AGENTD_HOME: place.home });
    assert.equal(code, 1);
    assert.notDeepEqual(problems, []);
  });
}

test("a server that does not answer fails every scenario, and each says why", async () => {
  const { code, report, problems } = await check(["--http", "http://127.0.0.1:9"], {});
  assert.equal(code, 1);
  assert.equal(report.passed, 0);
  assert.match(problems[0] ?? "", /ECONNREFUSED|refused|fetch failed/i);
});

test("the kit says what it needs", async () => {
  const { code, stderr } = await agentd(["conformance"]);
  assert.equal(code, 2);
  assert.match(stderr, /--http, --gateway or --webhook/);
});
