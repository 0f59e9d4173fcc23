import assert from "node:assert/strict";
import type { Question } from "../../../generated/http/client/types.gen.ts";
import { sweep } from "../../../src/store/retention.ts";
import { askQuestion, asking, list } from "../../harness/control.ts";
import { fetchRun, post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const OTHER = "another-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];

const answer = (service: TestService, id: string, body: unknown, headers: Record<string, string> = {}) =>
  post(service, `/v1/questions/${id}/answer`, body, headers);

scenario(
  "listQuestions",
  200,
  {
    title: "open questions of all runs are one list, oldest deadline visible",
    ...asking("rm -rf a"),
    keys: twoKeys,
  },
  async (service) => {
    const first = await askQuestion(service);
    const second = await askQuestion(service);
    await askQuestion(service, other);
    const questions = await list<Question>(service, "/v1/questions?limit=1");
    assert.deepEqual(
      questions.map(({ id }) => id),
      [second.id, first.id],
    );
    assert.deepEqual(
      [first.kind, first.status, first.owner, first.source, first.approval?.command],
      ["approval", "open", "a", "http", "rm -rf a"],
    );
    assert.ok(first.expires_at !== null && first.expires_at > first.created_at);
    const mine = await list<Question>(
      service,
      `/v1/questions?session_id=${first.session_id}&kind=approval,sudo`,
    );
    assert.deepEqual(
      mine.map(({ id }) => id),
      [first.id],
    );
    assert.deepEqual(await list(service, "/v1/questions?session_id=none"), []);
  },
);

scenario(
  "getQuestion",
  200,
  { title: "wait returns as soon as the question is answered", ...asking("rm -rf a") },
  async (service) => {
    const { id } = await askQuestion(service);
    const waiting = service.request(`/v1/questions/${id}?wait=60`);
    await answer(service, id, { choice: "deny", reason: "not now" });
    const question = (await (await waiting).json()) as Question;
    assert.equal(question.status, "answered");
    assert.deepEqual(question.answer, { choice: "deny", reason: "not now", answers: null });
    assert.deepEqual([question.answered_by, typeof question.answered_at], ["http:default", "number"]);
  },
);

for (const operation of ["getQuestion", "answerQuestion"] as const) {
  const what = {
    title: "an unknown question and another owner's look the same",
    ...asking("rm -rf a"),
    keys: twoKeys,
  };
  const run = async (service: TestService) => {
    const { id } = await askQuestion(service);
    for (const [name, headers] of [
      ["ask_none", {}],
      [id, other],
    ] as const) {
      const read = service.request(`/v1/questions/${name}`, { headers });
      const response =
        operation === "getQuestion" ? await read : await answer(service, name, { choice: "once" }, headers);
      await read;
      await assertError(response, 404, "question_not_found");
    }
  };
  if (operation === "getQuestion") scenario("getQuestion", 404, what, run);
  else scenario("answerQuestion", 404, what, run);
}

scenario("getQuestion", 400, { title: "a wait that is too long" }, async (service) => {
  assert.equal(
    (await assertError(await service.request("/v1/questions/x?wait=61"), 400, "invalid_request")).param,
    "wait",
  );
});

scenario(
  "answerQuestion",
  409,
  { title: "of 20 concurrent answers one wins and 19 get 409 with answered_by", ...asking("rm -rf a") },
  async (service) => {
    const { id, run_id: run } = await askQuestion(service);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => answer(service, id, { choice: index % 2 ? "once" : "deny" })),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    for (const response of answers.filter(({ status }) => status !== 200)) {
      const { details } = (await assertError(response, 409, "question_not_pending")) as never as {
        details: { status: string; answered_by: string; answered_at: number };
      };
      assert.deepEqual([details.status, details.answered_by], ["answered", "http:default"]);
      assert.ok(details.answered_at > 0);
    }
    assert.equal((await fetchRun(service, run, 30)).status, "completed");
  },
);

scenario(
  "answerQuestion",
  409,
  {
    title: "an expired question cannot be answered and is listed as expired",
    ...asking("rm -rf a"),
    config: { approvals: { timeout_seconds: 1 } },
  },
  async (service) => {
    const { id } = await askQuestion(service);
    const closed = await (await service.request(`/v1/questions/${id}?wait=30`)).json();
    assert.equal(closed.status, "expired");
    const error = await assertError(
      await answer(service, id, { choice: "once" }),
      409,
      "question_not_pending",
    );
    assert.equal((error as never as { details: { status: string } }).details.status, "expired");
    assert.deepEqual(await list(service, "/v1/questions"), []);
    const expired = await list<Question>(service, "/v1/questions?status=expired");
    assert.deepEqual(
      expired.map((question) => question.id),
      [id],
    );
  },
);

scenario(
  "answerQuestion",
  403,
  {
    title: "a key without approvals can list and not answer",
    ...asking("rm -rf a"),
    keys: [
      { key: KEY, name: "a", scopes: ["runs", "read"] },
      { key: OTHER, name: "b", scopes: ["approvals"] },
    ],
  },
  async (service) => {
    const { id } = await askQuestion(service);
    assert.equal((await list(service, "/v1/questions")).length, 1);
    await assertError(await answer(service, id, { choice: "once" }), 403, "insufficient_scope");
  },
);

scenario(
  "answerQuestion",
  400,
  { title: "an answer that does not fit the question names the field", ...asking("rm -rf a") },
  async (service) => {
    const { id } = await askQuestion(service);
    for (const [body, param] of [
      [{ password: "x" }, "password"],
      [{ answers: {} }, "answers"],
      [{}, "choice"],
      [{ choice: "once", decline: true }, "decline"],
      [{ decline: false }, "decline"],
    ] as const) {
      assert.equal((await assertError(await answer(service, id, body), 400, "invalid_answer")).param, param);
    }
    assert.equal((await list(service, "/v1/questions")).length, 1, "it is still open");
    assert.equal((await answer(service, id, { decline: true, reason: "no" })).status, 200);
  },
);

scenario(
  "listQuestions",
  200,
  { title: "who answered is known after the run is swept", ...asking("rm -rf a") },
  async (service) => {
    const { id, run_id: run } = await askQuestion(service);
    await answer(service, id, { choice: "once", reason: "it is a copy" });
    const { status } = await fetchRun(service, run, 30);
    assert.equal(status, "completed");
    const path = `/v1/questions?status=answered&run_id=${run}`;
    const [before] = await list<Question>(service, path);
    // The session was made for this run alone.
    const kept = { ...before, source: null };
    const { store } = service.service;
    const long = { runsMs: -60_000, questionsMs: 720 * 3_600_000 };
    assert.equal((await sweep(store, { retention: long })).runs, 1);
    await assertError(await service.request(`/v1/runs/${run}`), 404, "run_not_found");
    assert.deepEqual(await list<Question>(service, path), [kept]);
    assert.deepEqual(await (await service.request(`/v1/questions/${id}?wait=5`)).json(), kept);
    assert.deepEqual(
      [before?.answered_by, before?.answer],
      ["http:default", { choice: "once", reason: "it is a copy", answers: null }],
    );
    const error = await assertError(
      await answer(service, id, { choice: "deny" }),
      409,
      "question_not_pending",
    );
    assert.equal(
      (error as never as { details: { answered_by: string } }).details.answered_by,
      "http:default",
    );
    assert.equal((await sweep(store, { retention: { questionsMs: -60_000 } })).questions, 1);
    assert.deepEqual(await list(service, path), []);
  },
);
