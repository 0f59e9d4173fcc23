/** What every operation of the control API does the same way. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FeedEvent, Question, Session } from "../../../generated/http/client/types.gen.ts";
import {
  askQuestion,
  asking,
  createJob,
  createSession,
  getSession,
  list,
  patch,
  storedEvents,
} from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, operationsWith, scenario } from "../../harness/scenario.ts";
import { startTestService, type TestService } from "../../harness/service.ts";

const names = (count: number) => Array.from({ length: count }, (_, index) => `s${index}`);

async function createSessions(service: TestService, count: number): Promise<void> {
  for (const name of names(count)) await createSession(service, name);
}

scenario(
  "listSessions",
  200,
  { title: "a page ends with has_more false and its last_id lists nothing further" },
  async (service) => {
    await createSessions(service, 3);
    const first = await (await service.request("/v1/sessions?limit=2")).json();
    assert.deepEqual([first.data.length, first.has_more], [2, true]);
    const second = await (await service.request(`/v1/sessions?limit=2&after=${first.last_id}`)).json();
    assert.deepEqual([second.data.length, second.has_more], [1, false]);
    const third = await (await service.request(`/v1/sessions?limit=2&after=${second.last_id}`)).json();
    assert.deepEqual(third, { object: "list", data: [], first_id: null, last_id: null, has_more: false });
  },
);

scenario(
  "listSessions",
  200,
  { title: "rows inserted while paging are neither repeated nor skipped" },
  async (service) => {
    await createSessions(service, 5);
    const seen: string[] = [];
    let after = "";
    for (let round = 0; ; round++) {
      const page = await (await service.request(`/v1/sessions?limit=2${after}`)).json();
      seen.push(...page.data.map(({ id }: Session) => id));
      if (!page.has_more) break;
      await createSession(service, `late${round}`);
      after = `&after=${page.last_id}`;
    }
    assert.deepEqual(seen, names(5).reverse());
  },
);

const lists = operationsWith(200).filter(
  ({ method, strict, query }) => method === "GET" && strict && query?.coerce["limit"] !== undefined,
);
/** The path of a list, of what exists. */
const pathOf = (route: string, job: string) => route.replace("{session_id}", "s").replace("{job_id}", job);

test("a cursor of another list is 400 invalid_cursor, on every list", async () => {
  await using service = await startTestService();
  await createSession(service, "s");
  const { id: job } = await createJob(service);
  for (const { id, route } of lists) {
    for (const cursor of ["nobody's", "run_1x", "zzz_01m8cv6wrna9y0bh2swmx7hdj7"]) {
      const path = `${pathOf(route, job)}?after=${encodeURIComponent(cursor)}`;
      const response = await service.request(path, { headers: { accept: "application/json" } });
      assert.equal(response.status, 400, `${id} ${cursor}: ${await response.clone().text()}`);
      assert.equal((await assertError(response, 400, "invalid_cursor")).param, "after", id);
    }
  }
});

scenario(
  "listSessions",
  400,
  { title: "limit 0 and 101 are 400 with param limit, on every list" },
  async (service) => {
    await createSession(service, "s");
    const { id: job } = await createJob(service);
    assert.ok(lists.length >= 20);
    for (const { id, route } of lists) {
      for (const limit of [0, id === "listLogs" ? 1_001 : 101, "many"]) {
        const path = `${pathOf(route, job)}?limit=${limit}`;
        const response = await service.request(path, { headers: { accept: "application/json" } });
        assert.equal(response.status, 400, `${id} ${limit}`);
        assert.equal((await assertError(response, 400, "invalid_request")).param, "limit", id);
      }
    }
  },
);

test("an unknown query parameter is 400 unsupported_parameter on every strict operation", async () => {
  await using service = await startTestService();
  const strict = operationsWith(400).filter((each) => each.strict === true);
  assert.ok(strict.length >= 8);
  for (const { id, method, route, body } of strict) {
    const path = route.replaceAll(/\{(sequence|index)\}/g, "1").replaceAll(/\{[^}]+\}/g, "x");
    const response = await service.request(`${path}?stauts=open`, {
      method,
      ...(body ? { body: "{}", headers: { "content-type": "application/json" } } : {}),
    });
    assert.equal((await assertError(response, 400, "unsupported_parameter")).param, "stauts", id);
  }
});

scenario(
  "listQuestions",
  400,
  { title: "an unknown value of a filter is 400 unsupported_parameter" },
  async (service) => {
    for (const query of ["status=open,done", "kind=approvals", "status="]) {
      const error = await assertError(
        await service.request(`/v1/questions?${query}`),
        400,
        "unsupported_parameter",
      );
      assert.equal(error.param, query.split("=")[0]);
    }
  },
);

scenario(
  "listQuestions",
  200,
  {
    title: "a comma list matches any of its values, and so does a repeated parameter",
    ...asking("rm -rf a"),
  },
  async (service) => {
    const { id: answered } = await askQuestion(service);
    await post(service, `/v1/questions/${answered}/answer`, { choice: "deny" });
    const { id: open } = await askQuestion(service);
    const found = async (query: string) =>
      (await list<Question>(service, `/v1/questions?${query}`)).map(({ id }) => id);
    assert.deepEqual(await found("status=open,expired"), [open]);
    assert.deepEqual(await found("status=expired,answered"), [answered]);
    for (const both of ["status=open,answered", "status=open&status=answered"])
      assert.deepEqual(await found(both), [open, answered], both);
  },
);

scenario("listSessions", 200, { title: "from is inclusive and to exclusive" }, async (service) => {
  await createSessions(service, 1);
  const { updated_at: at } = await getSession(service, "s0");
  const ids = async (query: string) => (await list<Session>(service, `/v1/sessions?${query}`)).length;
  assert.equal(await ids(`from=${at}`), 1);
  assert.equal(await ids(`to=${at}`), 0);
  assert.equal(await ids(`to=${at + 0.001}`), 1);
  assert.equal(await ids(`from=${at + 0.001}`), 0);
  assert.equal(await ids(`from=${encodeURIComponent(new Date(at * 1000).toISOString())}`), 1);
  for (const wrong of ["yesterday", "-1", "2026-02-30x", "1e400"]) {
    const error = await assertError(
      await service.request(`/v1/sessions?from=${wrong}`),
      400,
      "invalid_request",
    );
    assert.equal(error.param, "from");
  }
});

scenario(
  "updateSession",
  412,
  { title: "a PATCH with a stale If-Match is 412 and names the current etag" },
  async (service) => {
    await createSession(service, "s");
    const etag = (await service.request("/v1/sessions/s")).headers.get("etag") ?? "";
    const first = await patch(service, "/v1/sessions/s", { title: "one" }, { "if-match": etag });
    assert.equal(first.status, 200);
    const current = first.headers.get("etag");
    const stale = await patch(service, "/v1/sessions/s", { title: "two" }, { "if-match": etag });
    const error = await assertError(stale, 412, "precondition_failed");
    assert.deepEqual((error as { details?: object }).details, { etag: current });
    assert.equal((await getSession(service, "s")).title, "one");
    for (const tags of ["*", `"other", ${current}`]) {
      assert.equal(
        (await patch(service, "/v1/sessions/s", { title: "one" }, { "if-match": tags })).status,
        200,
      );
    }
    const weak = await patch(service, "/v1/sessions/s", { title: "x" }, { "if-match": `W/${current}` });
    await assertError(weak, 412, "precondition_failed");
  },
);

scenario(
  "updateSession",
  200,
  { title: "of two PATCHes with the same etag exactly one succeeds" },
  async (service) => {
    await createSession(service, "s");
    const etag = (await service.request("/v1/sessions/s")).headers.get("etag") ?? "";
    const titles = ["one", "two", "three", "four"];
    const answers = await Promise.all(
      titles.map((title) => patch(service, "/v1/sessions/s", { title }, { "if-match": etag })),
    );
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 412, 412, 412]);
  },
);

scenario(
  "getSession",
  304,
  { title: "a GET with the current etag is 304 without a body" },
  async (service) => {
    await createSession(service, "s");
    const etag = (await service.request("/v1/sessions/s")).headers.get("etag") ?? "";
    for (const tags of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
      const response = await service.request("/v1/sessions/s", { headers: { "if-none-match": tags } });
      assert.deepEqual(
        [response.status, await response.text(), response.headers.get("etag")],
        [304, "", etag],
      );
    }
    await createSession(service, "s");
    const after = await service.request("/v1/sessions/s", { headers: { "if-none-match": etag } });
    assert.equal(after.status, 304, "a run does not change the version");
    await after.text();
    await patch(service, "/v1/sessions/s", { title: "new" });
    assert.equal(
      (await service.request("/v1/sessions/s", { headers: { "if-none-match": etag } })).status,
      200,
    );
  },
);

scenario("updateSession", 200, { title: "null in a merge patch restores the default" }, async (service) => {
  await createSession(service, "s");
  const before = await getSession(service, "s");
  const set = { title: "t", model: "demo:demo", reasoning_effort: "low", cwd: service.workspace };
  const changed = await (await patch(service, "/v1/sessions/s", set)).json();
  assert.deepEqual({ ...changed, ...set }, changed);
  const { title } = await (await patch(service, "/v1/sessions/s", {})).json();
  assert.equal(title, "t", "an absent field stays");
  const nothing = { title: null, model: null, reasoning_effort: null, cwd: null };
  const cleared = await (await patch(service, "/v1/sessions/s", nothing)).json();
  assert.deepEqual({ ...cleared, ...nothing }, cleared);
  assert.deepEqual(Object.keys(cleared), Object.keys(before), "null is not omitted");
});

scenario("updateSession", 400, { title: "an unknown body field is 400 with its path" }, async (service) => {
  await createSession(service, "s");
  const response = await patch(service, "/v1/sessions/s", { titel: "t" });
  assert.equal((await assertError(response, 400, "invalid_request")).param, "titel");
  const nested = { name: "a", coalesce: { key: "{ref}", window_seconds: 5, max: 1 } };
  const refused = await post(service, "/v1/webhooks/routes", nested);
  assert.equal((await assertError(refused, 400, "invalid_request")).param, "coalesce.max");
});

/** The key would keep an archive, or what signs a browser in. */
const WITHOUT_KEY: ReadonlySet<string> = new Set(["createBackup", "createConsoleCode"]);

test("every POST of the control API takes an Idempotency-Key, but for those whose answer is not kept", () => {
  const posts = operationsWith(400).filter(({ method, strict }) => method === "POST" && strict === true);
  assert.ok(posts.length >= 25);
  const without = posts.filter(({ headers }) => headers?.coerce["idempotency-key"] === undefined);
  assert.deepEqual(new Set(without.map(({ id }) => id)), WITHOUT_KEY);
});

scenario(
  "answerQuestion",
  200,
  {
    title: "a repeated POST with the same Idempotency-Key acts once and returns Idempotency-Replayed",
    ...asking("rm -rf a"),
  },
  async (service) => {
    const { id } = await askQuestion(service);
    const key = { "idempotency-key": "k1" };
    const answer = () => post(service, `/v1/questions/${id}/answer`, { choice: "once" }, key);
    const answers = await Promise.all([answer(), answer(), answer()]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200],
    );
    const replayed = answers.filter(({ headers }) => headers.get("idempotency-replayed") === "true");
    assert.equal(replayed.length, 2);
    const bodies = await Promise.all(answers.map((each) => each.json()));
    assert.deepEqual(bodies.slice(1), [bodies[0], bodies[0]]);
    const changes = await storedEvents<FeedEvent>(service, "?types=question.updated");
    assert.equal(changes.length, 1, "it was answered once");
  },
);

scenario(
  "answerQuestion",
  409,
  { title: "the same key with another body is 409", ...asking("rm -rf a") },
  async (service) => {
    const { id } = await askQuestion(service);
    const key = { "idempotency-key": "k1" };
    assert.equal((await post(service, `/v1/questions/${id}/answer`, { choice: "once" }, key)).status, 200);
    const other = await post(service, `/v1/questions/${id}/answer`, { choice: "deny" }, key);
    await assertError(other, 409, "idempotency_key_conflict");
  },
);

scenario(
  "updateSession",
  200,
  { title: "a dry run leaves the database and the journal unchanged and reports what it would do" },
  async (service) => {
    await createSession(service, "s");
    const before = await service.request("/v1/sessions/s");
    const events = await service.service.store.journal.read({ sessionId: "s" }, { limit: 100 });
    const body = { title: "planned", model: "demo:demo", cwd: service.workspace };
    const dry = await patch(service, "/v1/sessions/s?dry_run=true", body);
    assert.equal(dry.headers.get("x-agent-dry-run"), "true");
    assert.notEqual(dry.headers.get("etag"), before.headers.get("etag"));
    const planned = await dry.json();
    assert.deepEqual([planned.title, planned.model], ["planned", "demo:demo"]);
    const after = await service.request("/v1/sessions/s");
    assert.deepEqual(await after.json(), await before.json());
    assert.deepEqual(await service.service.store.journal.read({ sessionId: "s" }, { limit: 100 }), events);
    await assertError(
      await patch(service, "/v1/sessions/s?dry_run=true", { model: "none:none" }),
      400,
      "model_not_found",
    );
  },
);
