/** Branching, compressing, undoing and exporting sessions, and permanent approvals. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message } from "../../../src/agent/engine.ts";
import { insertMessages } from "../../../src/agent/session/transcript.ts";
import type {
  FeedEvent,
  Grant,
  Run,
  RunEvent,
  Session,
  SessionMessage,
} from "../../../generated/http/client/types.gen.ts";
import { askQuestion, asking, createSession, getSession, list, storedEvents } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const SESSIONS = "/v1/sessions";
const OTHER = "another-key-0123456789";
const keys = [
  { key: KEY, name: "default", scopes: ["admin"] },
  { key: OTHER, name: "other", scopes: ["admin"] },
];
const other = { authorization: `Bearer ${OTHER}` };

async function say(service: TestService, id: string, text: string): Promise<void> {
  const body = { messages: [{ role: "user", content: text }] };
  await (await service.chat(body, { headers: { "x-agent-session-id": id } })).text();
}

const messagesOf = (service: TestService, id: string) =>
  list<SessionMessage>(
    service,
    `${SESSIONS}/${encodeURIComponent(id)}/messages?order=asc&include=tool_results`,
  );

async function fork(service: TestService, id: string, body: object = {}): Promise<Session> {
  const response = await post(service, `${SESSIONS}/${id}/fork`, body);
  assert.equal(response.status, 201, await response.clone().text());
  return (await response.json()) as Session;
}

scenario(
  "forkSession",
  201,
  { title: "a fork has the messages up to through_message and no grants, and its own future" },
  async (service) => {
    await createSession(service, "s");
    await say(service, "s", "second");
    const all = await messagesOf(service, "s");
    assert.equal(all.length, 4);
    const branch = await fork(service, "s", { title: "the branch", through_message: all[1]?.sequence });
    assert.deepEqual([branch.title, branch.parent_id, branch.root_id], ["the branch", "s", "s"]);
    const copied = await messagesOf(service, branch.id);
    assert.deepEqual(
      copied.map(({ text }) => text),
      all.slice(0, 2).map(({ text }) => text),
    );
    assert.equal((await messagesOf(service, (await fork(service, "s")).id)).length, 4);
    await say(service, branch.id, "only here");
    assert.equal((await messagesOf(service, "s")).length, 4);
    const events = await storedEvents<FeedEvent>(service, "?types=session.created");
    assert.deepEqual(
      events.map(({ actor }) => actor),
      ["default", "default", "default"],
    );
  },
);

scenario(
  "forkSession",
  201,
  { title: "a repeated request makes one branch, and a dry run none" },
  async (service) => {
    await createSession(service, "s");
    const once = { "idempotency-key": "k" };
    const first = (await (await post(service, `${SESSIONS}/s/fork`, {}, once)).json()) as Session;
    const again = await post(service, `${SESSIONS}/s/fork`, {}, once);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    assert.equal(((await again.json()) as Session).id, first.id);
    assert.equal(again.headers.get("location"), `${SESSIONS}/${first.id}`);
    const tried = await post(service, `${SESSIONS}/s/fork?dry_run=true`, { title: "t" });
    assert.deepEqual([tried.headers.get("x-agent-dry-run"), (await tried.json()).title], ["true", "t"]);
    assert.equal((await list(service, SESSIONS)).length, 2);
  },
);

test("a branch has no approvals of its parent's session", async () => {
  await using service = await startTestService(asking("make all"));
  const start = async (id: string) => {
    const headers = { "x-agent-session-id": id };
    const { run_id: run } = await (await post(service, "/v1/runs", { input: "hi" }, headers)).json();
    return (await (await service.request(`/v1/runs/${run}?wait=30`)).json()) as Run;
  };
  const first = await start("s");
  await post(service, `/v1/runs/${first.id}/approval`, { choice: "session" });
  await (await service.request(`/v1/runs/${first.id}/events`)).text();
  assert.equal((await start("s")).status, "completed", "the session remembers");
  const branch = await fork(service, "s");
  assert.equal((await start(branch.id)).status, "waiting_for_approval");
});

scenario("forkSession", 409, { title: "a session without messages: nothing_to_branch" }, async (service) => {
  await createSession(service, "s");
  await service.service.store.write((tx) => tx.db.deleteFrom("messages").execute());
  await assertError(await post(service, `${SESSIONS}/s/fork`, {}), 409, "nothing_to_branch");
});

scenario("forkSession", 400, { title: "an unknown field, and a title that is taken" }, async (service) => {
  await createSession(service, "s");
  const wrong = await post(service, `${SESSIONS}/s/fork`, { through: 1 });
  assert.equal((await assertError(wrong, 400, "invalid_request")).param, "through");
});

for (const [operation, verb] of [
  ["forkSession", "fork"],
  ["compressSession", "compress"],
  ["undoSession", "undo"],
] as const) {
  test(`${operation} 404: a session that does not exist, or belongs to another owner`, async () => {
    await using service = await startTestService({ keys });
    await createSession(service, "theirs", other);
    for (const id of ["none", "theirs"])
      await assertError(await post(service, `${SESSIONS}/${id}/${verb}`, {}), 404, "session_not_found");
  });
}

scenario("forkSession", 404, { title: "a session that does not exist" }, async (service) => {
  await assertError(await post(service, `${SESSIONS}/none/fork`, {}), 404, "session_not_found");
});
scenario("compressSession", 404, { title: "a session that does not exist" }, async (service) => {
  await assertError(await post(service, `${SESSIONS}/none/compress`, {}), 404, "session_not_found");
});
scenario("undoSession", 404, { title: "a session that does not exist" }, async (service) => {
  await assertError(await post(service, `${SESSIONS}/none/undo`, {}), 404, "session_not_found");
});
scenario("exportSession", 404, { title: "a session that does not exist" }, async (service) => {
  await assertError(await service.request(`${SESSIONS}/none/export`), 404, "session_not_found");
});

scenario(
  "compressSession",
  202,
  {
    title: "compress answers 202 and the run ends with compression.completed; a repeated request starts none",
  },
  async (service) => {
    await createSession(service, "s");
    for (const text of ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"])
      await say(service, "s", text);
    const once = { "idempotency-key": "k" };
    const response = await post(service, `${SESSIONS}/s/compress`, { focus: "letters" }, once);
    assert.equal(response.status, 202, await response.clone().text());
    const { run_id: id } = await response.json();
    assert.equal(response.headers.get("location"), `/v1/runs/${id}`);
    const run = (await (await service.request(`/v1/runs/${id}?wait=30`)).json()) as Run;
    assert.deepEqual([run.status, run.kind], ["completed", "compression"]);
    const text = await (await service.request(`/v1/runs/${id}/events`)).text();
    const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(
      ([, json]) => JSON.parse(json ?? "") as RunEvent,
    );
    assert.deepEqual(
      events.slice(-2).map(({ event }) => event),
      ["compression.completed", "run.completed"],
    );
    const again = await post(service, `${SESSIONS}/s/compress`, { focus: "letters" }, once);
    assert.deepEqual([again.status, (await again.json()).run_id], [202, id]);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
  },
);

scenario(
  "compressSession",
  409,
  { title: "while a run of the session is active: session_busy", ...asking("rm -rf a") },
  async (service) => {
    const { session_id: id } = await askQuestion(service);
    await assertError(await post(service, `${SESSIONS}/${id}/compress`, {}), 409, "session_busy");
    await assertError(await post(service, `${SESSIONS}/${id}/undo`, {}), 409, "session_busy");
  },
);

scenario("compressSession", 400, { title: "a focus that is not text" }, async (service) => {
  const refused = await post(service, `${SESSIONS}/s/compress`, { focus: 1 });
  assert.equal((await assertError(refused, 400, "invalid_request")).param, "focus");
});

scenario(
  "undoSession",
  200,
  { title: "removes the newest turns and returns the prompt; a repeated request removes nothing more" },
  async (service) => {
    await createSession(service, "s");
    for (const text of ["second", "third"]) await say(service, "s", text);
    const once = { "idempotency-key": "k" };
    const undone = await post(service, `${SESSIONS}/s/undo`, { turns: 1 }, once);
    assert.deepEqual(await undone.json(), {
      object: "agent.session.undone",
      session_id: "s",
      removed: 2,
      prompt: "third",
    });
    const again = await post(service, `${SESSIONS}/s/undo`, { turns: 1 }, once);
    assert.deepEqual([again.headers.get("idempotency-replayed"), (await again.json()).removed], ["true", 2]);
    assert.equal((await messagesOf(service, "s")).length, 4);
  },
);

scenario("undoSession", 409, { title: "more turns than there are: nothing_to_undo" }, async (service) => {
  await createSession(service, "s");
  await assertError(await post(service, `${SESSIONS}/s/undo`, { turns: 2 }), 409, "nothing_to_undo");
});

scenario("undoSession", 400, { title: "no turn at all" }, async (service) => {
  const refused = await post(service, `${SESSIONS}/s/undo`, { turns: 0 });
  assert.equal((await assertError(refused, 400, "invalid_request")).param, "turns");
});

scenario(
  "exportSession",
  200,
  { title: "as JSON, as JSON lines and as Markdown, without secrets" },
  async (service) => {
    await createSession(service, "s");
    await say(service, "s", "my key is sk-abcdefghijklmnopqrstuvwxyz012345");
    const download = async (format: string) => {
      const response = await service.request(`${SESSIONS}/s/export${format}`);
      assert.equal(response.status, 200);
      const text = await response.text();
      assert.ok(!text.includes("sk-abcdef"), "secrets are redacted");
      return { text, name: response.headers.get("content-disposition") ?? "" };
    };
    const json = await download("");
    assert.match(json.name, /^attachment; filename="session-[\w.-]+\.json"$/);
    const { session, messages } = JSON.parse(json.text);
    assert.deepEqual(session, await getSession(service, "s"));
    assert.deepEqual(messages, await messagesOf(service, "s"));
    const lines = (await download("?format=jsonl")).text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.deepEqual(lines, [session, ...messages]);
    const markdown = await download("?format=markdown");
    assert.match(markdown.text, /^# [\s\S]*\n## User\n\nhi from s\n\n## Assistant\n\nhello\n/);
  },
);

test("no message can close the fences of a Markdown export", async () => {
  await using service = await startTestService({});
  await createSession(service, "s");
  const row = await service.service.store.find("sessions", { id: "s" });
  assert.ok(row);
  const messages: readonly Message[] = [
    {
      role: "assistant",
      parts: [
        { type: "reasoning", text: "one\ntwo" },
        { type: "tool_call", callId: "c", tool: "terminal", input: { command: "ls" } },
      ],
    },
    { role: "tool", callId: "c", tool: "terminal", status: "ok", text: "```\na.txt\n```" },
  ];
  await service.service.store.write(async (tx) => {
    const after = row.last_message;
    await insertMessages(tx, { sessionId: row.id, runId: "run_1" }, { messages, after });
    await tx.update("sessions", { id: row.id }, { last_message: after + messages.length });
  });
  const text = await (await service.request(`${SESSIONS}/s/export?format=markdown`)).text();
  const calls = 'Calls `terminal`:\n\n```json\n{\n  "command": "ls"\n}\n```\n';
  assert.ok(text.includes(`## Assistant\n\n> one\n> two\n\n${calls}`), text);
  assert.ok(text.includes("## Tool terminal (ok)\n\n````\n```\na.txt\n```\n````\n"), text);
});

scenario("exportSession", 400, { title: "an unknown format" }, async (service) => {
  const refused = await service.request(`${SESSIONS}/s/export?format=pdf`);
  assert.equal((await assertError(refused, 400, "unsupported_parameter")).param, "format");
});

test("an export of 10,000 messages streams in bounded memory, a page at a time, as its client reads it", async () => {
  await using service = await startTestService({});
  await createSession(service, "s");
  const { store } = service.service;
  const [row] = await store.read.selectFrom("sessions").selectAll().execute();
  assert.ok(row);
  const content = JSON.stringify({ role: "user", text: "x".repeat(4_000) });
  const base = { session_id: row.id, run_id: null, role: "user", content, created_at: 1 };
  for (let from = 3; from <= 10_000; from += 500) {
    const seqs = Array.from({ length: 500 }, (_, index) => from + index).filter((seq) => seq <= 10_000);
    await store.write((tx) =>
      tx.insert(
        "messages",
        seqs.map((seq) => ({ ...base, seq })),
      ),
    );
  }
  await store.write((tx) => tx.update("sessions", { id: row.id }, { last_message: 10_000 }));
  let pages = 0;
  const counted = new Proxy(store.read, {
    get: (target, name) => {
      if (name === "selectFrom") pages++;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  const { exportSession } = await import("../../../src/http/control/sessions/export.ts");
  const deps = {
    store: { ...store, read: counted },
    agent: service.service.agent,
    models: service.service.agent.deps.models,
  };
  const ctx = {
    identity: { name: "default", owner: "default", scopes: ["admin"], authenticated: true },
    requestId: "r",
  };
  const answer = await exportSession(
    { path: { session_id: row.id }, query: { format: "jsonl" }, ctx } as never,
    deps as never,
  );
  assert.ok(answer.status === 200 && typeof answer.raw === "object");
  const pieces = (answer.raw as AsyncIterable<string>)[Symbol.asyncIterator]();
  await pieces.next();
  const before = pages;
  for (let count = 0; count < 40; count++) assert.ok(((await pieces.next()).value as string).length < 10_000);
  assert.ok(pages - before <= 4, `${pages - before} pages for 40 messages`);
  await pieces.return?.();
  const whole = await (await service.request(`${SESSIONS}/s/export?format=jsonl`)).text();
  assert.equal(whole.trimEnd().split("\n").length, 10_001);
});

const approve = { script: asking("make all").script, tools: asking("make all").tools };

async function grantAlways(service: TestService): Promise<Grant> {
  const question = await askQuestion(service);
  await post(service, `/v1/questions/${question.id}/answer`, { choice: "always" });
  await (await service.request(`/v1/runs/${question.run_id}/events`)).text();
  const [grant] = await list<Grant>(service, "/v1/grants");
  assert.ok(grant);
  return grant;
}

scenario(
  "listGrants",
  200,
  { title: "what was approved for always, to its owner only", ...approve, keys },
  async (service) => {
    const grant = await grantAlways(service);
    assert.deepEqual([grant.object, grant.owner], ["agent.grant", "default"]);
    assert.match(grant.title, /make all/);
    assert.deepEqual(await list(service, "/v1/grants", other), []);
    assert.equal((await list(service, "/v1/grants", { ...other, "x-agent-owner": "*" })).length, 1);
  },
);

scenario("listGrants", 400, { title: "a cursor of another list" }, async (service) => {
  await assertError(await service.request("/v1/grants?after=run_1"), 400, "invalid_cursor");
});

scenario(
  "deleteGrant",
  200,
  { title: "a revoked approval is asked for again", ...approve, keys },
  async (service) => {
    const { id } = await grantAlways(service);
    const path = `/v1/grants/${id}`;
    await assertError(
      await service.request(path, { method: "DELETE", headers: other }),
      404,
      "grant_not_found",
    );
    assert.deepEqual(await (await service.request(path, { method: "DELETE" })).json(), {
      id,
      object: "agent.grant",
      deleted: true,
    });
    const events = await storedEvents<FeedEvent>(service, "?types=grant.*");
    assert.deepEqual(
      events.map(({ type, actor, data }) => [type, actor, data.id]),
      [
        ["grant.created", "http:default", id],
        ["grant.deleted", "default", id],
      ],
    );
    await assertError(await service.request(path, { method: "DELETE" }), 404, "grant_not_found");
  },
);

scenario("deleteGrant", 404, { title: "an id that does not exist" }, async (service) => {
  await assertError(
    await service.request("/v1/grants/grant_1", { method: "DELETE" }),
    404,
    "grant_not_found",
  );
});

scenario("deleteGrant", 400, { title: "an unknown query parameter" }, async (service) => {
  await assertError(
    await service.request("/v1/grants/x?a=1", { method: "DELETE" }),
    400,
    "unsupported_parameter",
  );
});
