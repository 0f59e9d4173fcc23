/** The paths that clients of other agents use. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { aliases, operations } from "../../../generated/http/server.gen.ts";
import { createSession } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const READER = "reading-key-0123456789";
const keys = [
  { key: KEY, name: "laptop", scopes: ["admin"] },
  { key: READER, name: "reader", owner: "laptop", scopes: ["read"] },
];

/** A client that knows nothing but the paths and formats of the other agent. */
function clientOf(service: TestService, key = KEY) {
  const call = async (method: string, path: string, body?: object) => {
    const response = await service.request(path, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: response.status, ...(await response.json()) };
  };
  return {
    get: (path: string) => call("GET", path),
    post: (path: string, body: object = {}) => call("POST", path, body),
    patch: (path: string, body: object) => call("PATCH", path, body),
    delete: (path: string) => call("DELETE", path),
  };
}

test("a client written for the origin's /api/jobs works against the alias", async () => {
  await using service = await startTestService({ keys });
  const client = clientOf(service);
  const wanted = { name: "tea", schedule: "every 1h", prompt: "make tea", repeat: { times: 3 }, unknown: 1 };
  const created = await client.post("/api/jobs", { ...wanted, skills: [], enabled: true });
  assert.equal(created.status, 201, JSON.stringify(created));
  const { id, enabled, repeat, next_run_at: next, schedule_display: display } = created.job;
  assert.match(id, /^[0-9a-f]{12}$/);
  assert.deepEqual([enabled, repeat, display], [true, { times: 3, completed: 0 }, "every 1h"]);
  assert.equal(new Date(next).toISOString(), next);
  assert.deepEqual((await client.get(`/api/jobs/${id}`)).job.name, "tea");
  const changed = await client.patch(`/api/jobs/${id}`, { name: "green tea", schedule: "0 9 * * *" });
  assert.deepEqual(
    [changed.job.name, changed.job.schedule],
    ["green tea", { kind: "cron", display: "0 9 * * *", expr: "0 9 * * *" }],
  );
  const paused = await client.post(`/api/jobs/${id}/pause`, { reason: "holiday" });
  assert.deepEqual([paused.status, paused.job.enabled, paused.job.paused_reason], [200, false, "holiday"]);
  assert.deepEqual((await client.get("/api/jobs")).jobs, []);
  assert.equal((await client.get("/api/jobs?include_disabled=true")).jobs[0].id, id);
  assert.equal((await client.post(`/api/jobs/${id}/resume`)).job.enabled, true);
  const ran = await client.post(`/api/jobs/${id}/run`);
  assert.deepEqual([ran.status, ran.job.id], [202, id]);
  const deleted = await client.delete(`/api/jobs/${id}`);
  assert.deepEqual([deleted.status, deleted.ok, deleted.id], [200, true, id]);
  const gone = await client.get(`/api/jobs/${id}`);
  assert.deepEqual([gone.status, gone.code, typeof gone.error], [404, "job_not_found", "string"]);
});

test("a client written for the origin's /api/sessions works against the alias", async () => {
  await using service = await startTestService({ keys });
  const client = clientOf(service);
  const created = await client.post("/api/sessions", { id: "notes", title: "Notes", source: "app" });
  assert.deepEqual([created.status, created.object, created.session.title], [201, "session", "Notes"]);
  for (const id of ["one", "two"]) await createSession(service, id);
  const first = await client.get("/api/sessions?limit=2");
  assert.deepEqual(
    [first.object, first.data.length, first.limit, first.offset, first.has_more],
    ["list", 2, 2, 0, true],
  );
  const rest = await client.get("/api/sessions?limit=2&offset=2");
  assert.deepEqual([rest.data.length, rest.has_more], [1, false]);
  const all = [...first.data, ...rest.data].map(({ id }) => id);
  assert.deepEqual(all.toSorted(), ["notes", "one", "two"]);
  assert.equal((await client.patch("/api/sessions/one", { title: "First" })).session.title, "First");
  const messages = await client.get("/api/sessions/one/messages");
  assert.deepEqual([messages.object, messages.session_id], ["list", "one"]);
  assert.deepEqual(
    messages.data.map(({ role, content }: { role: string; content: string }) => [role, content]),
    [
      ["user", "hi from one"],
      ["assistant", "hello"],
    ],
  );
  const forked = await client.post("/api/sessions/one/fork", { title: "Second" });
  assert.deepEqual([forked.status, forked.session.parent_id, forked.session.title], [201, "one", "Second"]);
  const deleted = await client.delete("/api/sessions/two");
  assert.deepEqual([deleted.status, deleted.deleted], [200, true]);
  assert.equal((await client.get("/api/sessions/two")).code, "session_not_found");
});

test("an alias admits whom its operation admits, and refuses in its own format", async () => {
  await using service = await startTestService({ keys });
  const reader = clientOf(service, READER);
  assert.equal((await reader.get("/api/jobs")).status, 200);
  const refused = await reader.post("/api/jobs", { schedule: "daily", prompt: "hi" });
  assert.deepEqual([refused.status, refused.code], [403, "insufficient_scope"]);
  assert.equal((await clientOf(service, "wrong-key-0123456789").get("/api/sessions")).status, 401);
  const broken = await post(service, "/api/jobs", "{");
  assert.deepEqual([broken.status, (await broken.json()).code], [400, "invalid_json"]);
  const method = await service.request("/api/jobs", { method: "PUT" });
  assert.deepEqual([method.status, method.headers.get("allow")], [405, "GET, POST"]);
});

test("an alias counts as one request of its key", async () => {
  const limited = [{ key: KEY, name: "a", scopes: ["admin"], rateLimitRpm: 2 }];
  await using service = await startTestService({ keys: limited });
  const client = clientOf(service);
  const statuses = [];
  for (let times = 0; times < 3; times++) statuses.push((await client.get("/api/jobs")).status);
  assert.deepEqual(statuses, [200, 200, 429]);
});

test("the capabilities list each alias, and the document marks them", async () => {
  await using service = await startTestService();
  const { endpoints } = await (await service.request("/v1/capabilities")).json();
  assert.equal(aliases.length, 15);
  for (const { name, method, route, operation } of aliases) {
    assert.deepEqual(endpoints[name], { method, path: route });
    assert.ok(operations[operation], operation);
  }
  const document = await (await service.request("/openapi.json")).json();
  assert.equal(document["x-aliases"].length, 15);
  assert.ok(!Object.keys(document.paths).some((path) => path.startsWith("/api/jobs")));
});
