/** The stages between the rate and the record, without a store or a script of their own. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { evaluate, type VerifiedRequest } from "../../../src/webhook/receive/evaluate.ts";
import { rehearse } from "../../../src/webhook/deliveries/replay.ts";
import { checkRoute } from "../../../src/webhook/routes/route.ts";
import type { EvaluationPorts, ScriptOutcome } from "../../../src/webhook/receive/ports.ts";

type Written = Parameters<typeof checkRoute>[1];

function requestTo(written: Written, body: string, headers: Record<string, string> = {}): VerifiedRequest {
  const defaults = {
    secrets: ["s"],
    isLoopback: true,
    resolve: (secret: string) => secret,
  };
  const checked = checkRoute("hook", written, { ...defaults, origin: "static" });
  assert.ok("route" in checked);
  return {
    route: checked.route,
    headers: new Headers(headers),
    body: new TextEncoder().encode(body),
    requestId: "req_1",
  };
}

function portsWith(set: Partial<EvaluationPorts> = {}): EvaluationPorts {
  return {
    valuesIn: async () => undefined,
    runScript: () => assert.fail("no script runs"),
    loadSkill: async () => undefined,
    warn: () => {},
    findDuplicate: async () => undefined,
    ...set,
  };
}

const stagesOf = ({ stages }: Awaited<ReturnType<typeof evaluate>>): readonly string[] =>
  stages.map(({ stage, result }) => `${stage} ${result}`);

test("a request passes its stages in order, up to the requested one", async () => {
  const request = requestTo({ prompt: "do {a}" }, '{"a":1}');
  const whole = await evaluate(request, portsWith());
  assert.deepEqual(stagesOf(whole), [
    "parse pass",
    "dedupe pass",
    "events pass",
    "filters pass",
    "render pass",
  ]);
  assert.deepEqual(
    [whole.text, whole.bodyText, whole.deliveryId, whole.stop],
    ["do 1", '{"a":1}', "req_1", undefined],
  );
  const part = await evaluate(request, portsWith(), { upTo: "events" });
  assert.deepEqual(stagesOf(part), ["parse pass", "dedupe pass", "events pass"]);
  assert.deepEqual([part.text, part.stop], [undefined, undefined]);
});

test("a duplicate stops before the script, and a rehearsal ignores duplicates", async () => {
  let runs = 0;
  const runScript = async (): Promise<ScriptOutcome> => {
    runs++;
    return { status: "payload", payload: { a: 2 } };
  };
  const request = requestTo({ script: "x.sh", prompt: "do {a}" }, '{"a":1}', { "x-github-delivery": "two" });
  const ports = portsWith({
    runScript,
    findDuplicate: async ({ deliveryId }) => (deliveryId === "two" ? "one" : undefined),
  });
  const known = await evaluate(request, ports);
  assert.deepEqual(known.stop?.body, { status: "duplicate", delivery_id: "one" });
  assert.equal(runs, 0);
  const rehearsed = await rehearse(request, ports);
  assert.deepEqual([rehearsed.text, runs], ["do 2", 1]);
});

test("each outcome of a script continues or stops the request", async () => {
  const evaluated = async (outcome: ScriptOutcome, written: Written = {}) =>
    evaluate(
      requestTo({ script: "x.sh", prompt: "{a} {script_output}", ...written }, '{"a":1}'),
      portsWith({ runScript: async () => outcome }),
    );
  const ignored = { status: "ignored", reason: "script", route: "hook" };
  assert.equal((await evaluated({ status: "payload", payload: { a: "new" } })).text, "new {script_output}");
  assert.equal((await evaluated({ status: "text", text: "said" })).text, "1 said");
  assert.deepEqual((await evaluated({ status: "ignore", reason: "why" })).stop?.body, ignored);
  const failed = { status: "failed", reason: "why" } as const;
  assert.deepEqual((await evaluated(failed)).stop?.body, ignored);
  const retried = await evaluated(failed, { retry_on_script_failure: true });
  assert.equal(retried.stop?.status, 503);
  assert.deepEqual(retried.stages.at(-1), { stage: "script", result: "stop", detail: "why" });
});

test("script text for a payload that is not an object is added beside it", async () => {
  for (const [body, shown] of [
    ["[1]", "1 said"],
    ["7", "{payload.0} said"],
    ["9007199254740993", "{payload.0} said"],
  ] as const) {
    const request = requestTo({ script: "x.sh", prompt: "{payload.0} {script_output}" }, body);
    const ports = portsWith({ runScript: async () => ({ status: "text", text: "said" }) });
    assert.equal((await evaluate(request, ports)).text, shown, body);
  }
});
