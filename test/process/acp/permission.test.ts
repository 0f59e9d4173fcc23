import assert from "node:assert/strict";
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { choose, createAcpPlace, type AcpClient, type AcpProcess, type Seen } from "../../harness/acp.ts";
import { createAgentClient } from "../../../src/client/http.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { calling, saying } from "../../harness/openai-server.ts";
import { testDialect } from "../../harness/store.ts";

const sharedPlace = sharedAcpPlaces();

const asking = "approvals: { mode: always_ask }\n";

const exists = async (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

/** The lines of the requests for leave so far, answered or not. */
const requests = ({ lines }: AcpProcess) =>
  lines.filter(({ method }) => method === "session/request_permission");

const asked = (seen: readonly Seen[]) =>
  seen.flatMap((each) => (each.kind === "permission" ? [each.request] : []));

/** The text of all results of tools that were told. */
const results = (editor: AcpClient): string => JSON.stringify(editor.updates("tool_call_update"));

function cancellations({ lines }: AcpProcess): unknown[] {
  return lines
    .filter(({ method }) => method === "$/cancel_request")
    .map(({ params }) => (params as { requestId: unknown }).requestId);
}

test("a permission request follows its tool call, shows the command and offers the narrowest approval first", async () => {
  await using place = await sharedPlace({ config: asking });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "run: echo one > made.txt");
  const call = editor.seen.findIndex(
    (each) => each.kind === "update" && each.update.sessionUpdate === "tool_call",
  );
  const question = editor.seen.findIndex(({ kind }) => kind === "permission");
  assert.ok(call !== -1 && call < question);
  const [request] = asked(editor.seen);
  assert.ok(request);
  const { options, toolCall } = request;
  assert.equal(request.sessionId, sessionId);
  assert.deepEqual(
    options.map(({ optionId, kind }) => [optionId, kind]),
    [
      ["allow_once", "allow_once"],
      ["allow_session", "allow_always"],
      ["allow_always", "allow_always"],
      ["deny", "reject_once"],
      ["deny_session", "reject_always"],
    ],
  );
  assert.deepEqual(
    options.map(({ name }) => name),
    [
      "Allow once",
      "Allow `echo one > made.txt` for this session",
      "Always allow `echo one > made.txt`",
      "Deny",
      "Deny `echo one > made.txt` for this session",
    ],
  );
  const [told] = editor.updates("tool_call");
  assert.equal(toolCall.toolCallId, told?.toolCallId);
  assert.equal(toolCall.kind, "execute");
  assert.equal(toolCall.status, "pending");
  assert.match(JSON.stringify(toolCall.content), /\$ echo one > made\.txt/);
  assert.match(JSON.stringify(toolCall.content), /may change something/);
  assert.deepEqual((toolCall.rawInput as { command: string }).command, "echo one > made.txt");
  assert.ok(await exists(join(place.folder, "made.txt")));
});

test("a cancel during a permission request withdraws it and ends the prompt as cancelled", async () => {
  await using place = await sharedPlace({ config: asking });
  const program = place.start();
  const editor = await program.client();
  const sessionId = await editor.session(place.folder);
  const answer = editor.prompt(sessionId, "run: touch marker");
  await editor.until((seen) => asked(seen)[0]);
  await editor.agent.notify("session/cancel", { sessionId });
  assert.equal((await answer).stopReason, "cancelled");
  assert.deepEqual(cancellations(program), [requests(program)[0]?.["id"]]);
  assert.equal(await exists(join(place.folder, "marker")), false);
});

for (const order of ["cancel first", "answer first"] as const) {
  const runs = order === "cancel first" ? 50 : 20;
  test(`a tool does not run when a cancel and its approval arrive in one write (${runs} runs, ${order})`, async () => {
    await using place = await sharedPlace({ config: asking });
    const program = place.start();
    const editor = await program.client();
    const sessionId = await editor.session(place.folder);
    for (let run = 1; run <= runs; run++) {
      const answer = editor.prompt(sessionId, "run: touch marker");
      // Had one of the answers counted, this would not be asked any more.
      await editor.until((seen) => asked(seen)[run - 1]);
      const id = requests(program)[run - 1]?.["id"];
      const cancel = { jsonrpc: "2.0", method: "session/cancel", params: { sessionId } };
      const outcome = { outcome: { outcome: "selected", optionId: "allow_always" } };
      const allow = { jsonrpc: "2.0", id, result: outcome };
      const lines = order === "cancel first" ? [cancel, allow] : [allow, cancel];
      program.write(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      assert.equal((await answer).stopReason, "cancelled", `run ${run}`);
    }
    // A prompt runs when all calls before it are over.
    assert.equal((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");
    assert.equal(await exists(join(place.folder, "marker")), false);
  });
}

test("a cancelled permission request ends the turn as cancelled", async () => {
  await using place = await sharedPlace({ config: asking });
  const editor = await place.start().client({ permission: () => ({ outcome: { outcome: "cancelled" } }) });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "run: touch marker")).stopReason, "cancelled");
  assert.equal(await exists(join(place.folder, "marker")), false);
  assert.equal((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");
});

test("an unknown optionId denies the tool call", async () => {
  await using place = await sharedPlace({ config: asking });
  const options = ["allow", "", "ALLOW_ONCE", "allow_session "];
  const editor = await place.start().client({
    permission: () => ({ outcome: { outcome: "selected", optionId: options.shift() ?? "allow_once" } }),
  });
  const sessionId = await editor.session(place.folder);
  while (options.length > 0) {
    assert.equal((await editor.prompt(sessionId, "run: touch marker")).stopReason, "end_turn");
    assert.equal(await exists(join(place.folder, "marker")), false);
  }
  assert.match(results(editor), /denied by user/);
  await editor.prompt(sessionId, "run: touch marker");
  assert.ok(await exists(join(place.folder, "marker")));
});

test("an option that was not offered denies the tool call", async () => {
  await using place = await sharedPlace();
  const editor = await place
    .start()
    .client({ permission: () => ({ outcome: { outcome: "selected", optionId: "allow_always" } }) });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "run: rm -rf missing || true; touch marker");
  const [request] = asked(editor.seen);
  assert.deepEqual(
    request?.options.map(({ optionId }) => optionId),
    ["allow_once", "deny", "deny_session"],
  );
  assert.equal(await exists(join(place.folder, "marker")), false);
});

test("a client error on a permission request denies the call, and later calls are denied without a request", async () => {
  await using place = await createAcpPlace({ config: asking });
  const program = place.start();
  const editor = await program.client({
    permission: () => Promise.reject(new Error("this editor has no such thing")),
  });
  const sessionId = await editor.session(place.folder);
  for (const name of ["first", "second", "third"]) {
    assert.equal((await editor.prompt(sessionId, `run: touch ${name}`)).stopReason, "end_turn");
    assert.equal(await exists(join(place.folder, name)), false);
  }
  assert.equal(requests(program).length, 1);
  assert.equal(editor.text().match(/rejects permission requests/g)?.length, 1);
  assert.match(results(editor), /cannot ask its user/);
});

test("a malformed permission answer denies the tool call", async () => {
  await using place = await sharedPlace({ config: asking });
  const program = place.start();
  const editor = await program.client();
  for (const result of [
    null,
    {},
    { outcome: null },
    { outcome: "selected" },
    { outcome: { outcome: "selected" } },
  ]) {
    const sessionId = await editor.session(place.folder);
    const before = requests(program).length;
    const answer = editor.prompt(sessionId, "run: touch marker");
    const request = await program.until(() => requests(program)[before]);
    program.send({ id: request["id"], result });
    assert.equal((await answer).stopReason, "end_turn");
    assert.equal(await exists(join(place.folder, "marker")), false);
  }
});

test("acp.approval_timeout_seconds denies the call as timed out, and a late answer is ignored", async () => {
  await using place = await createAcpPlace({ config: `${asking}acp: { approval_timeout_seconds: 1 }\n` });
  const program = place.start();
  const editor = await program.client();
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "run: touch marker")).stopReason, "end_turn");
  const [request] = requests(program);
  assert.deepEqual(cancellations(program), [request?.["id"]]);
  assert.match(results(editor), /timed out/);
  program.send({
    id: request?.["id"],
    result: { outcome: { outcome: "selected", optionId: "allow_always" } },
  });
  assert.equal((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");
  assert.equal(await exists(join(place.folder, "marker")), false);
  // Nothing was kept of the late answer.
  await editor.prompt(sessionId, "run: touch marker");
  assert.equal(requests(program).length, 2);
  assert.equal(await exists(join(place.folder, "marker")), false);
});

test("a permission request of a sub-agent names a tool call that was sent before", async () => {
  const task = JSON.stringify({ tasks: [{ goal: "make the marker" }] });
  const command = JSON.stringify({ command: "touch marker" });
  await using place = await sharedPlace({
    config: asking,
    replies: ({ body }) => {
      const { role, content } = body.messages.at(-1) ?? {};
      if (role === "tool") return saying("done");
      return JSON.stringify(content).includes("make the marker")
        ? calling({ id: "call_1", name: "terminal", json: command })
        : calling({ id: "call_1", name: "delegate_task", json: task });
    },
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "go")).stopReason, "end_turn");
  const [request] = asked(editor.seen);
  const { toolCallId } = request?.toolCall ?? {};
  const told = editor.updates("tool_call").map((call) => call.toolCallId);
  assert.equal(told.length, 2);
  assert.ok(toolCallId !== undefined && told.includes(toolCallId));
  const ends = editor.updates("tool_call_update").filter((update) => update.toolCallId === toolCallId);
  assert.deepEqual(
    ends.map(({ status }) => status),
    ["completed"],
  );
  assert.ok(await exists(join(place.folder, "marker")));
});

test("an answer over HTTP resumes a run started over ACP, and the editor is not asked any more", async () => {
  await using place = await createAcpPlace({ config: asking });
  await using gateway = await createGatewayPlace({
    AGENTD_HOME: place.home,
    AGENTD_DATABASE_URL: testDialect === "postgres" ? place.database : "",
  });
  const { url } = await gateway.start();
  const [, apiKey = ""] =
    /^API_SERVER_KEY=(.+)$/m.exec(await readFile(join(place.home, ".env"), "utf8")) ?? [];
  const api = createAgentClient({ baseUrl: url, apiKey });
  const asks = Promise.withResolvers<void>();
  const withdrawn = Promise.withResolvers<void>();
  const editor = await place.start().client({
    permission: (_, signal) => {
      asks.resolve();
      return new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          withdrawn.resolve();
          reject(new Error("withdrawn"));
        });
      });
    },
  });
  const sessionId = await editor.session(place.folder);
  const prompting = editor.prompt(sessionId, "run: echo one > made.txt");
  await asks.promise;
  const { data } = await api.listQuestions({ headers: { "X-Agent-Owner": "*" } });
  const [question] = data.data;
  assert.deepEqual([question?.source, question?.kind], ["acp", "approval"]);
  const path = { question_id: question?.id ?? "" };
  const headers = { "X-Agent-Owner": question?.owner ?? "" };
  await api.answerQuestion({ path, headers, body: { choice: "once" } });
  assert.equal((await prompting).stopReason, "end_turn");
  await withdrawn.promise;
  assert.ok(await exists(join(place.folder, "made.txt")));
});
