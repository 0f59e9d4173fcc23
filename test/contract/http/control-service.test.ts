/** The log, the end and the backup of a running service over the control API. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { FeedEvent, LogEntry, Run } from "../../../generated/http/client/types.gen.ts";
import { unpack } from "../../../src/app/backup/archive.ts";
import { registerSecret, forgetSecret } from "../../../src/base/observe.ts";
import { LogRing } from "../../../src/http/admin/log-ring.ts";
import { openStore } from "../../../src/store/open.ts";
import { createJob, createSession, list, patch, storedEvents } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";

const LOGS = "/v1/logs";

/** Writes a line to the log of the service. */
const say = (service: TestService, message: string, fields = {}) =>
  service.service.agent.deps.log.info(message, fields);

async function follow(
  service: TestService,
  query: string,
  count: number,
  headers: Record<string, string> = {},
) {
  const leaving = new AbortController();
  const response = await service.request(`${LOGS}?stream=true${query}`, { headers, signal: leaving.signal });
  assert.equal(response.status, 200, response.status === 200 ? "" : await response.text());
  const frames = readFrames(response);
  const read = async () => {
    const found: LogEntry[] = [];
    while (found.length < count) {
      const { value } = await frames.next();
      if (value?.data !== undefined) found.push(JSON.parse(value.data) as LogEntry);
    }
    leaving.abort();
    return found;
  };
  return { lines: read() };
}

scenario(
  "listLogs",
  200,
  { title: "logs followed from an id miss no line and hold no secret" },
  async (service) => {
    const secret = "a-very-secret-value-0123456789";
    registerSecret(secret);
    try {
      for (let number = 1; number <= 5; number++)
        say(service, `line ${number}`, { secret, run: `run_${number}` });
      const stored = (await list<LogEntry>(service, `${LOGS}?limit=2`)).toReversed();
      const lines = stored.filter(({ message }) => message.startsWith("line"));
      assert.deepEqual(
        lines.map(({ message }) => message),
        ["line 1", "line 2", "line 3", "line 4", "line 5"],
      );
      assert.ok(!JSON.stringify(stored).includes(secret));
      const live = await follow(service, "&q=line", 3, { "last-event-id": lines[2]?.id ?? "" });
      say(service, "line 6");
      const followed = await live.lines;
      assert.deepEqual(
        followed.map(({ message }) => message),
        ["line 4", "line 5", "line 6"],
      );
      assert.ok(!JSON.stringify(followed).includes(secret));
      const now = await follow(service, "", 1);
      say(service, "line 7");
      assert.deepEqual(
        (await now.lines).map(({ message }) => message),
        ["line 7"],
      );
    } finally {
      forgetSecret(secret);
    }
  },
);

scenario(
  "listLogs",
  200,
  { title: "by level, text, request, run and time", logLevel: "debug" },
  async (service) => {
    const { log } = service.service.agent.deps;
    log.debug("small");
    log.warn("large", { request: "req_1", run: "run_1" });
    const found = async (query: string) =>
      (await list<LogEntry>(service, `${LOGS}?${query}`)).filter(({ message }) => /small|large/.test(message))
        .length;
    assert.deepEqual(
      [
        await found("limit=1000"),
        await found("level=warn"),
        await found("q=LARGE"),
        await found("request_id=req_1"),
        await found("run_id=run_2"),
        await found(`from=${Date.now() / 1000 + 60}`),
      ],
      [2, 1, 1, 1, 0, 0],
    );
  },
);

scenario("listLogs", 400, { title: "a wrong position, and a wrong limit" }, async (service) => {
  await assertError(await service.request(`${LOGS}?after=x`), 400, "invalid_cursor");
  const limit = await service.request(`${LOGS}?limit=1001`);
  assert.equal((await assertError(limit, 400, "invalid_request")).param, "limit");
});

scenario("listLogs", 410, { title: "a position of an earlier process: events_expired" }, async (service) => {
  await assertError(await service.request(`${LOGS}?stream=true&after=00000000-1`), 410, "events_expired");
});

test("the log that is kept is bounded in lines and in size, and its numbers never repeat", () => {
  const ring = new LogRing();
  for (let number = 1; number <= 25_000; number++) ring.write(`{"n":${number}}\n`);
  assert.deepEqual([ring.first, ring.last], [15_001, 25_000]);
  assert.equal(ring.after(0).length, 10_000);
  assert.deepEqual(
    ring.after(24_998).map(({ number }) => number),
    [24_999, 25_000],
  );
  assert.deepEqual(ring.after(25_000), []);
  for (let number = 0; number < 10; number++) ring.write("x".repeat(1_000_000));
  assert.ok(ring.after(0).length <= 5);
  assert.equal(ring.last, 25_010);
});

scenario(
  "drainService",
  202,
  { title: "a draining server still serves reads and refuses writes with 503" },
  async (service) => {
    await createSession(service, "s");
    const job = await createJob(service);
    const answer = await post(service, "/v1/service/drain", { grace_seconds: 0 });
    assert.deepEqual(await answer.json(), { object: "agent.service", state: "draining", grace_seconds: 0 });
    for (const path of ["/v1/sessions", `/v1/jobs/${job.id}`, "/v1/config", "/v1/keys", "/v1/events"]) {
      const response = await service.request(path, { headers: { accept: "application/json" } });
      assert.equal(response.status, 200, path);
    }
    const writes = [
      post(service, "/v1/jobs", { schedule: "daily", prompt: "hi" }),
      patch(service, "/v1/sessions/s", { title: "t" }),
      service.request(`/v1/jobs/${job.id}`, { method: "DELETE" }),
      post(service, "/v1/keys", { name: "a", scopes: ["read"] }),
      post(service, "/v1/sessions/s/fork", {}),
      post(service, "/v1/runs", { input: "hi" }),
    ];
    for (const write of await Promise.all(writes)) await assertError(write, 503, "server_draining");
    assert.equal((await service.request("/health")).status, 503);
    const events = await storedEvents<FeedEvent>(service, "?types=service.*");
    assert.deepEqual(
      events.map(({ type, actor }) => [type, actor]),
      [
        ["service.started", null],
        ["service.draining", "default"],
      ],
    );
  },
);

test("the feed reports the starts and stops of a service, with the process and the version", async () => {
  const first = await startTestService();
  await using second = await first.restart();
  const events = await storedEvents<FeedEvent>(second, "?types=service.*");
  assert.deepEqual(
    events.map(({ type, data }) => [type, data.id, data["version"]]),
    [
      ["service.started", "service", "0.0.0-test"],
      ["service.stopped", "service", undefined],
      ["service.started", "service", "0.0.0-test"],
    ],
  );
  const [started, stopped, again] = events.map(({ data }) => data["instance"]);
  assert.ok(started === stopped && started !== again, "each process has its name");
});

scenario("drainService", 400, { title: "a time below zero" }, async (service) => {
  const refused = await post(service, "/v1/service/drain", { grace_seconds: -1 });
  assert.equal((await assertError(refused, 400, "invalid_request")).param, "grace_seconds");
  assert.equal((await service.request("/health")).status, 200);
});

test("a repeated request to drain does it once, and does not drain the restarted server", async () => {
  await using first = await startTestService();
  const drain = (service: TestService) =>
    post(service, "/v1/service/drain", { grace_seconds: 0 }, { "idempotency-key": "k" });
  const answers = await Promise.all([drain(first), drain(first), drain(first)]);
  const state = { object: "agent.service", state: "draining", grace_seconds: 0 };
  for (const answer of answers) assert.deepEqual([answer.status, await answer.json()], [202, state]);
  const replayed = answers.filter(({ headers }) => headers.get("idempotency-replayed") === "true");
  assert.equal(replayed.length, 2);
  assert.equal((await storedEvents<FeedEvent>(first, "?types=service.draining")).length, 1);
  await using second = await first.restart();
  const late = await drain(second);
  assert.deepEqual([late.status, late.headers.get("idempotency-replayed")], [202, "true"]);
  assert.equal((await second.request("/health")).status, 200);
  assert.equal((await post(second, "/v1/service/drain", {}, { "idempotency-key": "other" })).status, 202);
  assert.equal((await second.request("/health")).status, 503);
});

scenario("drainService", 409, { title: "an Idempotency-Key of another request" }, async (service) => {
  const drain = (body: object) => post(service, "/v1/service/drain", body, { "idempotency-key": "k" });
  assert.equal((await drain({ grace_seconds: 0 })).status, 202);
  await assertError(await drain({ grace_seconds: 1 }), 409, "idempotency_key_conflict");
});

async function writeHome(service: TestService): Promise<void> {
  const home = join(service.home, "agentd");
  await mkdir(home, { recursive: true });
  await writeFile(join(home, ".env"), "TOKEN=very-secret-0123456789\n");
  await writeFile(join(home, "config.yaml"), "api_server:\n  key: very-secret-0123456789\n");
  const route = { x: { secret: "very-secret-0123456789" } };
  await writeFile(join(home, "webhook_subscriptions.json"), JSON.stringify(route));
}

async function download(service: TestService, body: object) {
  const response = await post(service, "/v1/backup", body);
  assert.equal(response.status, 200, response.status === 200 ? "" : await response.text());
  assert.match(
    response.headers.get("content-disposition") ?? "",
    /^attachment; filename="agentd-backup-[\w-]+\.tar\.gz"$/,
  );
  const folder = await mkdtemp(join(tmpdir(), "agentd-backup-test-"));
  await writeFile(join(folder, "a.tar.gz"), Buffer.from(await response.arrayBuffer()));
  const home = join(folder, "home");
  await mkdir(home);
  const manifest = await unpack(join(folder, "a.tar.gz"), home);
  return { manifest, home, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}

scenario(
  "createBackup",
  200,
  {
    title:
      "a backup taken under load restores to a consistent database and, without secrets, holds no .env and no route secret",
  },
  async (service) => {
    await writeHome(service);
    await createSession(service, "s");
    let isOver = false;
    const talk = async (session: string) => {
      const headers = { "x-agent-session-id": session };
      while (!isOver)
        await (await service.chat({ messages: [{ role: "user", content: "hi" }] }, { headers })).text();
    };
    const load = [talk("s"), talk("t"), talk("u")];
    const before = (await list<Run>(service, "/v1/runs?status=completed")).map(({ id }) => id);
    await using backup = await download(service, {});
    isOver = true;
    await Promise.all(load);
    const { manifest, home } = backup;
    assert.equal(manifest.secrets, false);
    assert.ok(manifest.omitted.includes(".env"));
    assert.ok(!manifest.files.some(({ path }) => path === ".env"));
    for (const { path } of manifest.files.filter((file) => /yaml|json/.test(file.path)))
      assert.ok(!(await readFile(join(home, path), "utf8")).includes("very-secret"), path);
    if (manifest.database !== "copied") return assert.equal(manifest.database, "elsewhere");
    const store = await openStore({ url: join(home, manifest.database_path ?? "") });
    try {
      assert.notEqual(store.epoch, service.service.store.epoch, "an old cursor names another epoch");
      const [sessions, runs, messages, events] = await Promise.all([
        store.read.selectFrom("sessions").selectAll().execute(),
        store.read.selectFrom("runs").selectAll().execute(),
        store.read.selectFrom("messages").select(["session_id", "seq"]).execute(),
        store.read.selectFrom("events").select(["session_id", "seq"]).execute(),
      ]);
      const ids = new Set(runs.map(({ id }) => id));
      assert.ok(before.length > 0 && before.every((id) => ids.has(id)), "what had ended is in it");
      for (const { id, last_seq: lastEvent, last_message: lastMessage } of sessions) {
        const numbers = (rows: readonly { readonly session_id: string; readonly seq: number }[]) =>
          rows.filter((row) => row.session_id === id).map(({ seq }) => seq);
        assert.equal(Math.max(0, ...numbers(events)), lastEvent, `the events of ${id}`);
        assert.equal(Math.max(0, ...numbers(messages)), lastMessage, `the messages of ${id}`);
      }
      const known = new Set(sessions.map(({ id }) => id));
      for (const row of [...runs, ...messages, ...events]) assert.ok(known.has(row.session_id));
    } finally {
      await store.close();
    }
  },
);

test("with secrets a backup is whole, which a server without keys refuses", async () => {
  await using service = await startTestService({});
  await writeHome(service);
  await using backup = await download(service, { secrets: true });
  assert.deepEqual([backup.manifest.secrets, backup.manifest.omitted], [true, []]);
  assert.match(await readFile(join(backup.home, ".env"), "utf8"), /very-secret/);
  await using open = await startTestService({ requireKey: false });
  await writeHome(open);
  await assertError(await post(open, "/v1/backup", { secrets: true }), 403, "auth_required");
});

scenario("createBackup", 400, { title: "an unknown field" }, async (service) => {
  const refused = await post(service, "/v1/backup", { include: ["all"] });
  assert.equal((await assertError(refused, 400, "invalid_request")).param, "include");
});

test("only the scope admin reads the log, drains the server and downloads backups", async () => {
  const scopes = ["chat", "runs", "approvals", "sessions", "jobs", "webhooks", "messages", "read"];
  await using service = await startTestService({ keys: [{ key: KEY, name: "all", scopes }] });
  for (const response of [
    await service.request(LOGS),
    await post(service, "/v1/service/drain", {}),
    await post(service, "/v1/backup", {}),
  ])
    await assertError(response, 403, "insufficient_scope");
});
