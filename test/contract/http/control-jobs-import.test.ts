/** Importing the jobs of another service over the control API. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FeedEvent, Job, JobImport } from "../../../generated/http/client/types.gen.ts";
import { list, storedEvents } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const IMPORT = "/v1/jobs/import";
const JOBS_KEY = "jobs-key-0123456789abc";
const keys = [
  { key: KEY, name: "laptop", owner: "ann", scopes: ["admin"] },
  { key: JOBS_KEY, name: "jobs", owner: "ann", scopes: ["jobs", "read"] },
];
const tea = {
  id: "0123456789ab",
  name: "tea",
  schedule: { kind: "interval", minutes: 60 },
  prompt: "make tea",
};
const paused = { id: "ba9876543210", name: "walk", schedule: "0 8 * * *", prompt: "walk", enabled: false };

async function importAll(service: TestService, jobs: readonly unknown[], query = ""): Promise<JobImport> {
  const response = await post(service, IMPORT + query, { jobs, version: 3 });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as JobImport;
}

const outcomes = ({ jobs }: JobImport) => jobs.map(({ id, outcome }) => [id, outcome]);

scenario(
  "importJobs",
  200,
  { title: "each usable entry is a job under its id, and a second import adds nothing", keys },
  async (service) => {
    const broken = { id: "aaaaaaaaaaaa", name: "broken", schedule: "at noon or so", prompt: "x" };
    const over = { id: "bbbbbbbbbbbb", name: "over", schedule: "every 1h", prompt: "x", state: "completed" };
    const all = [tea, paused, broken, over, { name: "no schedule" }];
    const tried = await importAll(service, all, "?dry_run=true");
    assert.equal(tried.imported, 2);
    assert.deepEqual(await list(service, "/v1/jobs"), []);
    const done = await importAll(service, all);
    assert.deepEqual(outcomes(done), [
      [tea.id, "imported"],
      [paused.id, "imported"],
      [broken.id, "refused"],
      [over.id, "over"],
    ]);
    assert.deepEqual(outcomes(tried), outcomes(done));
    assert.ok(done.jobs[2]?.reason && done.problems.length === 1);
    const jobs = await list<Job>(service, "/v1/jobs");
    assert.deepEqual(jobs.map(({ id, owner, state }) => [id, owner, state]).toSorted(), [
      [tea.id, "ann", "scheduled"],
      [paused.id, "ann", "paused"],
    ]);
    assert.deepEqual(outcomes(await importAll(service, [tea, paused])), [
      [tea.id, "exists"],
      [paused.id, "exists"],
    ]);
    const events = await storedEvents<FeedEvent>(service, "?types=job.created");
    assert.deepEqual(
      events.map(({ actor, owner, data }) => [actor, owner, data.id]),
      [
        ["laptop", "ann", tea.id],
        ["laptop", "ann", paused.id],
      ],
    );
  },
);

scenario("importJobs", 400, { title: "more than 1,000 entries, and a body without any" }, async (service) => {
  const many = Array.from({ length: 1_001 }, () => tea);
  await assertError(await post(service, IMPORT, { jobs: many }), 400, "invalid_request");
  const none = await post(service, IMPORT, { name: "tea" });
  assert.equal((await assertError(none, 400, "missing_required_parameter")).param, "jobs");
  assert.deepEqual(await list(service, "/v1/jobs"), []);
});

scenario("importJobs", 409, { title: "an Idempotency-Key that another import used" }, async (service) => {
  const once = { "idempotency-key": "k" };
  const first = await (await post(service, IMPORT, { jobs: [tea] }, once)).json();
  const again = await post(service, IMPORT, { jobs: [tea] }, once);
  assert.equal(again.headers.get("idempotency-replayed"), "true");
  assert.deepEqual(await again.json(), first);
  await assertError(await post(service, IMPORT, { jobs: [paused] }, once), 409, "idempotency_key_conflict");
});

test("an import gives a key no folder that the key could not choose for a new job", async () => {
  await using service = await startTestService({ keys });
  const outside = { ...tea, workdir: "/" };
  const inside = { ...paused, workdir: service.workspace };
  const headers = { authorization: `Bearer ${JOBS_KEY}` };
  const done = (await (
    await post(service, IMPORT, { jobs: [outside, inside] }, headers)
  ).json()) as JobImport;
  assert.deepEqual(outcomes(done), [
    [tea.id, "refused"],
    [paused.id, "imported"],
  ]);
  assert.match(done.jobs[0]?.reason ?? "", /requires the scope "admin"/);
});
