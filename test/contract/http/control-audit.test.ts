/** What the control API keeps apart, keeps secret and keeps: owners, passwords and authors. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { FeedEvent, Question } from "../../../generated/http/client/types.gen.ts";
import {
  asking,
  askQuestion,
  createJob,
  createSession,
  list,
  patch,
  storedEvents,
} from "../../harness/control.ts";
import { addMessage } from "../../harness/outbox.ts";
import { fetchRun, post, startRun } from "../../harness/runs.ts";
import { assertError } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { WebhookService, withReceiver } from "../../harness/webhook.ts";

const OTHER = "another-key-0123456789";
const keys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
const other = { authorization: `Bearer ${OTHER}` };

test("a dry run does not consume its Idempotency-Key", async () => {
  await using service = await startTestService();
  const once = { "idempotency-key": "k" };
  const job = { schedule: "every 1h", prompt: "make tea" };
  for (const path of ["/v1/jobs", "/v1/sessions"]) {
    const body = path === "/v1/jobs" ? job : { title: "t" };
    assert.equal((await post(service, `${path}?dry_run=true`, body, once)).status, 201, path);
    const real = await post(
      service,
      path,
      { ...body, ...(path === "/v1/jobs" ? { name: "n" } : { id: "s" }) },
      once,
    );
    assert.deepEqual([real.status, real.headers.get("idempotency-replayed")], [201, null], path);
  }
});

test("a foreign job, route, delivery, message, question and session are each 404", async () => {
  const routes = { theirs: { owner: "b", events: ["push"] } };
  await using service = await startTestService({
    ...withReceiver({ keys, routes }),
    ...asking("rm -rf a"),
    keys,
  });
  const { id: job } = await createJob(service, {}, other);
  const { id: question, session_id: session } = await askQuestion(service, other);
  const message = await addMessage(service, { owner: "b" });
  const receiver = new WebhookService(service);
  await receiver.post("theirs", {}, { headers: { "x-github-event": "ping", "x-request-id": "r" } });
  const [row] = await receiver.recorded((all) => all.length > 0);
  for (const [path, code] of [
    [`/v1/jobs/${job}`, "job_not_found"],
    ["/v1/webhooks/routes/theirs", "route_not_found"],
    [`/v1/webhooks/deliveries/${row?.id}`, "delivery_not_found"],
    [`/v1/outbox/${message}`, "message_not_found"],
    [`/v1/questions/${question}`, "question_not_found"],
    [`/v1/sessions/${session}`, "session_not_found"],
  ] as const) {
    await assertError(await service.request(path), 404, code);
    assert.equal((await service.request(path, { headers: other })).status, 200, path);
  }
});

test("no feed event contains a prompt, a title, a payload or a secret", async () => {
  const routes = { hook: { owner: "a", prompt: "Look at {word}." } };
  await using service = await startTestService({ ...withReceiver({ keys, routes }), keys });
  const words = ["zebra-prompt", "zebra-title", "zebra-payload", "zebra-message", "zebra-secret-0123456789"];
  const [prompt, title, payload, message, secret] = words;
  await startRun(service, { input: prompt });
  await createSession(service, "s");
  await patch(service, "/v1/sessions/s", { title });
  await createJob(service, { prompt, name: title });
  await post(service, "/v1/outbox", { target: "local", text: message });
  await post(service, "/v1/webhooks/routes", { name: "more", secret });
  const receiver = new WebhookService(service);
  await receiver.post(
    "hook",
    { word: payload },
    { headers: { "x-github-event": "push", "x-request-id": "r" } },
  );
  await receiver.recorded((all) => all.length > 0 && all.every((row) => row.ended_at !== null));
  const events = JSON.stringify(await storedEvents<FeedEvent>(service, "", { "x-agent-owner": "*" }));
  for (const kind of ["run", "session", "job", "message", "route", "delivery"])
    assert.ok(events.includes(`"${kind}.created"`), kind);
  assert.doesNotMatch(events, /zebra/);
});

/** Asks for a password as a command under sudo does. */
async function askPassword(service: TestService) {
  const { run_id: run, session_id: session } = await askQuestion(service);
  const stop = new AbortController();
  const subject = { runId: run, sessionId: session, owner: "default" };
  const content = { command: "sudo ls" };
  const outcome = service.service.questions.ask("sudo", subject as never, content, {
    timeoutMs: 0,
    signal: stop.signal,
  });
  let found: Question | undefined;
  while (!found) [found] = await list<Question>(service, "/v1/questions?kind=sudo");
  return { id: found.id, outcome, stop };
}

test("a password is in no row, log, ledger or event", async () => {
  await using service = await startTestService({ ...asking("rm -rf a"), logLevel: "debug" });
  const { id, outcome } = await askPassword(service);
  const password = "zebra-password-0123456789";
  const once = { "idempotency-key": "k" };
  const answered = await post(service, `/v1/questions/${id}/answer`, { password }, once);
  assert.equal(answered.status, 200, await answered.clone().text());
  const got = await outcome;
  assert.ok(JSON.stringify(got).includes(password), "the caller gets it");
  const { read } = service.service.store;
  for (const table of ["questions", "ledger", "events", "changes", "messages", "runs", "sessions"] as const) {
    const rows = await read.selectFrom(table).selectAll().execute();
    assert.ok(rows.length > 0 || table === "messages", table);
    assert.doesNotMatch(JSON.stringify(rows), /zebra/, table);
  }
  assert.doesNotMatch(service.logLines.join(""), /zebra/);
  const files = await readdir(join(service.home), { recursive: true, withFileTypes: true });
  for (const file of files.filter((each) => each.isFile()))
    assert.doesNotMatch(await readFile(join(file.parentPath, file.name), "latin1"), /zebra/, file.name);
});

test("a password for another process's question is 409 asked_by_another_process", async () => {
  await using service = await startTestService(asking("rm -rf a"));
  await using second = await startTestService({ ...asking("rm -rf a"), like: service });
  const { id, outcome, stop } = await askPassword(service);
  const refused = await post(second, `/v1/questions/${id}/answer`, { password: "secret words" });
  const error = (await assertError(refused, 409, "question_not_pending")) as unknown as {
    readonly details: { readonly reason: string; readonly status: string };
  };
  assert.deepEqual([error.details.reason, error.details.status], ["asked_by_another_process", "open"]);
  stop.abort();
  await outcome.catch(() => {});
});

test("an answer over HTTP resumes a run that another process started for an editor", async () => {
  await using service = await startTestService(asking("rm -rf a"));
  await using editor = await startTestService({ ...asking("rm -rf a"), like: service });
  const { runId } = await editor.service.runs.submit({
    address: { owner: "default" },
    seed: { source: "acp", transient: false },
    kind: "run",
    whenBusy: "reject",
    input: { prompt: [{ role: "user", text: "hi" }], settings: {}, answerable: true },
  });
  await fetchRun(service, runId, 30);
  const [question] = await list<Question>(service, `/v1/questions?run_id=${runId}`);
  assert.equal(question?.source, "acp");
  const answered = await post(service, `/v1/questions/${question?.id}/answer`, { choice: "once" });
  assert.equal(answered.status, 200, await answered.clone().text());
  assert.equal((await fetchRun(service, runId, 30)).status, "completed");
});
