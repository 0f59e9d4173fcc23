/** What an administrator reads of all owners with `X-Agent-Owner: *`: one run, one session, and the lists of one session. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  Question,
  Run,
  RunEvent,
  RunTrace,
  Session,
  SessionMessage,
} from "../../../generated/http/client/types.gen.ts";
import spec from "../../../generated/specs/http.openapi.json" with { type: "json" };
import { asking, createSession, getSession, list } from "../../harness/control.ts";
import { createGate, fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError, operationsWith, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";

const BOB = "bobs-key-01234567890";
const ADMIN = "admin-key-01234567890";
const bob = { authorization: `Bearer ${BOB}` };
const admin = { authorization: `Bearer ${ADMIN}` };
const all = { ...admin, "x-agent-owner": "*" };
const scopes = ["chat", "runs", "approvals", "sessions", "read"];
const keys = [
  { key: KEY, name: "ann", scopes },
  { key: BOB, name: "bob", scopes },
  { key: ADMIN, name: "default", scopes: ["admin"] },
];

type Headers = Readonly<Record<string, string>>;

async function read<T>(service: TestService, path: string, headers: Headers): Promise<T> {
  const response = await service.request(path, { headers });
  const body = (await response.json()) as T;
  assert.equal(response.status, 200, JSON.stringify(body));
  return body;
}

async function eventsOf(service: TestService, id: string, headers: Headers): Promise<RunEvent[]> {
  const response = await service.request(`/v1/runs/${id}/events`, { headers });
  assert.equal(response.status, 200);
  const events: RunEvent[] = [];
  for await (const { data } of readFrames(response)) if (data !== undefined) events.push(JSON.parse(data));
  return events;
}

const gate = createGate();
scenario(
  "getRun",
  200,
  {
    title: "an admin key with X-Agent-Owner * reads, follows and traces the run of another owner",
    script: gate.script,
    keys,
  },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    await runEvent(service, id, "message.delta");
    const [row] = await list<Run>(service, "/v1/runs", all);
    assert.deepEqual([row?.id, row?.status], [id, "running"]);
    assert.deepEqual((await read<Run>(service, `/v1/runs/${id}`, all)).owner, "ann");
    const [followed, waited] = [
      eventsOf(service, id, all),
      read<Run>(service, `/v1/runs/${id}?wait=60`, all),
    ];
    gate.open();
    const events = await followed;
    assert.equal(events.at(-1)?.event, "run.completed");
    assert.deepEqual(events, await eventsOf(service, id, {}));
    const run = await waited;
    assert.equal(run.status, "completed");
    assert.deepEqual(run, await fetchRun(service, id));
    const trace = await read<RunTrace>(service, `/v1/runs/${id}/trace`, all);
    assert.ok(trace.steps.length > 0);
    assert.deepEqual(trace, await read<RunTrace>(service, `/v1/runs/${id}/trace`, {}));
    await service.service.store.write(async (tx) => {
      await tx.db.deleteFrom("events").where("run_id", "=", id).where("run_seq", "<=", 2).execute();
    });
    const [snapshot] = await eventsOf(service, id, all);
    assert.ok(snapshot?.event === "run.snapshot");
    assert.deepEqual(snapshot.run, run);
  },
);

scenario(
  "getRun",
  404,
  { title: "without X-Agent-Owner *, or without admin, the run of another owner stays hidden", keys },
  async (service) => {
    const { run_id: id } = await startRun(service);
    const paths = ["", "/events", "/trace"];
    for (const path of paths) {
      const get = (headers: Headers, run = id) => service.request(`/v1/runs/${run}${path}`, { headers });
      for (const headers of [bob, admin, { ...admin, "x-agent-owner": "bob" }])
        await assertError(await get(headers), 404, "run_not_found");
      for (const run of [id, "run_none"]) {
        const refused = await get({ ...bob, "x-agent-owner": "*" }, run);
        assert.equal((await assertError(refused, 403, "insufficient_scope")).param, "X-Agent-Owner");
      }
      await assertError(await get(all, "run_none"), 404, "run_not_found");
    }
    for (const action of ["stop", "steer", "approval"])
      await assertError(await post(service, `/v1/runs/${id}/${action}`, {}, all), 400, "invalid_request");
  },
);

test("X-Agent-Owner * is taken by the GET operations that declare it, and refused where one owner is meant", async () => {
  await using service = await startTestService({ keys });
  const routes = spec.paths as Readonly<Record<string, Readonly<Record<string, { parameters?: unknown }>>>>;
  const reading = operationsWith(401).filter(({ method }) => method === "GET");
  const taken = new Map<string, boolean>();
  const declared = new Map<string, boolean>();
  for (const { id, route } of reading) {
    const item = routes[route] ?? {};
    const parameters = JSON.stringify([item["parameters"], item["get"]?.parameters]);
    if (!/parameters\/(?:One)?Owner"/.test(parameters)) continue;
    declared.set(id, parameters.includes('parameters/Owner"'));
    const path = route.replaceAll(/\{[^}]+\}/g, "none");
    const response = await service.request(path, { headers: { ...all, accept: "application/json" } });
    const body = await response.json();
    taken.set(id, !(response.status === 400 && body.error.param === "X-Agent-Owner"));
  }
  assert.ok(
    declared.get("getRun") && declared.get("streamRunEvents") && declared.get("getResponse") === false,
  );
  assert.deepEqual(taken, declared);
});

scenario(
  "getSession",
  200,
  { title: "X-Agent-Owner * reads each session by the id that the list of all owners shows", keys },
  async (service) => {
    await createSession(service, "anns");
    await createSession(service, "bobs", bob);
    await createSession(service, "mine", admin);
    await (await service.chat({ messages: [{ role: "user", content: "hi" }] }, { headers: bob })).text();
    // Ids that begin with another one are other ids.
    for (const id of ["anns.", "anns-2", "anns!"]) await createSession(service, id, bob);
    const sessions = await list<Session>(service, "/v1/sessions?stateless=true", all);
    assert.equal(sessions.length, 7);
    for (const { id, owner } of sessions) {
      const found = await getSession(service, id, all);
      assert.deepEqual([found.id, found.owner], [id, owner]);
      assert.deepEqual(found, await getSession(service, id, { ...admin, "x-agent-owner": owner }));
    }
    const messages = await list<SessionMessage>(service, "/v1/sessions/bobs/messages", all);
    assert.equal(messages.at(-1)?.text, "hi from bobs");
  },
);

scenario(
  "getSession",
  404,
  { title: "an id that sessions of several owners have needs the owner's name instead of *", keys },
  async (service) => {
    const owners = ["ann", "bob", "default"];
    for (const headers of [{}, bob, admin]) {
      await createSession(service, "s", headers);
      if (headers !== bob) continue;
      // Neither of the two is the main owner's.
      const refused = await service.request("/v1/sessions/s", { headers: all });
      assert.equal((await assertError(refused, 404, "session_not_found")).param, "X-Agent-Owner");
    }
    for (const path of ["", "/messages", "/events"]) {
      const refused = await service.request(`/v1/sessions/s${path}`, { headers: all });
      const { message } = await assertError(refused, 404, "session_not_found");
      assert.match(message, /several owners.*X-Agent-Owner with the name of one owner/);
    }
    for (const owner of owners) {
      const found = await getSession(service, "s", { ...admin, "x-agent-owner": owner });
      assert.equal(found.owner, owner);
    }
    const unknown = await service.request("/v1/sessions/none", { headers: all });
    assert.match((await assertError(unknown, 404, "session_not_found")).message, /"none" does not exist/);
  },
);

for (const [operation, path] of [
  ["listRuns", "/v1/runs"],
  ["listQuestions", "/v1/questions"],
] as const) {
  scenario(
    operation,
    400,
    {
      title: "with X-Agent-Owner *, session_id must leave no doubt which session is meant",
      ...asking("rm -rf a"),
      keys,
    },
    async (service) => {
      const inSession = async (id: string | undefined, headers: Headers) => {
        const { run_id: run } = await startRun(service, id === undefined ? {} : { session_id: id }, headers);
        await read<Run>(service, `/v1/runs/${run}?wait=30`, headers);
        return run;
      };
      const anns = await inSession("anns", {});
      const generated = await inSession(undefined, bob);
      const both = [await inSession("both", {}), await inSession("both", bob)];
      const { session_id: id } = await read<Run>(service, `/v1/runs/${generated}`, bob);
      const runsOf = async (session: string, headers: Headers) => {
        const rows = await list<Run | Question>(service, `${path}?session_id=${session}`, headers);
        return rows.map((row) => (row.object === "agent.question" ? row.run_id : row.id));
      };
      assert.deepEqual(await runsOf("anns", all), [anns]);
      assert.deepEqual(await runsOf(id, all), [generated]);
      for (const session of ["both", "none"]) {
        const refused = await service.request(`${path}?session_id=${session}`, { headers: all });
        const { message, param } = await assertError(refused, 400, "invalid_request");
        assert.equal(param, "session_id");
        assert.match(message, /the full id of a session.*X-Agent-Owner with the name of its owner/);
      }
      for (const [index, owner] of ["ann", "bob"].entries())
        assert.deepEqual(await runsOf("both", { ...admin, "x-agent-owner": owner }), [both[index]]);
      assert.deepEqual(await runsOf("none", {}), []);
      assert.deepEqual(await runsOf("anns", bob), []);
    },
  );
}
