/** Runs of scheduled jobs, their occurrences and outputs, and whose they are. */
import assert from "node:assert/strict";
import type {
  FeedEvent,
  JobRun,
  Occurrence,
  Run,
  Scheduler,
} from "../../../generated/http/client/types.gen.ts";
import { createJob, list, occurrenceThat } from "../../harness/control.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const OTHER = "another-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const twoKeys = [
  { key: KEY, name: "laptop", owner: "ci", scopes: ["jobs", "read"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
const HOUR_MS = 3_600_000;
const noScheduler = { cron: { enabled: false } };

const run = (service: TestService, id: string, query = "", headers: Record<string, string> = {}) =>
  post(service, `/v1/jobs/${id}/run${query}`, undefined, headers);
const feedOf = (service: TestService, headers: Record<string, string> = {}) =>
  list<FeedEvent>(service, "/v1/events", { accept: "application/json", ...headers });

/** A model that never answers. */
const hanging = async ({ signal }: { readonly signal: AbortSignal }) => {
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  return { text: "stopped" };
};

scenario(
  "runJob",
  202,
  { title: "run answers with the occurrence it will be and wait returns its outcome" },
  async (service) => {
    const { id } = await createJob(service);
    const key = { "idempotency-key": "k" };
    const first = (await (await run(service, id, "", key)).json()) as JobRun;
    assert.equal(first.job.run_requested_at === null, first.occurrence !== null);
    const response = await run(service, id, "?wait=30", key);
    assert.equal(response.headers.get("idempotency-replayed"), "true");
    const { occurrence, scheduled_at: at } = (await response.json()) as JobRun;
    assert.equal(at, first.scheduled_at);
    assert.ok(occurrence);
    assert.deepEqual(
      [occurrence.scheduled_at, occurrence.cause, occurrence.status, occurrence.job_id],
      [at, "manual", "ok", id],
    );
    assert.equal((await list(service, "/v1/occurrences")).length, 1);
  },
);

scenario(
  "runJob",
  202,
  {
    title: "two run requests before the claim, on two replicas, are one occurrence",
    config: noScheduler,
  },
  async (service) => {
    const { id } = await createJob(service);
    const idle = await startTestService({ like: service, config: noScheduler });
    const answers = await Promise.all([run(service, id), run(idle, id)]);
    await idle.service.stop({ graceMs: 0 });
    const requests = await Promise.all(answers.map(async (each) => (await each.json()) as JobRun));
    const [{ scheduled_at: at } = assert.fail()] = requests;
    for (const { scheduled_at: each, occurrence, job } of requests) {
      assert.deepEqual([each, occurrence, job.run_requested_at], [at, null, at]);
      assert.match(job.warnings?.join() ?? "", /No scheduler is running/);
    }
    const replica = await startTestService({ like: service });
    try {
      const [here, there] = await Promise.all([run(service, id, "?wait=30"), run(replica, id, "?wait=30")]);
      // The second one comes too late when the first has been claimed by then.
      assert.ok(here.status === 202 || there.status === 202, `${here.status}, ${there.status}`);
      for (const late of [here, there]) if (late.status !== 202) await assertError(late, 409, "job_busy");
      const ended = await occurrenceThat(service);
      const all = await list<Occurrence>(service, "/v1/occurrences");
      assert.ok(all.filter(({ scheduled_at: each }) => each === at).length === 1, "the first two are one");
      assert.equal(ended.cause, "manual");
    } finally {
      await replica.service.stop({ graceMs: 0 });
    }
  },
);

scenario(
  "runJob",
  409,
  { title: "a running job that must not overlap is 409 job_busy", script: hanging },
  async (service) => {
    const { id } = await createJob(service);
    await run(service, id);
    await occurrenceThat(service, ({ run_id: started }) => started !== null);
    await assertError(await run(service, id), 409, "job_busy");
    await assertError(await post(service, `/v1/jobs/${id}/resume`, { run_now: true }), 409, "job_busy");
    const waited = (await (await run(service, (await createJob(service)).id, "?wait=0.2")).json()) as JobRun;
    assert.equal(waited.occurrence?.ended_at ?? null, null, "the wait ends before the run");
  },
);

scenario(
  "listOccurrences",
  200,
  { title: "occurrences are filtered by job, status, cause, delivery and time, with their messages" },
  async (service) => {
    const { id } = await createJob(service, { name: "tea" });
    const second = await createJob(service, { deliver: "log" });
    for (const each of [id, id, second.id]) await run(service, each, "?wait=30");
    const found = async (query: string) =>
      (await list<Occurrence>(service, `/v1/occurrences?${query}`)).map((each) => each.job_id);
    assert.deepEqual(await found("limit=1"), [second.id, id, id]);
    assert.deepEqual(await found(`job_id=${id}`), [id, id]);
    assert.deepEqual(await found("status=failed,missed"), []);
    assert.deepEqual(await found("cause=manual&timing=on_time&status=ok"), [second.id, id, id]);
    assert.deepEqual(await found("delivery_status=none"), [id, id]);
    const [newest] = await list<Occurrence>(service, "/v1/occurrences?include=messages");
    assert.ok(newest);
    assert.equal(newest.messages?.[0]?.target, "log");
    assert.equal(newest.messages?.length, 1);
    const at = newest.scheduled_at;
    assert.deepEqual(await found(`from=${at}`), [second.id]);
    assert.deepEqual(await found(`to=${at}`), [id, id]);
    const page = await service.request("/v1/occurrences");
    assert.ok(page.headers.get("x-agent-event-cursor"));
    assert.equal((await page.json()).data[0].messages, null);
  },
);

scenario("listOccurrences", 400, { title: "a cursor of another list" }, async (service) => {
  await assertError(await service.request("/v1/occurrences?after=1-x"), 400, "invalid_cursor");
  await assertError(await service.request("/v1/occurrences?status=done"), 400, "unsupported_parameter");
});

scenario(
  "getOccurrence",
  200,
  { title: "each change of an occurrence is one event, and a tick that only moves a job on is none" },
  async (service) => {
    const { id } = await createJob(service, { deliver: "log" });
    const { occurrence } = (await (await run(service, id, "?wait=30")).json()) as JobRun;
    assert.ok(occurrence);
    const read = async () =>
      (await (
        await service.request(`/v1/occurrences/${occurrence.id}?include=messages`)
      ).json()) as Occurrence;
    let now = await read();
    while (now.delivery_status !== "delivered") now = await read();
    assert.equal(now.messages?.[0]?.status, "delivered");
    const events = (await feedOf(service)).filter(({ type }) => /^(?:job|occurrence)/.test(type));
    assert.deepEqual(
      events.map(({ type, data }) => [
        type,
        data["status"] ?? data["state"],
        data["delivery_status"] ?? null,
      ]),
      [
        ["job.created", "scheduled", null],
        ["job.updated", "scheduled", null],
        ["occurrence.created", "claimed", null],
        ["occurrence.updated", "running", null],
        ["occurrence.updated", "ok", "pending"],
        ["occurrence.updated", "ok", "delivered"],
      ],
    );
    assert.deepEqual(events[2]?.data, {
      object: "agent.occurrence",
      id: occurrence.id,
      job_id: id,
      scheduled_at: occurrence.scheduled_at,
      status: "claimed",
      delivery_status: null,
    });
    assert.doesNotMatch(JSON.stringify(events), /\btea\b/);
  },
);

scenario(
  "getOccurrenceOutput",
  200,
  {
    title: "the output of a run is Markdown without secrets",
    script: () => ({ text: "hello sk-ant-api03-abcdefghijklmnopqrstuvwxyz" }),
  },
  async (service) => {
    const { id } = await createJob(service);
    const { occurrence } = (await (await run(service, id, "?wait=30")).json()) as JobRun;
    assert.equal(occurrence?.has_output, true);
    const read = () => service.request(`/v1/occurrences/${occurrence.id}/output`);
    let response = await read();
    while (response.status === 404) response = await read();
    assert.equal(response.headers.get("content-type"), "text/markdown; charset=utf-8");
    const text = await response.text();
    assert.match(text, /^# Cron Job: make tea\n[\s\S]*hello/);
    assert.doesNotMatch(text, /abcdefghijklmnopqrstuvwxyz/);
  },
);

for (const operation of ["getOccurrence", "getOccurrenceOutput"] as const) {
  const path = operation === "getOccurrence" ? "" : "/output";
  const gone = async (service: TestService) => {
    const { id } = await createJob(service, {}, other);
    await run(service, id, "?wait=30", other);
    const { id: foreign } = await occurrenceThat(service, undefined, { headers: other });
    for (const each of ["occ_none", foreign]) {
      const response = await service.request(`/v1/occurrences/${each}${path}`);
      await assertError(response, 404, "occurrence_not_found");
    }
  };
  const wrong = async (service: TestService) => {
    await assertError(await service.request(`/v1/occurrences/x${path}?a=1`), 400, "unsupported_parameter");
  };
  const title = "an unknown occurrence and another owner's look the same";
  if (operation === "getOccurrence") {
    scenario("getOccurrence", 404, { title, keys: twoKeys }, gone);
    scenario("getOccurrence", 400, { title: "an unknown parameter" }, wrong);
  } else {
    scenario("getOccurrenceOutput", 404, { title, keys: twoKeys }, gone);
    scenario("getOccurrenceOutput", 400, { title: "an unknown parameter" }, wrong);
  }
}

scenario(
  "createJob",
  201,
  {
    title: "a job made by owner ci runs, spends and delivers as ci",
    keys: twoKeys,
    config: { agent: { day_token_budget: 1_000_000 } },
  },
  async (service) => {
    const job = await createJob(service, { deliver: "log" });
    assert.equal(job.owner, "ci");
    const { occurrence } = (await (await run(service, job.id, "?wait=30")).json()) as JobRun;
    assert.equal(occurrence?.owner, "ci");
    const { store } = service.service;
    const row = await store.find("runs", { id: occurrence.run_id ?? "" });
    assert.equal(row?.owner, "ci");
    const shown = (await (await service.request(`/v1/runs/${row?.id}`)).json()) as Run;
    assert.deepEqual([shown.occurrence_id, shown.delivery_id, shown.source], [occurrence.id, null, "cron"]);
    const messages = await store.read.selectFrom("outbox").select(["owner", "ref", "target"]).execute();
    assert.deepEqual(
      messages.toSorted((a, b) => a.target.localeCompare(b.target)),
      ["cron_output", "log"].map((target) => ({ owner: "ci", ref: occurrence.id, target })),
    );
    const spending = await store.read.selectFrom("spending").select("owner").execute();
    assert.deepEqual(new Set(spending.map(({ owner }) => owner)), new Set(["ci"]));
    assert.deepEqual(new Set((await feedOf(service)).map(({ owner }) => owner)), new Set(["ci"]));
    assert.deepEqual(await list(service, "/v1/jobs", other), []);
    assert.deepEqual(await list(service, "/v1/occurrences", other), []);
    assert.equal((await list(service, "/v1/jobs", { ...other, "x-agent-owner": "*" })).length, 1);
  },
);

const clock = new FakeClock();
scenario(
  "getScheduler",
  200,
  {
    title: "the status of the scheduler names the late and failing jobs of the owner only",
    keys: twoKeys,
    clock,
    config: noScheduler,
  },
  async (service) => {
    const status = async (headers = {}) =>
      (await (await service.request("/v1/scheduler", { headers })).json()) as Scheduler;
    const mine = await createJob(service, { name: "mine" });
    await createJob(service, { name: "theirs" }, other);
    const before = await status();
    assert.deepEqual(
      [before.enabled, before.state, before.next?.id, before.late.count],
      [false, "none", mine.id, 0],
    );
    clock.tick(2 * HOUR_MS);
    await service.service.store.write((tx) =>
      tx.update("cron_jobs", { id: mine.id }, { last_status: "error" }),
    );
    const now = await status();
    assert.deepEqual(now.late.jobs, [{ id: mine.id, name: "mine", due_at: mine.next_run_at }]);
    assert.deepEqual(now.failing, { count: 1, jobs: [{ id: mine.id, name: "mine", last_status: "error" }] });
    assert.equal(now.jobs["all"], 1);
    assert.equal((await status({ ...other, "x-agent-owner": "*" })).jobs["all"], 2);
  },
);

scenario("getScheduler", 400, { title: "an unknown parameter" }, async (service) => {
  await assertError(await service.request("/v1/scheduler?a=1"), 400, "unsupported_parameter");
});
