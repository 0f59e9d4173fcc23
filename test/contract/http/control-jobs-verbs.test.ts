/** Pausing and resuming scheduled jobs, and what their verbs refuse. */
import assert from "node:assert/strict";
import type { FeedEvent, Job } from "../../../generated/http/client/types.gen.ts";
import { completedJob, createJob, list, storedEvents } from "../../harness/control.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import type { TestService } from "../../harness/service.ts";

scenario(
  "pauseJob",
  200,
  { title: "pause keeps the reason and resume computes the next instant", clock: new FakeClock() },
  async (service) => {
    const { id } = await createJob(service, { schedule: "0 9 * * *", time_zone: "UTC" });
    const key = { "idempotency-key": "k" };
    const pause = () => post(service, `/v1/jobs/${id}/pause`, { reason: "holidays" }, key);
    const paused = (await (await pause()).json()) as Job;
    assert.deepEqual([paused.state, paused.paused_reason, paused.next_runs], ["paused", "holidays", []]);
    const response = await post(service, `/v1/jobs/${id}/resume`, undefined);
    const resumed = (await response.json()) as Job;
    assert.deepEqual([resumed.state, resumed.paused_at, resumed.paused_reason], ["scheduled", null, null]);
    assert.equal(resumed.next_run_at, Date.UTC(2026, 0, 1, 9) / 1000);
    const replayed = await pause();
    assert.equal(replayed.headers.get("idempotency-replayed"), "true");
    assert.equal(((await replayed.json()) as Job).state, "scheduled", "the repeated request pauses nothing");
    const events = await storedEvents<FeedEvent>(service, "?types=job.*");
    assert.deepEqual(
      events.map(({ type, actor, data }) => [type, actor, data["state"], data["revision"]]),
      [
        ["job.created", "default", "scheduled", 1],
        ["job.updated", "default", "paused", 2],
        ["job.updated", "default", "scheduled", 3],
      ],
    );
  },
);

scenario(
  "resumeJob",
  200,
  { title: "a job resumes at a given time of its zone", clock: new FakeClock(Date.UTC(2026, 0, 5, 12)) },
  async (service) => {
    const { id } = await createJob(service, { time_zone: "Europe/Berlin", paused: true });
    const at = await post(service, `/v1/jobs/${id}/resume`, { at: "2026-01-06T09:00" });
    assert.equal(((await at.json()) as Job).next_run_at, Date.UTC(2026, 0, 6, 8) / 1000);
  },
);

for (const verb of ["pause", "resume", "run"] as const) {
  const over = async (service: TestService) => {
    const { id } = await completedJob(service);
    await assertError(await post(service, `/v1/jobs/${id}/${verb}`, undefined), 409, "job_over");
  };
  const stale = async (service: TestService) => {
    const { id } = await createJob(service);
    const response = await post(service, `/v1/jobs/${id}/${verb}`, undefined, { "if-match": '"9"' });
    await assertError(response, 412, "precondition_failed");
    assert.deepEqual(await list(service, "/v1/occurrences"), []);
  };
  const wrong = async (service: TestService) => {
    const { id } = await createJob(service);
    const bodies = verb === "pause" ? [{ why: "x" }] : [{ at: "every 1h" }, { at: "in 5m", run_now: true }];
    for (const body of verb === "run" ? [] : bodies) {
      assert.equal((await post(service, `/v1/jobs/${id}/${verb}`, body)).status, 400);
    }
    const query = await post(service, `/v1/jobs/${id}/${verb}?wait=61`, undefined);
    assert.equal(query.status, 400);
  };
  const titles = { over: "a job that is over", stale: "a stale If-Match", wrong: "a wrong parameter" };
  if (verb === "pause") {
    scenario("pauseJob", 409, { title: titles.over }, over);
    scenario("pauseJob", 412, { title: titles.stale }, stale);
    scenario("pauseJob", 400, { title: titles.wrong }, wrong);
  } else if (verb === "resume") {
    scenario("resumeJob", 409, { title: titles.over }, over);
    scenario("resumeJob", 412, { title: titles.stale }, stale);
    scenario("resumeJob", 400, { title: titles.wrong }, wrong);
  } else {
    scenario("runJob", 409, { title: titles.over }, over);
    scenario("runJob", 412, { title: titles.stale }, stale);
    scenario("runJob", 400, { title: titles.wrong }, wrong);
  }
}
