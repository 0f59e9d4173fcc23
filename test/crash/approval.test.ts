/** Runs that wait for leave, over HTTP, with real processes that are killed. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createAgentClient, streamRunEvents, type Run, type RunEvent } from "../../src/client/http.ts";
import { createGatewayPlace, type GatewayPlace } from "../harness/gateway.ts";

const COMMAND = "rm -rf old; echo once >> marks.txt";

async function startRun(url: string, apiKey: string, input = `run: ${COMMAND}`): Promise<string> {
  const { data } = await createAgentClient({ baseUrl: url, apiKey }).createRun({ body: { input } });
  return data!.run_id;
}

/** The run once it is over or waits for an answer. */
async function settled(url: string, apiKey: string, run_id: string): Promise<Run> {
  const client = createAgentClient({ baseUrl: url, apiKey });
  const { data } = await client.getRun({ path: { run_id }, query: { wait: 20 } });
  return data!;
}

const marks = (place: GatewayPlace) =>
  readFile(join(place.home, "workspace", "marks.txt"), "utf8").catch(() => "");

for (const signal of ["SIGKILL", "SIGTERM"] as const) {
  test(`an approval is answered after a restart (${signal}): the tool runs once, and the run completes`, async () => {
    await using place = await createGatewayPlace();
    const first = await place.start();
    const apiKey = await place.key();
    const runId = await startRun(first.url, apiKey);
    const asked = await settled(first.url, apiKey, runId);
    assert.equal(asked.status, "waiting_for_approval");
    await first.kill(signal);

    const second = await place.start();
    const waiting = await settled(second.url, apiKey, runId);
    assert.equal(waiting.status, "waiting_for_approval");
    assert.equal(waiting.approval?.request_id, asked.approval?.request_id);
    assert.equal(await marks(place), "");
    const client = createAgentClient({ baseUrl: second.url, apiKey });
    const { response } = await client.resolveRunApproval({
      path: { run_id: runId },
      body: { choice: "once" },
    });
    assert.equal(response?.status, 200);
    const events: RunEvent[] = [];
    for await (const event of streamRunEvents({ baseUrl: second.url, apiKey }, runId)) events.push(event);
    assert.equal(events.at(-1)?.event, "run.completed");
    assert.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, index) => index + 1),
    );
    assert.equal(events.filter(({ event }) => event === "tool.completed").length, 1);
    assert.equal(await marks(place), "once\n");
    await second.kill("SIGTERM");
  });
}

test("a run is stopped and an approval answered by way of another process than the one that runs it", async () => {
  await using place = await createGatewayPlace();
  const first = await place.start();
  const apiKey = await place.key();
  const second = await place.start();
  const asking = await startRun(first.url, apiKey);
  assert.equal((await settled(second.url, apiKey, asking)).status, "waiting_for_approval");
  const there = createAgentClient({ baseUrl: second.url, apiKey });
  await there.resolveRunApproval({ path: { run_id: asking }, body: { choice: "deny", reason: "not now" } });
  const denied = await settled(first.url, apiKey, asking);
  assert.equal(denied.status, "completed");
  assert.match(denied.output ?? "", /not now/);

  const sleeping = await startRun(first.url, apiKey, "run: sleep 60");
  const { data } = await there.stopRun({ path: { run_id: sleeping } });
  assert.ok(data?.status === "stopping" || data?.status === "cancelled", data?.status);
  assert.equal((await settled(second.url, apiKey, sleeping)).status, "cancelled");
  await Promise.all([first.kill("SIGTERM"), second.kill("SIGTERM")]);
});
