import assert from "node:assert/strict";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { allEvents, fetchRun, post, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const APPROVAL = "resolveRunApproval";
const OTHER = "another-key-0123456789";
const keys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
const tools = [testTool(async ({ command }) => `ran ${command}`)];
const questions = { script: callsOnce("rm -rf build"), tools };
const asksTwice = { script: callsOnce("rm -rf one", "rm -rf two"), tools };

const answer = (service: TestService, id: string, body: unknown, headers: Record<string, string> = {}) =>
  post(service, `/v1/runs/${id}/approval`, body, headers);

/** A run with so many open questions. */
async function waiting(service: TestService, count = 1) {
  const { run_id: id } = await startRun(service);
  for (;;) {
    const run = await fetchRun(service, id, 30);
    if (run.approvals.length === count) return run;
  }
}

async function responses(service: TestService, id: string) {
  const events = await allEvents(service, id);
  return events.filter((event) => event.event === "approval.responded");
}

scenario(
  APPROVAL,
  200,
  { title: "a run that waits for approval continues once its call is approved", ...questions, keys },
  async (service) => {
    const run = await waiting(service);
    assert.equal(run.approval?.command, "rm -rf build");
    assert.deepEqual(run.approvals, [run.approval]);
    const response = await answer(service, run.id, { choice: "once", reason: "it is old" });
    assert.deepEqual(await response.json(), {
      object: "agent.run.approval_response",
      run_id: run.id,
      choice: "once",
      request_id: run.approval.request_id,
      resolved: 1,
    });
    const done = await fetchRun(service, run.id, 30);
    assert.deepEqual([done.status, done.output], ["completed", "ok: ran rm -rf build"]);
    const [event] = await responses(service, run.id);
    assert.ok(event?.event === "approval.responded");
    assert.deepEqual([event.choice, event.by, event.reason], ["once", "http:a", "it is old"]);
  },
);

for (const [alias, choice] of [
  ["approve", "once"],
  ["approved", "once"],
  ["allow", "once"],
  ["reject", "deny"],
  ["rejected", "deny"],
  ["denied", "deny"],
  ["deny", "deny"],
] as const) {
  scenario(APPROVAL, 200, { title: `${alias} means ${choice}`, ...questions }, async (service) => {
    const run = await waiting(service);
    const response = await answer(service, run.id, { choice: alias });
    assert.equal((await response.json()).choice, choice);
    const { output } = await fetchRun(service, run.id, 30);
    assert.equal(output, choice === "once" ? "ok: ran rm -rf build" : "denied: Denied by the user.");
  });
}

scenario(
  APPROVAL,
  200,
  { title: "answers the oldest question, or the named one", ...asksTwice },
  async (service) => {
    const run = await waiting(service, 2);
    const [first, second] = run.approvals;
    const named = await answer(service, run.id, { choice: "deny", request_id: second?.request_id });
    assert.equal((await named.json()).request_id, second?.request_id);
    assert.equal((await fetchRun(service, run.id)).status, "waiting_for_approval", "one is still open");
    const oldest = await answer(service, run.id, { choice: "once" });
    assert.equal((await oldest.json()).request_id, first?.request_id);
    const { output } = await fetchRun(service, run.id, 30);
    const answersTo = (ask: typeof first, text: string) =>
      ask?.command === "rm -rf one" ? [text, ""] : ["", text];
    const [one, two] = (output ?? "").split("\n");
    const expected = answersTo(first, "ok").map((text) => (text === "" ? "denied" : text));
    assert.deepEqual([one?.split(":")[0], two?.split(":")[0]], expected);
  },
);

for (const name of ["all", "resolve_all"]) {
  scenario(APPROVAL, 200, { title: `${name} answers every open one`, ...asksTwice }, async (service) => {
    const run = await waiting(service, 2);
    const result = await (await answer(service, run.id, { choice: "once", [name]: true })).json();
    assert.deepEqual([result.resolved, result.request_id], [2, null]);
    assert.equal((await fetchRun(service, run.id, 30)).output, "ok: ran rm -rf one\nok: ran rm -rf two");
  });
}

scenario(
  APPROVAL,
  200,
  { title: "of concurrent answers, exactly one wins", ...questions },
  async (service) => {
    for (let round = 0; round < 25; round++) {
      const run = await waiting(service);
      const bodies = ["once", "deny", "once", "deny"].map((choice, index) => ({
        choice,
        ...(index < 2 ? { request_id: run.approval?.request_id } : {}),
      }));
      const all = await Promise.all(bodies.map((body) => answer(service, run.id, body)));
      const won = all.filter(({ status }) => status === 200);
      assert.equal(won.length, 1, all.map(({ status }) => status).join());
      for (const lost of all.filter((response) => response !== won[0])) {
        const { error } = await lost.json();
        assert.equal(lost.status, 409);
        assert.ok(["approval_not_pending", "approval_not_active"].includes(error.code), error.code);
      }
      const { choice } = await won[0]!.json();
      const { output } = await fetchRun(service, run.id, 30);
      assert.equal(output, choice === "once" ? "ok: ran rm -rf build" : "denied: Denied by the user.");
      assert.equal((await responses(service, run.id)).length, 1);
    }
  },
);

scenario(
  APPROVAL,
  200,
  { title: "session also approves the same call later in this session", ...questions },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    const run = await fetchRun(service, id, 30);
    if (!run.approval?.choices.includes("session")) {
      // What cannot be kept is not offered.
      await assertError(await answer(service, id, { choice: "session" }), 400, "invalid_approval_choice");
      await answer(service, id, { choice: "once" });
    } else {
      await answer(service, id, { choice: "session" });
      await fetchRun(service, id, 30);
      const again = await startRun(service, { session_id: "s" });
      assert.equal((await fetchRun(service, again.run_id, 30)).status, "completed");
    }
  },
);

scenario(
  APPROVAL,
  400,
  { title: "an unknown choice, or one that is not offered", ...questions },
  async (service) => {
    const run = await waiting(service);
    const unknown = await assertError(
      await answer(service, run.id, { choice: "maybe" }),
      400,
      "invalid_approval_choice",
    );
    assert.match(unknown.message, /once, session, always, deny, approve/);
    assert.equal(unknown.param, "choice");
    const missing = await assertError(await answer(service, run.id, {}), 400, "missing_required_parameter");
    assert.equal(missing.param, "choice");
    const offered = run.approval?.choices ?? [];
    for (const choice of (["session", "always"] as const).filter((each) => !offered.includes(each))) {
      for (const body of [{ choice }, { choice, all: true }]) {
        const { message } = await assertError(
          await answer(service, run.id, body),
          400,
          "invalid_approval_choice",
        );
        assert.match(message, new RegExp(offered.join(", ")));
      }
    }
    await assertError(await answer(service, run.id, { choice: "toString" }), 400, "invalid_approval_choice");
    await assertError(await answer(service, run.id, { choice: "once", more: 1 }), 400, "invalid_request");
    assert.equal((await fetchRun(service, run.id)).status, "waiting_for_approval");
  },
);

scenario(APPROVAL, 400, { title: "a request that the run does not have", ...questions }, async (service) => {
  const run = await waiting(service);
  const other = await waiting(service);
  const ids = { unknown: "ask_nope", foreign: other.approval?.request_id };
  for (const request_id of Object.values(ids)) {
    const error = await assertError(
      await answer(service, run.id, { choice: "once", request_id }),
      400,
      "invalid_approval_request",
    );
    assert.equal(error.param, "request_id");
  }
  const both = { choice: "once", request_id: run.approval?.request_id, all: true };
  await assertError(await answer(service, run.id, both), 400, "invalid_approval_request");
});

scenario(
  APPROVAL,
  404,
  { title: "an unknown run and another key's look the same", ...questions, keys },
  async (service) => {
    const run = await waiting(service);
    const headers = { authorization: `Bearer ${OTHER}` };
    await assertError(await answer(service, run.id, { choice: "once" }, headers), 404, "run_not_found");
    await assertError(await answer(service, "run_nope", { choice: "once" }), 404, "run_not_found");
    assert.equal((await fetchRun(service, run.id)).status, "waiting_for_approval");
  },
);

scenario(
  APPROVAL,
  409,
  { title: "no question is open, or it is already closed", ...questions },
  async (service) => {
    const run = await waiting(service);
    const named = { choice: "once", request_id: run.approval?.request_id };
    assert.equal((await answer(service, run.id, named)).status, 200);
    await assertError(await answer(service, run.id, named), 409, "approval_not_pending");
    await fetchRun(service, run.id, 30);
    const response = await answer(service, run.id, { choice: "once" });
    assert.equal(response.headers.get("x-should-retry"), "false");
    await assertError(response, 409, "approval_not_active");
  },
);

scenario(
  APPROVAL,
  409,
  {
    title: "an expired question is denied, and the run continues",
    ...questions,
    config: { approvals: { timeout_seconds: 1 } },
  },
  async (service) => {
    const run = await waiting(service);
    assert.ok((run.approval?.expires_at ?? 0) > run.created_at);
    const expired = (await allEvents(service, run.id)).find(({ event }) => event === "approval.expired");
    assert.ok(expired);
    const body = { choice: "once", request_id: run.approval?.request_id };
    await assertError(await answer(service, run.id, body), 409, "approval_not_pending");
    const { status, output } = await fetchRun(service, run.id, 30);
    assert.deepEqual([status, output], ["completed", "denied: Denied: no answer came in time."]);
  },
);
