/** Creating sessions over the control API. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FeedEvent, Session } from "../../../generated/http/client/types.gen.ts";
import { getSession, list, storedEvents } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const SESSIONS = "/v1/sessions";
const OTHER = "another-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const keys = [
  { key: KEY, name: "laptop", owner: "ann", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["sessions", "read", "chat"] },
];

async function create(service: TestService, body: object, headers = {}): Promise<Session> {
  const response = await post(service, SESSIONS, body, headers);
  assert.equal(response.status, 201, await response.clone().text());
  return (await response.json()) as Session;
}

scenario(
  "createSession",
  201,
  { title: "a session is empty, is listed, and the next chat that names it continues it", keys },
  async (service) => {
    const wanted = { id: "notes", title: " Release\nnotes ", reasoning_effort: "low", session_key: "k" };
    const response = await post(service, SESSIONS, wanted);
    const made = (await response.json()) as Session;
    assert.equal(response.headers.get("location"), `${SESSIONS}/notes`);
    assert.equal(
      response.headers.get("etag"),
      (await service.request(`${SESSIONS}/notes`)).headers.get("etag"),
    );
    assert.deepEqual(
      [made.id, made.owner, made.title, made.reasoning_effort, made.session_key, made.source, made.status],
      ["notes", "ann", "Release notes", "low", "k", "http", "idle"],
    );
    assert.deepEqual([made.message_count, made.usage, made.model, made.cwd], [0, null, null, null]);
    const hi = { messages: [{ role: "user", content: "hi" }] };
    await (await service.chat(hi, { headers: { "x-agent-session-id": "notes" } })).text();
    await (await service.chat(hi, { headers: { "x-agent-session-key": "k" } })).text();
    assert.deepEqual(
      (await list<Session>(service, SESSIONS)).map(({ id, message_count }) => [id, message_count]),
      [["notes", 4]],
    );
    const events = await storedEvents<FeedEvent>(service, "?types=session.created");
    assert.deepEqual(
      events.map(({ actor, owner, data }) => [actor, owner, data.id]),
      [["laptop", "ann", "notes"]],
    );
  },
);

scenario(
  "createSession",
  201,
  { title: "names belong to their owner, and the server makes an id for a session without one", keys },
  async (service) => {
    const mine = await create(service, { id: "notes", title: "mine" });
    const theirs = await create(service, { id: "notes", title: "theirs" }, other);
    assert.deepEqual([mine.id, theirs.id], ["notes", "notes"]);
    assert.equal((await getSession(service, "notes")).title, "mine");
    assert.equal((await getSession(service, "notes", other)).title, "theirs");
    const { id } = await create(service, {});
    assert.match(id, /^\d{8}_\d{6}_[0-9a-f]{12}$/);
    assert.equal((await getSession(service, id)).title, null);
  },
);

scenario(
  "createSession",
  201,
  { title: "a repeated request makes one, and a dry run none" },
  async (service) => {
    const once = { "idempotency-key": "k" };
    const first = await create(service, { title: "t" }, once);
    const again = await post(service, SESSIONS, { title: "t" }, once);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    assert.equal(((await again.json()) as Session).id, first.id);
    const tried = await post(service, `${SESSIONS}?dry_run=true`, { id: "tried" });
    assert.deepEqual([tried.status, tried.headers.get("x-agent-dry-run")], [201, "true"]);
    assert.equal((await list(service, SESSIONS)).length, 1);
  },
);

scenario("createSession", 409, { title: "an id that is taken: session_exists" }, async (service) => {
  await create(service, { id: "s" });
  const taken = await post(service, SESSIONS, { id: "s" });
  assert.equal((await assertError(taken, 409, "session_exists")).param, "id");
  const tried = await post(service, `${SESSIONS}?dry_run=true`, { id: "s" });
  await assertError(tried, 409, "session_exists");
  const both = await Promise.all([1, 2, 3].map(() => post(service, SESSIONS, { id: "race" })));
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [201, 409, 409]);
});

scenario(
  "createSession",
  400,
  { title: "names, titles, models and folders that cannot be" },
  async (service) => {
    for (const [body, code, param] of [
      [{ id: "a/b" }, "invalid_session_id", "id"],
      [{ id: "20260101_000000_0123456789ab" }, "invalid_session_id", "id"],
      [{ session_key: "a\u0000b" }, "invalid_session_key", "session_key"],
      [{ title: "  " }, "invalid_title", "title"],
      [{ title: "x".repeat(121) }, "invalid_title", "title"],
      [{ model: "nobody:none" }, "model_not_found", "model"],
      [{ cwd: "/nowhere" }, "invalid_request", "cwd"],
      [{ name: "s" }, "invalid_request", "name"],
    ] as const) {
      const refused = await post(service, SESSIONS, body);
      assert.equal((await assertError(refused, 400, code)).param, param, JSON.stringify(body));
    }
    assert.deepEqual(await list(service, SESSIONS), []);
  },
);

test("a key without the scope admin chooses a folder of the workspace only", async () => {
  await using service = await startTestService({ keys });
  const { cwd } = await create(service, { cwd: service.workspace }, other);
  assert.equal(cwd, service.workspace);
  await assertError(await post(service, SESSIONS, { cwd: "/" }, other), 403, "insufficient_scope");
});
