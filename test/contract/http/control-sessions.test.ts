import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import type {
  FeedEvent,
  Question,
  Session,
  SessionMessage,
} from "../../../generated/http/client/types.gen.ts";
import { ToolError } from "../../../src/agent/tool/tool.ts";
import { testTool } from "../../harness/agent.ts";
import {
  askQuestion,
  asking,
  createSession,
  getSession,
  list,
  patch,
  storedEvents,
} from "../../harness/control.ts";
import { createGate, fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const OTHER = "another-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];

scenario(
  "listSessions",
  200,
  { title: "sessions are listed newest first and stateless ones only when asked for" },
  async (service) => {
    await createSession(service, "old");
    await createSession(service, "new");
    await (await service.chat({ messages: [{ role: "user", content: "no session" }] })).text();
    const sessions = await list<Session>(service, "/v1/sessions?limit=1");
    assert.deepEqual(
      sessions.map(({ id }) => id),
      ["new", "old"],
    );
    const [first] = sessions;
    assert.deepEqual(
      [first?.object, first?.owner, first?.preview, first?.status, first?.message_count, first?.source],
      ["agent.session", "default", "hi from new", "idle", 2, "http"],
    );
    assert.equal((await list(service, "/v1/sessions?stateless=true")).length, 3);
  },
);

scenario(
  "listSessions",
  200,
  { title: "filters by text, title, source, folder and status combine" },
  async (service) => {
    await createSession(service, "a");
    await createSession(service, "b");
    await patch(service, "/v1/sessions/a", { title: "100% of_it", cwd: service.workspace });
    const ids = async (query: string) =>
      (await list<Session>(service, `/v1/sessions?${query}`)).map(({ id }) => id);
    const folder = `cwd=${encodeURIComponent(service.workspace)}`;
    assert.deepEqual(await ids("q=100%25 OF"), ["a"]);
    assert.deepEqual(await ids("q=%25x"), [], "no wildcard");
    assert.deepEqual(await ids("q=b"), ["b"]);
    assert.deepEqual(await ids(`title=100%25 of_it&source=http,rpc&${folder}&status=idle`), ["a"]);
    assert.deepEqual(await ids("source=rpc"), []);
    assert.deepEqual(await ids("status=running,waiting"), []);
  },
);

const gate = createGate();
scenario(
  "getSession",
  200,
  {
    title: "a session with an active run has status running, with an open question status waiting",
    script: gate.script,
  },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    await runEvent(service, id, "message.delta");
    const session = await getSession(service, "s");
    assert.deepEqual([session.status, session.run_id, session.queued], ["running", id, 0]);
    assert.equal((await list(service, "/v1/sessions?status=running")).length, 1);
    assert.equal((await list(service, "/v1/sessions?status=idle,waiting")).length, 0);
    gate.open();
    await (await service.request(`/v1/runs/${id}?wait=30`)).text();
    const done = await getSession(service, "s");
    assert.deepEqual([done.status, done.run_id], ["idle", null]);
    assert.ok(done.usage && done.context && done.context.limit_tokens > 0);
  },
);

scenario(
  "getSession",
  200,
  { title: "a session with an open question has status waiting", ...asking("rm -rf a") },
  async (service) => {
    const { session_id: id } = await askQuestion(service);
    assert.equal((await getSession(service, id)).status, "waiting");
    const waiting = await list<Session>(service, "/v1/sessions?status=waiting&stateless=true");
    assert.deepEqual(
      waiting.map((session) => session.id),
      [id],
    );
  },
);

for (const [operation, method, path] of [
  ["getSession", "GET", ""],
  ["updateSession", "PATCH", ""],
  ["deleteSession", "DELETE", ""],
  ["listSessionMessages", "GET", "/messages"],
] as const) {
  const what = { title: "an unknown session and another owner's look the same", keys: twoKeys };
  const run = async (service: TestService) => {
    await createSession(service, "mine");
    const isPatch = method === "PATCH";
    for (const [id, headers] of [
      ["none", {}],
      ["mine", other],
    ] as const) {
      const of = `/v1/sessions/${id}${path}`;
      const response = isPatch
        ? await patch(service, of, {}, headers)
        : await service.request(of, { method, headers });
      await assertError(response, 404, "session_not_found");
    }
    assert.equal((await getSession(service, "mine")).id, "mine");
  };
  if (operation === "getSession") scenario("getSession", 404, what, run);
  else if (operation === "updateSession") scenario("updateSession", 404, what, run);
  else if (operation === "deleteSession") scenario("deleteSession", 404, what, run);
  else scenario("listSessionMessages", 404, what, run);
}

scenario("getSession", 400, { title: "a query parameter, which it does not have" }, async (service) => {
  await createSession(service, "s");
  await assertError(await service.request("/v1/sessions/s?include=all"), 400, "unsupported_parameter");
});

scenario(
  "updateSession",
  200,
  { title: "a rename is seen by every reader and returns the new etag" },
  async (service) => {
    await createSession(service, "s");
    const response = await patch(service, "/v1/sessions/s", { title: "  Release\nnotes " });
    assert.equal(response.headers.get("x-agent-dry-run"), null);
    assert.equal((await response.json()).title, "Release notes");
    const read = await service.request("/v1/sessions/s");
    assert.equal(read.headers.get("etag"), response.headers.get("etag"));
  },
);

scenario(
  "updateSession",
  400,
  { title: "a rename to the title of another branch is 400 invalid_title and leaves the etag" },
  async (service) => {
    await createSession(service, "s");
    await patch(service, "/v1/sessions/s", { title: "main" });
    const { sessions } = service.service.agent;
    const branch = await sessions.branch("s", "default", { title: "side" });
    const before = (await service.request(`/v1/sessions/${branch.id}`)).headers.get("etag");
    for (const title of ["main", "", "x".repeat(121)]) {
      const response = await patch(service, `/v1/sessions/${branch.id}`, { model: "demo:demo", title });
      assert.equal((await assertError(response, 400, "invalid_title")).param, "title");
    }
    const after = await service.request(`/v1/sessions/${branch.id}`);
    assert.equal(after.headers.get("etag"), before);
    assert.equal((await after.json()).model, null, "nothing of the patch was applied");
  },
);

scenario(
  "updateSession",
  403,
  {
    title: "a folder outside the workspace needs the scope admin, whether it exists or not",
    keys: [{ key: KEY, name: "a", scopes: ["sessions", "chat", "read"] }],
  },
  async (service) => {
    await createSession(service, "s");
    for (const cwd of [tmpdir(), "/nonexistent/folder", "relative"]) {
      const response = await patch(service, "/v1/sessions/s", { cwd });
      assert.equal((await assertError(response, 403, "insufficient_scope")).param, "cwd");
    }
    const inside = await patch(service, "/v1/sessions/s", { cwd: service.workspace });
    assert.equal((await inside.json()).cwd, service.workspace);
    const missing = await patch(service, "/v1/sessions/s", { cwd: `${service.workspace}/none` });
    assert.equal((await assertError(missing, 400, "invalid_request")).param, "cwd");
  },
);

const busy = createGate();
scenario(
  "updateSession",
  409,
  { title: "the folder of a session with an active run cannot change", script: busy.script },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    await runEvent(service, id, "message.delta");
    const response = await patch(service, "/v1/sessions/s", { title: "t", cwd: service.workspace });
    await assertError(response, 409, "session_busy");
    assert.equal((await patch(service, "/v1/sessions/s", { title: "t" })).status, 200);
    busy.open();
  },
);

const long = createGate();
scenario(
  "deleteSession",
  409,
  { title: "deleting a busy session is 409 and with force stops the run first", script: long.script },
  async (service) => {
    const { run_id: id } = await startRun(service, { session_id: "s" });
    await runEvent(service, id, "message.delta");
    const path = "/v1/sessions/s";
    await assertError(await service.request(path, { method: "DELETE" }), 409, "session_busy");
    const deleted = await service.request(`${path}?force=true`, { method: "DELETE" });
    assert.deepEqual(await deleted.json(), { id: "s", object: "agent.session", deleted: true });
    await assertError(await service.request(`/v1/runs/${id}`), 404, "run_not_found");
    const events = await storedEvents<FeedEvent>(service, "?types=run.updated,session.deleted");
    assert.deepEqual(events.map(({ type, data }) => [type, data.id, data["status"] ?? null]).slice(-2), [
      ["run.updated", id, "cancelled"],
      ["session.deleted", "s", null],
    ]);
  },
);

scenario("deleteSession", 200, { title: "a second DELETE is 404" }, async (service) => {
  await createSession(service, "s");
  assert.equal((await service.request("/v1/sessions/s", { method: "DELETE" })).status, 200);
  await assertError(await service.request("/v1/sessions/s", { method: "DELETE" }), 404, "session_not_found");
});

scenario("deleteSession", 412, { title: "only the version of If-Match is deleted" }, async (service) => {
  await createSession(service, "s");
  const headers = { "if-match": '"other"' };
  await assertError(
    await service.request("/v1/sessions/s", { method: "DELETE", headers }),
    412,
    "precondition_failed",
  );
  assert.equal((await getSession(service, "s")).id, "s");
});

scenario("deleteSession", 400, { title: "force is neither true nor false" }, async (service) => {
  await createSession(service, "s");
  await assertError(
    await service.request("/v1/sessions/s?force=yes", { method: "DELETE" }),
    400,
    "invalid_request",
  );
});

scenario(
  "listSessionMessages",
  200,
  { title: "messages come newest first, and tool results only when asked for", ...asking("rm -rf a") },
  async (service) => {
    const { session_id: id, id: question } = await askQuestion(service);
    const answered = await post(service, `/v1/questions/${question}/answer`, { choice: "once" });
    const { run_id: run } = await answered.json();
    await (await service.request(`/v1/runs/${run}?wait=30`)).text();
    const messages = await list<SessionMessage>(service, `/v1/sessions/${id}/messages?limit=1`);
    const roles = ["assistant", "tool", "assistant", "user"];
    assert.deepEqual(
      messages.map(({ role }) => role),
      roles,
    );
    assert.deepEqual(
      messages.map(({ sequence }) => sequence),
      [4, 3, 2, 1],
    );
    assert.equal(messages[1]?.text, null);
    assert.equal(messages[1]?.tool_call_id, messages[2]?.tool_calls[0]?.id);
    const oldest = `/v1/sessions/${id}/messages?order=asc&include=tool_results&limit=3`;
    const forward = await list<SessionMessage>(service, oldest);
    assert.deepEqual(
      forward.map(({ role }) => role),
      roles.toReversed(),
    );
    assert.equal(forward[2]?.text, "ran rm -rf a");
    const { tool, status, code, duration_seconds: seconds } = forward[2] ?? assert.fail();
    assert.deepEqual([tool, status, code, typeof seconds], ["terminal", "ok", null, "number"]);
    assert.ok(seconds !== null && seconds >= 0);
    const others = forward.filter(({ role }) => role !== "tool");
    assert.ok(others.every((each) => each.status === null && each.duration_seconds === null));
    assert.deepEqual([forward[0]?.text, forward[0]?.run_id, forward[0]?.is_summary], ["hi", run, false]);
  },
);

scenario(
  "listSessionMessages",
  200,
  {
    title:
      "the result of a tool has its outcome, the code of its failure and how long it took with the wait for approval",
    ...asking("rm -rf a", "rm -rf b"),
    tools: [
      testTool(async () => {
        throw new ToolError("no");
      }),
    ],
  },
  async (service) => {
    const { session_id: id, id: question, run_id: run } = await askQuestion(service);
    await post(service, `/v1/questions/${question}/answer`, { choice: "deny" });
    const ask = async () => (await list<Question>(service, `/v1/questions?run_id=${run}`))[0];
    let next = await ask();
    while (next === undefined) next = await ask();
    await post(service, `/v1/questions/${next.id}/answer`, { choice: "once" });
    assert.equal((await fetchRun(service, run, 30)).status, "completed");
    const messages = await list<SessionMessage>(service, `/v1/sessions/${id}/messages?order=asc`);
    const results = messages.filter(({ role }) => role === "tool");
    const outcomes = results.map(({ status, code }) => `${status} ${code}`).toSorted();
    assert.deepEqual(outcomes, ["denied denied_by_user", "error failed"]);
    const failed = results.find(({ status }) => status === "error");
    const asked = (await (await service.request(`/v1/questions/${next.id}`)).json()) as Question;
    const waited = (asked.answered_at ?? 0) - asked.created_at;
    assert.ok((failed?.duration_seconds ?? 0) >= waited - 0.01, JSON.stringify(results));
  },
);

scenario("listSessionMessages", 400, { title: "an order that does not exist" }, async (service) => {
  await createSession(service, "s");
  const response = await service.request("/v1/sessions/s/messages?order=newest");
  assert.equal((await assertError(response, 400, "unsupported_parameter")).param, "order");
});

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const ATTACHMENTS = "/v1/sessions/s/messages/1/attachments";

/** Sends a prompt with a picture and a text file to the session `s`. */
async function sendFiles(service: TestService): Promise<void> {
  const content = [
    { type: "text", text: "look" },
    { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } },
    { type: "file", file: { filename: "a.txt", file_data: "data:text/plain;base64,aGk=" } },
  ];
  const answer = await service.chat(
    { messages: [{ role: "user", content }] },
    { headers: { "x-agent-session-id": "s" } },
  );
  assert.equal(answer.status, 200, await answer.clone().text());
  await answer.text();
}

scenario(
  "getSessionAttachment",
  200,
  { title: "an attachment of a message is returned with its content" },
  async (service) => {
    await sendFiles(service);
    const [message] = await list<SessionMessage>(service, "/v1/sessions/s/messages?order=asc&limit=1");
    assert.deepEqual(
      message?.attachments.map(({ name }) => name),
      [null, "a.txt"],
    );
    const [picture, text] = await Promise.all(
      [0, 1].map(async (index) => (await service.request(`${ATTACHMENTS}/${index}`)).json()),
    );
    const object = "agent.session.attachment";
    const image = { kind: "image", name: null, media_type: "image/png", bytes: 70, data: PIXEL };
    assert.deepEqual(picture, { object, ...image });
    const file = { kind: "file", name: "a.txt", media_type: "text/plain", bytes: 2, data: "aGk=" };
    assert.deepEqual(text, { object, ...file });
  },
);

scenario(
  "getSessionAttachment",
  404,
  { title: "no attachment, no message, and the session of another owner are each 404", keys: twoKeys },
  async (service) => {
    await sendFiles(service);
    await assertError(await service.request(`${ATTACHMENTS}/2`), 404, "not_found");
    for (const sequence of [2, 99]) {
      const path = `/v1/sessions/s/messages/${sequence}/attachments/0`;
      await assertError(await service.request(path), 404, "not_found");
    }
    const foreign = await service.request(`${ATTACHMENTS}/0`, { headers: other });
    await assertError(foreign, 404, "session_not_found");
  },
);

scenario("getSessionAttachment", 400, { title: "a position that is no number" }, async (service) => {
  await sendFiles(service);
  await assertError(await service.request(`${ATTACHMENTS}/first`), 400, "invalid_request");
});
