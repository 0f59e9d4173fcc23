/** Scheduled jobs: list, read, create, change and delete them. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FeedEvent, Job, Occurrence } from "../../../generated/http/client/types.gen.ts";
import { completedJob, createJob, list, occurrenceThat, patch, storedEvents } from "../../harness/control.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const OTHER = "another-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const twoKeys = [
  { key: KEY, name: "laptop", owner: "ci", scopes: ["jobs", "read"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
const HOUR_MS = 3_600_000;

const read = async (service: TestService, id: string): Promise<Job> =>
  (await service.request(`/v1/jobs/${id}`)).json();
const remove = (service: TestService, path: string, headers: Record<string, string> = {}) =>
  service.request(path, { method: "DELETE", headers });
const ids = (jobs: readonly Job[]) => jobs.map(({ id }) => id);
const feedOf = (service: TestService) => storedEvents<FeedEvent>(service, "?types=job.*,occurrence.*");

scenario(
  "listJobs",
  200,
  { title: "jobs are listed newest first, filtered and page by page", clock: new FakeClock() },
  async (service) => {
    const tea = await createJob(service, { name: "Green Tea" });
    const milk = await createJob(service, { name: "milk", paused: true, paused_reason: "holidays" });
    const rice = await createJob(service, { name: "rice 100%" });
    const all = new Set(ids([tea, milk, rice]));
    assert.deepEqual(new Set(ids(await list<Job>(service, "/v1/jobs?limit=1"))), all);
    const found = async (query: string) => ids(await list<Job>(service, `/v1/jobs?${query}`));
    assert.deepEqual(await found("name=green%20tea"), [tea.id]);
    assert.deepEqual(await found("q=TEA"), [tea.id]);
    assert.deepEqual(await found("q=0%25"), [rice.id], "a percent sign stands for itself");
    assert.deepEqual(await found(`q=${milk.id}`), [milk.id]);
    assert.deepEqual(await found("state=paused,error"), [milk.id]);
    assert.deepEqual(await found("last_status=ok"), []);
    const page = await service.request("/v1/jobs");
    assert.ok(page.headers.get("x-agent-event-cursor"));
    assert.equal(milk.paused_reason, "holidays");
    assert.deepEqual(milk.next_runs, [], "a paused job has no next times");
  },
);

scenario("listJobs", 400, { title: "a cursor of another list is 400 invalid_cursor" }, async (service) => {
  for (const cursor of ["occ_1", "12", "1-x"]) {
    const error = await assertError(await service.request(`/v1/jobs?after=${cursor}`), 400, "invalid_cursor");
    assert.equal(error.param, "after");
  }
  await assertError(await service.request("/v1/jobs?state=active"), 400, "unsupported_parameter");
});

scenario(
  "createJob",
  201,
  {
    title: "a dry-run create shows the five next instants in the job's zone and stores nothing",
    clock: new FakeClock(Date.UTC(2026, 0, 5, 12)),
  },
  async (service) => {
    const body = {
      schedule: "0 9 * * *",
      prompt: "make tea",
      time_zone: "Europe/Berlin",
      deliver: "telegram",
    };
    const key = { "idempotency-key": "k" };
    const response = await post(service, "/v1/jobs?dry_run=true", body, key);
    assert.equal(response.status, 201, await response.clone().text());
    assert.equal(response.headers.get("x-agent-dry-run"), "true");
    assert.equal(response.headers.get("location"), null);
    const planned = (await response.json()) as Job;
    assert.deepEqual(
      planned.next_runs?.map(({ wall_time: time }) => time),
      [6, 7, 8, 9, 10].map((day) => `2026-01-${String(day).padStart(2, "0")}T09:00:00+01:00`),
    );
    assert.match(planned.warnings?.join() ?? "", /telegram/i);
    assert.deepEqual(await list(service, "/v1/jobs"), []);
    assert.deepEqual(await feedOf(service), []);
    const real = await post(service, "/v1/jobs", body, key);
    assert.equal(real.headers.get("idempotency-replayed"), null, "a dry run does not consume its key");
    assert.equal(real.headers.get("location"), `/v1/jobs/${((await real.json()) as Job).id}`);
  },
);

scenario(
  "createJob",
  201,
  { title: "a repeated request with the same Idempotency-Key makes one job" },
  async (service) => {
    const make = () =>
      post(service, "/v1/jobs", { schedule: "daily", prompt: "tea" }, { "idempotency-key": "k" });
    const answers = await Promise.all([make(), make(), make()]);
    const jobs = (await Promise.all(answers.map((each) => each.json()))) as Job[];
    assert.equal(new Set(ids(jobs)).size, 1);
    const replayed = answers.filter(({ headers }) => headers.get("idempotency-replayed") === "true");
    assert.equal(replayed.length, 2);
    assert.equal((await list(service, "/v1/jobs")).length, 1);
  },
);

scenario("createJob", 409, { title: "the same Idempotency-Key with another body" }, async (service) => {
  const key = { "idempotency-key": "k" };
  await createJob(service, {}, key);
  const second = await post(service, "/v1/jobs", { schedule: "daily", prompt: "tea" }, key);
  await assertError(second, 409, "idempotency_key_conflict");
});

scenario(
  "createJob",
  400,
  {
    title: "an unknown job name in context_from is 400 with its param, and so is every other wrong field",
    keys: twoKeys,
  },
  async (service) => {
    const foreign = await createJob(service, { name: "theirs" }, other);
    for (const [field, value, code] of [
      ["schedule", "30m", "invalid_schedule"],
      ["schedule", "2020-01-01", "invalid_schedule"],
      ["schedule", "0 0 31 2 *", "invalid_schedule"],
      ["context_from", ["nobody"], "invalid_request"],
      ["context_from", ["theirs"], "invalid_request"],
      ["context_from", [foreign.id], "invalid_request"],
      ["time_zone", "Mars/Base", "invalid_request"],
      ["skills", ["absent"], "invalid_request"],
      ["script", "absent.sh", "invalid_request"],
      ["model", "nobody:big", "invalid_request"],
      ["deliver", "pigeon:1", "invalid_request"],
      ["overlap", "both", "invalid_request"],
      ["prompt", "", "invalid_request"],
      ["workdir", join(service.workspace, "absent"), "invalid_request"],
      ["promt", "x", "invalid_request"],
    ] as const) {
      const body = { schedule: "daily", prompt: "tea", [field]: value };
      const error = await assertError(await post(service, "/v1/jobs", body), 400, code);
      assert.equal(error.param, field, error.message);
    }
    const missing = await post(service, "/v1/jobs", { prompt: "tea" });
    await assertError(missing, 400, "missing_required_parameter");
    assert.deepEqual(await list(service, "/v1/jobs"), []);
  },
);

scenario(
  "createJob",
  403,
  { title: "a folder outside the workspace needs the scope admin", keys: twoKeys },
  async (service) => {
    const body = { schedule: "daily", prompt: "tea", workdir: "/" };
    assert.equal(
      (await assertError(await post(service, "/v1/jobs", body), 403, "insufficient_scope")).param,
      "workdir",
    );
    assert.equal((await post(service, "/v1/jobs", body, other)).status, 201);
    const inside = await createJob(service, { workdir: service.workspace });
    assert.equal(inside.workdir, service.workspace);
  },
);

scenario("getJob", 200, { title: "a job has all of its fields" }, async (service) => {
  await mkdir(join(service.home, "agentd", "scripts"), { recursive: true });
  await writeFile(join(service.home, "agentd", "scripts", "x.sh"), "echo hi", { mode: 0o700 });
  const other = await createJob(service, { name: "first" });
  const body = {
    schedule: "*/30 9-17 * * 1-5",
    prompt: "make tea",
    name: "tea",
    deliver: "local",
    failure_deliver: "local",
    script: "x.sh",
    no_agent: false,
    model: "demo:demo",
    reasoning_effort: "low",
    token_budget: 1_000,
    inactivity_seconds: 60,
    time_zone: "Europe/Berlin",
    catch_up: false,
    misfire_grace_seconds: 90,
    overlap: "allow",
    jitter_seconds: 5,
    toolsets: ["web"],
  };
  const { id } = await createJob(service, { ...body, repeat: 3, context_from: ["FIRST"] });
  const job = await read(service, id);
  assert.deepEqual({ ...job, ...body }, job);
  assert.deepEqual(job.repeat, { times: 3, completed: 0 });
  assert.deepEqual(job.context_from, [other.id]);
  assert.deepEqual([job.revision, job.owner, job.state], [1, "default", "scheduled"]);
  assert.equal(job.next_runs?.length, 3, "no more than are left");
});

scenario("getJob", 304, { title: "the etag is the revision, which runs do not change" }, async (service) => {
  const { id } = await createJob(service);
  const etag = (await service.request(`/v1/jobs/${id}`)).headers.get("etag") ?? "";
  const same = () => service.request(`/v1/jobs/${id}`, { headers: { "if-none-match": etag } });
  assert.equal((await same()).status, 304);
  const run = await (await post(service, `/v1/jobs/${id}/run?wait=30`, undefined)).json();
  assert.equal(run.occurrence.status, "ok");
  assert.equal((await same()).status, 304);
  await patch(service, `/v1/jobs/${id}`, { name: "new" });
  assert.equal((await same()).status, 200);
});

scenario("getJob", 400, { title: "an unknown query parameter" }, async (service) => {
  await assertError(await service.request("/v1/jobs/x?a=1"), 400, "unsupported_parameter");
});

for (const [operation, method, verb] of [
  ["getJob", "GET", ""],
  ["updateJob", "PATCH", ""],
  ["deleteJob", "DELETE", ""],
  ["pauseJob", "POST", "/pause"],
  ["resumeJob", "POST", "/resume"],
  ["runJob", "POST", "/run"],
  ["listJobTimes", "GET", "/times"],
] as const) {
  const what = {
    title: "an unknown job, another owner's and a name look the same",
    keys: twoKeys.map((key) => ({ ...key, scopes: ["admin"] })),
  };
  const run = async (service: TestService) => {
    const foreign = await createJob(service, {}, other);
    await createJob(service, { name: "tea" });
    for (const name of ["000000000000", foreign.id, "tea"]) {
      const path = `/v1/jobs/${name}${verb}`;
      const response = await (method === "PATCH"
        ? patch(service, path, {})
        : service.request(path, { method }));
      await assertError(response, 404, "job_not_found");
    }
    assert.equal((await list(service, "/v1/jobs", other)).length, 1);
  };
  if (operation === "getJob") scenario("getJob", 404, what, run);
  if (operation === "updateJob") scenario("updateJob", 404, what, run);
  if (operation === "deleteJob") scenario("deleteJob", 404, what, run);
  if (operation === "pauseJob") scenario("pauseJob", 404, what, run);
  if (operation === "resumeJob") scenario("resumeJob", 404, what, run);
  if (operation === "runJob") scenario("runJob", 404, what, run);
  if (operation === "listJobTimes") scenario("listJobTimes", 404, what, run);
}

scenario("updateJob", 200, { title: "null in a merge patch restores the default" }, async (service) => {
  const { id } = await createJob(service, { name: "tea", repeat: 3, token_budget: 5, overlap: "allow" });
  const nothing = { name: null, repeat: null, token_budget: null, overlap: null };
  const job = (await (await patch(service, `/v1/jobs/${id}`, nothing)).json()) as Job;
  assert.deepEqual(
    [job.name, job.repeat.times, job.token_budget, job.overlap, job.prompt, job.revision],
    ["make tea", null, null, "skip", "make tea", 2],
  );
  const dry = await patch(service, `/v1/jobs/${id}?dry_run=true`, { schedule: "daily", paused: true });
  const planned = (await dry.json()) as Job;
  assert.deepEqual([planned.schedule, planned.state, planned.revision], ["@daily", "paused", 3]);
  assert.deepEqual([(await read(service, id)).revision, dry.headers.get("x-agent-dry-run")], [2, "true"]);
  const same = await patch(service, `/v1/jobs/${id}`, {});
  assert.equal(same.headers.get("etag"), '"2"', "a patch that changes nothing is not a new revision");
  const paused = { paused: true, paused_reason: "holidays", name: "rest" };
  const both = (await (await patch(service, `/v1/jobs/${id}`, paused)).json()) as Job;
  assert.deepEqual(
    [both.state, both.paused_reason, both.name, both.revision],
    ["paused", "holidays", "rest", 3],
  );
  const resumed = (await (await patch(service, `/v1/jobs/${id}`, { paused: null })).json()) as Job;
  assert.deepEqual([resumed.state, resumed.paused_reason], ["scheduled", null]);
});

const stopping = new FakeClock();
const [begun, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
scenario(
  "updateJob",
  200,
  {
    title: "a PATCH of the schedule during a run does not end the run",
    script: async ({ signal }) => {
      begun.resolve();
      signal.addEventListener("abort", () => finish.resolve(), { once: true });
      await finish.promise;
      return { text: "done" };
    },
    clock: stopping,
  },
  async (service) => {
    const job = await createJob(service);
    stopping.tick(HOUR_MS);
    const isRunning = (each: Occurrence) => each.run_id !== null && each.status === "running";
    const { id } = await occurrenceThat(service, isRunning, { clock: stopping });
    await begun.promise;
    const changed = (await (
      await patch(service, `/v1/jobs/${job.id}`, { schedule: "every 2h" })
    ).json()) as Job;
    assert.equal(changed.next_run_at, (stopping.now() + 2 * HOUR_MS) / 1000);
    finish.resolve();
    const ended = await occurrenceThat(service, undefined, { clock: stopping });
    assert.deepEqual([ended.id, ended.status], [id, "ok"]);
    assert.equal((await read(service, job.id)).next_run_at, changed.next_run_at);
  },
);

scenario(
  "updateJob",
  400,
  { title: "an unknown field, and a schedule that never occurs" },
  async (service) => {
    const { id } = await createJob(service);
    for (const [field, value, code] of [
      ["promt", "x", "invalid_request"],
      ["schedule", "0 0 31 2 *", "invalid_schedule"],
      ["context_from", ["nobody"], "invalid_request"],
      ["time_zone", "Mars/Base", "invalid_request"],
    ] as const) {
      const response = await patch(service, `/v1/jobs/${id}`, { [field]: value });
      assert.equal((await assertError(response, 400, code)).param, field);
    }
    assert.equal((await read(service, id)).revision, 1);
  },
);

scenario("updateJob", 409, { title: "a job that is over cannot be paused" }, async (service) => {
  const { id } = await completedJob(service);
  await assertError(await patch(service, `/v1/jobs/${id}`, { paused: true }), 409, "job_over");
});

scenario("updateJob", 412, { title: "of several changes of one revision one succeeds" }, async (service) => {
  const { id } = await createJob(service);
  const names = ["one", "two", "three", "four"];
  const answers = await Promise.all(
    names.map((name) => patch(service, `/v1/jobs/${id}`, { name }, { "if-match": '"1"' })),
  );
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 412, 412, 412]);
  for (const stale of answers.filter(({ status }) => status === 412)) {
    const error = await assertError(stale, 412, "precondition_failed");
    assert.deepEqual((error as { details?: object }).details, { etag: '"2"' });
  }
});

scenario("deleteJob", 200, { title: "a job is deleted with its history and outputs" }, async (service) => {
  const kept = await createJob(service, { name: "kept" });
  const job = await createJob(service);
  for (const { id } of [kept, job]) await post(service, `/v1/jobs/${id}/run?wait=30`, undefined);
  const outputs = await list<{ id: string; job_id: string }>(service, "/v1/occurrences");
  for (const { id } of outputs) {
    while ((await service.request(`/v1/occurrences/${id}/output`)).status !== 200);
  }
  assert.deepEqual(await (await remove(service, `/v1/jobs/${job.id}`)).json(), {
    id: job.id,
    object: "agent.job",
    deleted: true,
  });
  await remove(service, `/v1/jobs/${kept.id}?keep_outputs=true`);
  assert.deepEqual(
    (await feedOf(service)).filter(({ type }) => type === "job.deleted").map(({ data }) => data.id),
    [job.id, kept.id],
  );
  assert.deepEqual(await list(service, "/v1/jobs"), []);
  assert.deepEqual(await list(service, "/v1/occurrences"), []);
  await assertError(await remove(service, `/v1/jobs/${job.id}`), 404, "job_not_found");
  const { readdir } = await import("node:fs/promises");
  assert.deepEqual(await readdir(join(service.home, "agentd", "cron", "output")), [kept.id]);
});

scenario(
  "deleteJob",
  200,
  {
    title: "a deletion with stop ends the active run, and one without lets it go on",
    script: async ({ signal }) => {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      return { text: "stopped" };
    },
  },
  async (service) => {
    const [quiet, loud] = [await createJob(service), await createJob(service)];
    for (const { id } of [quiet, loud]) await post(service, `/v1/jobs/${id}/run`, undefined);
    const runOf = async ({ id }: Job) =>
      (await occurrenceThat(service, (each) => each.job_id === id && each.run_id !== null)).run_id;
    const [going, stopped] = [await runOf(quiet), await runOf(loud)];
    await remove(service, `/v1/jobs/${loud.id}?stop=true`);
    await remove(service, `/v1/jobs/${quiet.id}`);
    const statusOf = async (id: string | null) =>
      (await (await service.request(`/v1/runs/${id}`)).json()).status as string;
    assert.equal(await statusOf(stopped), "cancelled");
    assert.equal(await statusOf(going), "running");
  },
);

scenario("deleteJob", 400, { title: "an unknown query parameter" }, async (service) => {
  await assertError(await remove(service, "/v1/jobs/x?force=true"), 400, "unsupported_parameter");
});

scenario("deleteJob", 412, { title: "a stale If-Match deletes nothing" }, async (service) => {
  const { id } = await createJob(service);
  await assertError(
    await remove(service, `/v1/jobs/${id}`, { "if-match": '"7"' }),
    412,
    "precondition_failed",
  );
  assert.equal((await read(service, id)).id, id);
});
