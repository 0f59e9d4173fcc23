/** Keys, owners and scopes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Question, Run, Session } from "../../../generated/http/client/types.gen.ts";
import { askQuestion, asking, createSession, getSession, list, patch } from "../../harness/control.ts";
import { responseOf } from "../../harness/responses.ts";
import { post, startRun } from "../../harness/runs.ts";
import { assertError, operationsWith, scenario, type NamedOperation } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const SECOND = "second-key-0123456789";
const ADMIN = "admin-key-01234567890";
const second = { authorization: `Bearer ${SECOND}` };
const admin = { authorization: `Bearer ${ADMIN}` };
const every = ["chat", "runs", "approvals", "sessions", "read"];
const keys = [
  { key: KEY, name: "laptop", owner: "ann", scopes: every },
  { key: SECOND, name: "phone", owner: "ann", scopes: every },
  { key: ADMIN, name: "ops", scopes: ["admin"] },
];

scenario(
  "listSessions",
  200,
  { title: "two keys of one owner see the same sessions", keys },
  async (service) => {
    await createSession(service, "s");
    await createSession(service, "t", second);
    assert.equal((await getSession(service, "s", second)).owner, "ann");
    const seen = await list<Session>(service, "/v1/sessions", second);
    assert.equal(seen.length, 2);
    assert.deepEqual(await list<Session>(service, "/v1/sessions"), seen);
  },
);

test("a rotated key keeps its owner's data", async () => {
  const service = await startTestService({ keys });
  await createSession(service, "s");
  const headers = { authorization: "Bearer rotated-key-0123456789" };
  await using later = await service.restart({
    keys: [{ key: "rotated-key-0123456789", name: "new", owner: "ann", scopes: ["read"] }],
  });
  assert.deepEqual(
    (await list<Session>(later, "/v1/sessions", headers)).map(({ id }) => id),
    ["s"],
  );
});

scenario(
  "createResponse",
  200,
  { title: "two keys of one owner continue each other's responses and name each other's items", keys },
  async (service) => {
    const one = await responseOf(service, { input: "a" });
    const asPhone = { headers: second };
    const two = await responseOf(service, { input: "b", previous_response_id: one.id }, asPhone);
    assert.equal(two.previous_response_id, one.id);
    const input = [
      { type: "item_reference", id: one.output[0]!.id },
      { role: "user", content: "c" },
    ];
    assert.equal((await responseOf(service, { input }, asPhone)).status, "completed");
  },
);

scenario(
  "listSessions",
  403,
  { title: "X-Agent-Owner from a key without admin is 403", keys },
  async (service) => {
    for (const owner of ["ann", "bob", "*"]) {
      for (const path of ["/v1/sessions", "/v1/runs"]) {
        const response = await service.request(path, { headers: { "x-agent-owner": owner } });
        assert.equal((await assertError(response, 403, "insufficient_scope")).param, "X-Agent-Owner");
      }
    }
  },
);

scenario(
  "updateSession",
  400,
  { title: "an admin key with X-Agent-Owner * lists all owners and cannot write", keys },
  async (service) => {
    await createSession(service, "mine");
    await createSession(service, "theirs", admin);
    const all = { ...admin, "x-agent-owner": "*" };
    const found = await list<Session>(service, "/v1/sessions", all);
    assert.deepEqual(new Set(found.map(({ owner }) => owner)), new Set(["ann", "ops"]));
    const write = await patch(service, "/v1/sessions/mine", { title: "t" }, all);
    assert.equal((await assertError(write, 400, "invalid_request")).param, "X-Agent-Owner");
    const ann = { ...admin, "x-agent-owner": "ann" };
    assert.equal((await patch(service, "/v1/sessions/mine", { title: "t" }, ann)).status, 200);
    assert.equal((await getSession(service, "mine")).title, "t");
    assert.deepEqual(
      (await list<Session>(service, "/v1/sessions", ann)).map(({ id }) => id),
      ["mine"],
    );
    assert.deepEqual(
      (await list<Session>(service, "/v1/sessions", admin)).map(({ id }) => id),
      ["theirs"],
    );
  },
);

scenario(
  "answerQuestion",
  200,
  {
    title: "an admin key answers for the owner and is recorded under its own name",
    ...asking("rm -rf a"),
    keys,
  },
  async (service) => {
    const { id } = await askQuestion(service);
    await assertError(
      await post(service, `/v1/questions/${id}/answer`, { choice: "deny" }, admin),
      404,
      "question_not_found",
    );
    const headers = { ...admin, "x-agent-owner": "ann" };
    const answered = (await (
      await post(service, `/v1/questions/${id}/answer`, { choice: "deny" }, headers)
    ).json()) as Question;
    assert.deepEqual([answered.owner, answered.answered_by], ["ann", "http:ops"]);
    const row = await service.service.store.find("runs", { id: answered.run_id });
    assert.deepEqual([row?.owner, row?.key], ["ann", "laptop"]);
  },
);

scenario(
  "getCapabilities",
  200,
  { title: "capabilities name the key, the owner and the scopes", keys },
  async (service) => {
    const { auth } = await (await service.request("/v1/capabilities")).json();
    assert.deepEqual(auth, { type: "bearer", required: true, key: "laptop", owner: "ann", scopes: every });
  },
);

scenario(
  "createRun",
  429,
  {
    title: "the run limit of a key does not count the runs of its owner's other keys",
    keys: keys.map((key) => (key.name === "laptop" ? { ...key, maxConcurrentRuns: 1 } : key)),
    script: async ({ signal }) => {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      return { text: "stopped" };
    },
  },
  async (service) => {
    await startRun(service, {}, second);
    await startRun(service);
    await assertError(await post(service, "/v1/runs", { input: "hi" }), 429, "too_many_concurrent_runs");
    await startRun(service, {}, second);
  },
);

const SCOPES = ["chat", "runs", "approvals", "sessions", "jobs", "webhooks", "messages", "read", "admin"];

test("each operation admits keys with its scope or admin, and refuses keys with any other one scope", async () => {
  const operations = operationsWith(403).filter(({ scope }) => scope !== undefined);
  assert.ok(operations.length > 20);
  for (const { id, scope } of operations)
    assert.ok(SCOPES.includes(scope ?? ""), `${id} has the scope ${scope}`);
  for (const scope of SCOPES) {
    await using service = await startTestService({ keys: [{ key: KEY, name: "one", scopes: [scope] }] });
    for (const operation of operations) {
      const { status, code } = await ask(service.url, operation);
      const isAdmitted = operation.scope === scope || scope === "admin";
      const expected = isAdmitted ? "admitted" : "insufficient_scope";
      const found = status === 403 && code === "insufficient_scope" ? "insufficient_scope" : "admitted";
      assert.equal(found, expected, `${operation.id} with the scope ${scope}: ${status}`);
    }
  }
});

const WITH_KEY = operationsWith(401).filter(({ security }) => security.length > 0);

test("X-Agent-Owner without admin is refused by every operation that requires a key", async () => {
  const scopes = SCOPES.filter((scope) => scope !== "admin");
  await using service = await startTestService({ keys: [{ key: KEY, name: "one", scopes }] });
  for (const operation of WITH_KEY.filter(({ scope }) => scope !== "admin")) {
    const { status, code } = await ask(service.url, operation, { "x-agent-owner": "ann" });
    assert.deepEqual([status, code], [403, "insufficient_scope"], operation.id);
  }
});

test("X-Agent-Owner * is refused by every operation that changes something", async () => {
  await using service = await startTestService({ keys: [{ key: KEY, name: "one", scopes: ["admin"] }] });
  for (const operation of WITH_KEY.filter(({ method }) => method !== "GET")) {
    const { status, code } = await ask(service.url, operation, { "x-agent-owner": "*" });
    assert.deepEqual([status, code], [400, "invalid_request"], operation.id);
  }
});

/** What they show has no owner. So has what the scope admin is for: the configuration, keys, the log, the process. */
const WITHOUT_OWNER = new Set(["getConfig", "getConfigSchema", "getDetailedHealth", "getMetrics"]);

test("the spec declares X-Agent-Owner on every operation about what has an owner", () => {
  const undeclared = WITH_KEY.filter(
    ({ id, headers, scope }) =>
      headers?.coerce["x-agent-owner"] === undefined &&
      scope !== undefined &&
      scope !== "admin" &&
      !WITHOUT_OWNER.has(id),
  );
  assert.deepEqual(
    undeclared.map(({ id }) => id),
    [],
  );
});

scenario(
  "createRun",
  202,
  { title: "an admin key starts and follows a run for another owner, which belongs to that owner", keys },
  async (service) => {
    const forAnn = { ...admin, "x-agent-owner": "ann" };
    const { run_id: id } = await startRun(service, {}, forAnn);
    const read = (headers: Record<string, string>) => service.request(`/v1/runs/${id}?wait=30`, { headers });
    const run = (await (await read({})).json()) as Run;
    assert.deepEqual([run.owner, run.key, run.status], ["ann", "ops", "completed"]);
    await assertError(await read(admin), 404, "run_not_found");
    assert.deepEqual(await (await read(forAnn)).json(), run);
    const body = { messages: [{ role: "user", content: "hi" }] };
    await (await service.chat(body, { headers: { ...forAnn, "x-agent-session-id": "chat" } })).text();
    const response = await responseOf(service, { input: "hi" }, { headers: forAnn });
    await assertError(
      await service.request(`/v1/responses/${response.id}`, { headers: admin }),
      404,
      "response_not_found",
    );
    assert.equal((await service.request(`/v1/responses/${response.id}`)).status, 200);
    assert.equal((await getSession(service, "chat")).owner, "ann");
  },
);

/** Sends a body that no operation takes, so that what is admitted changes nothing. */
async function ask(
  url: string,
  { method, route, body }: NamedOperation,
  headers: Record<string, string> = {},
) {
  const path = route.replaceAll(/\{[^}]+\}/g, "x");
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${KEY}`,
      accept: "application/json",
      ...(body ? { "content-type": "application/json" } : {}),
      ...headers,
    },
    ...(body ? { body: "[]" } : {}),
  });
  const text = await response.text();
  return { status: response.status, code: text.startsWith("{") ? JSON.parse(text).error?.code : undefined };
}

const WRONG_OWNER = { title: "an owner that no key can have is refused" };

async function assertWrongOwner(service: TestService, path: string, method = "GET"): Promise<void> {
  for (const owner of ["a*b", "x".repeat(65)]) {
    const answer = await service.request(path, { method, headers: { "x-agent-owner": owner } });
    const error = await assertError(answer, 400, "invalid_request");
    assert.match(error.message, /X-Agent-Owner must be the name of one owner: 1 to 64 visible characters/);
  }
}

scenario("getCapabilities", 400, WRONG_OWNER, (service) => assertWrongOwner(service, "/v1/capabilities"));
scenario("cancelResponse", 400, WRONG_OWNER, (service) =>
  assertWrongOwner(service, "/v1/responses/resp_none/cancel", "POST"),
);
scenario("deleteResponse", 400, WRONG_OWNER, (service) =>
  assertWrongOwner(service, "/v1/responses/resp_none", "DELETE"),
);
