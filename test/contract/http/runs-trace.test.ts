/** The steps of a run on a timeline. */
import assert from "node:assert/strict";
import type { Run, RunStep, RunTrace } from "../../../generated/http/client/types.gen.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createGate, fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import type { TestService } from "../../harness/service.ts";

async function traceOf(service: TestService, id: string, query = ""): Promise<RunTrace> {
  const response = await service.request(`/v1/runs/${id}/trace${query}`);
  const trace = (await response.json()) as RunTrace;
  assert.equal(response.status, 200, JSON.stringify(trace));
  return trace;
}

/** Asserts that the steps without gaps are the run, and that the model calls are its usage. */
function assertAddsUp({ steps, ...trace }: RunTrace, run: Run): void {
  assert.deepEqual([trace.started_at, trace.ended_at], [run.created_at, run.ended_at]);
  let covered = trace.started_at;
  const spans = steps.filter(({ kind }) => kind !== "question" && kind !== "subagent");
  for (const { started_at: start, duration_seconds: length, id } of spans) {
    assert.ok(start <= covered + 1e-6, `a gap before ${id}`);
    assert.ok(length !== null, `${id} has no end`);
    covered = Math.max(covered, start + length);
  }
  assert.ok(Math.abs(covered - (trace.ended_at ?? 0)) < 1e-6, "the steps end with the run");
  const sum = (name: "input_tokens" | "output_tokens" | "model_calls" | "cost_usd") =>
    steps.reduce((total, { usage }) => total + (usage?.[name] ?? 0), 0);
  for (const name of ["input_tokens", "output_tokens", "model_calls", "cost_usd"] as const)
    assert.equal(sum(name), run.usage?.[name], name);
}

const shown = (steps: readonly RunStep[]) => steps.map(({ kind, name, status }) => [kind, name, status]);

scenario(
  "getRunTrace",
  200,
  {
    title: "model calls and tool calls add up to the run, and a question belongs to its tool call",
    script: callsOnce("rm -rf build"),
    tools: [testTool(async () => "a long result ".repeat(1_000))],
  },
  async (service) => {
    const { run_id: id } = await startRun(service);
    await runEvent(service, id, "approval.request");
    const waiting = await traceOf(service, id);
    const last = waiting.steps.at(-1);
    assert.deepEqual([waiting.ended_at, last?.kind, last?.duration_seconds], [null, "question", null]);
    await post(service, `/v1/runs/${id}/approval`, { choice: "once" });
    const run = await fetchRun(service, id, 30);
    assert.equal(run.status, "completed");
    const trace = await traceOf(service, id);
    assert.equal(trace.is_truncated, false);
    const steps = trace.steps.filter(({ kind }) => kind !== "queue" && kind !== "other");
    assert.deepEqual(shown(steps), [
      ["model", run.model, "ok"],
      ["tool", "terminal", "ok"],
      ["question", "approval", "ok"],
      ["model", run.model, "ok"],
    ]);
    const [model, tool, question] = steps;
    assert.deepEqual([tool?.parent_id, question?.parent_id], [model?.id, tool?.id]);
    assert.deepEqual([tool?.arguments, tool?.result], [null, null]);
    assertAddsUp(trace, run);
    const full = await traceOf(service, id, "?include=content");
    const called = full.steps.find(({ kind }) => kind === "tool");
    assert.deepEqual(called?.arguments, { command: "rm -rf build" });
    assert.equal(called?.result?.length, 8_192);
    assert.equal(called?.omitted_characters, 14_000 - 8_192);
  },
);

scenario("getRunTrace", 200, { title: "a run of one model call is that call" }, async (service) => {
  const { run_id: id } = await startRun(service, { input: "hi" });
  const run = await fetchRun(service, id, 30);
  const trace = await traceOf(service, id);
  assert.deepEqual(shown(trace.steps.filter(({ kind }) => kind === "model")), [["model", run.model, "ok"]]);
  assertAddsUp(trace, run);
});

const held = createGate();
scenario(
  "getRunTrace",
  200,
  { title: "a run that waits for its turn has a queue that has not ended", script: held.script },
  async (service) => {
    const first = await startRun(service, { session_id: "s" });
    const second = await startRun(service, { session_id: "s" });
    const trace = await traceOf(service, second.run_id);
    assert.deepEqual(shown(trace.steps), [["queue", "queue", "running"]]);
    await post(service, `/v1/runs/${second.run_id}/stop`, {});
    await post(service, `/v1/runs/${first.run_id}/stop`, {});
    const stopped = await fetchRun(service, second.run_id, 30);
    assert.equal(stopped.status, "cancelled");
    const after = await traceOf(service, second.run_id);
    assert.deepEqual(shown(after.steps.slice(0, 1)), [["queue", "queue", "aborted"]]);
    const cancelled = await fetchRun(service, first.run_id, 30);
    const cut = await traceOf(service, first.run_id);
    assert.equal(cut.status, "cancelled");
    assert.deepEqual(shown(cut.steps.filter(({ kind }) => kind === "model")), [
      ["model", cancelled.model, "aborted"],
    ]);
  },
);

scenario("getRunTrace", 404, { title: "a run that does not exist" }, async (service) => {
  await assertError(await service.request("/v1/runs/run_x/trace"), 404, "run_not_found");
});

scenario("getRunTrace", 400, { title: "an unknown part of the trace" }, async (service) => {
  const response = await service.request("/v1/runs/run_x/trace?include=thoughts");
  await assertError(response, 400, "unsupported_parameter");
});
