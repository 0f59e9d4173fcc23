import assert from "node:assert/strict";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createGate, fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";

const hi = { messages: [{ role: "user", content: "hi" }] };
const OTHER = "another-key-0123456789";
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
const stopped = new WatchedClock();
const late = createGate();

async function chatRun(service: TestService): Promise<string> {
  const response = await service.chat(hi);
  await response.text();
  return response.headers.get("x-agent-run-id")!;
}

scenario("getRun", 200, { title: "returns the status and the result of a run" }, async (service) => {
  const id = await chatRun(service);
  const run = await (await service.request(`/v1/runs/${id}`)).json();
  assert.equal(run.status, "completed");
  assert.equal(run.output, "hello");
  assert.equal(run.input_preview, "hi");
  assert.equal(run.kind, "chat");
  assert.equal(run.last_event, "run.completed");
  assert.equal(run.usage.model_calls, 1);
  assert.ok(run.ended_at >= run.started_at && run.started_at >= run.created_at);
});

scenario(
  "getRun",
  404,
  { title: "an unknown run and another owner's look the same", keys: twoKeys },
  async (service) => {
    const id = await chatRun(service);
    await assertError(await service.request("/v1/runs/run_nope"), 404, "run_not_found");
    const foreign = await service.request(`/v1/runs/${id}`, {
      headers: { authorization: `Bearer ${OTHER}` },
    });
    await assertError(foreign, 404, "run_not_found");
  },
);

scenario("getRun", 400, { title: "a wait that is too long" }, async (service) => {
  const { run_id: id } = await startRun(service);
  for (const wait of ["61", "-1", "soon"]) {
    const error = await assertError(
      await service.request(`/v1/runs/${id}?wait=${wait}`),
      400,
      "invalid_request",
    );
    assert.equal(error.param, "wait");
  }
});

const held = createGate();
scenario(
  "getRun",
  200,
  { title: "wait answers as soon as the run has ended", script: held.script },
  async (service) => {
    const { run_id: id } = await startRun(service);
    const waiting = Promise.all([1, 2, 3].map(() => fetchRun(service, id, 60)));
    await runEvent(service, id, "message.delta");
    held.open();
    for (const run of await waiting)
      assert.deepEqual([run.status, run.output], ["completed", "before after"]);
    assert.equal((await fetchRun(service, id, 60)).status, "completed", "at once");
  },
);

scenario(
  "getRun",
  200,
  { title: "wait answers when its time is over", script: late.script, clock: stopped },
  async (service) => {
    const { run_id: id } = await startRun(service);
    let isAnswered = false;
    const waiting = fetchRun(service, id, 17).finally(() => (isAnswered = true));
    await stopped.wait(17_000);
    stopped.tick(16_999);
    // Whoever asks later and does not wait has an answer.
    assert.equal((await fetchRun(service, id)).status, "running");
    assert.equal(isAnswered, false);
    stopped.tick(1);
    assert.equal((await waiting).status, "running");
    late.open();
    assert.equal((await fetchRun(service, id, 60)).status, "completed");
  },
);

scenario(
  "getRun",
  200,
  {
    title: "wait answers when the run asks a question, and for a queued one when its turn ends",
    script: callsOnce("rm -rf build"),
    tools: [testTool(async () => "ran")],
  },
  async (service) => {
    const first = await startRun(service, { session_id: "s" });
    const second = await startRun(service, { session_id: "s" });
    const later = fetchRun(service, second.run_id, 60);
    const run = await fetchRun(service, first.run_id, 60);
    assert.equal(run.status, "waiting_for_approval");
    assert.equal(run.approval?.command, "rm -rf build");
    await post(service, `/v1/runs/${first.run_id}/approval`, { choice: "once" });
    assert.equal((await later).status, "waiting_for_approval");
  },
);

async function list(service: TestService, query = "", headers: Record<string, string> = {}) {
  const response = await service.request(`/v1/runs${query}`, { headers });
  const body = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  assert.equal(body.object, "list");
  assert.equal(body.first_id, body.data.at(0)?.id ?? null);
  assert.equal(body.last_id, body.data.at(-1)?.id ?? null);
  return { ...body, ids: body.data.map((run: { id: string }) => run.id) };
}

const listing = createGate();
scenario(
  "listRuns",
  200,
  {
    title: "the caller's runs, newest first, by status and session, page by page",
    keys: twoKeys,
    script: (state) => (state.user === "hold" ? listing.script(state) : { text: "hello" }),
  },
  async (service) => {
    assert.deepEqual((await list(service)).ids, []);
    const ids: string[] = [];
    for (let i = 0; i < 6; i++) {
      const { run_id: id } = await startRun(service, {
        input: `run ${i}`,
        session_id: i % 2 ? "odd" : "even",
      });
      await fetchRun(service, id, 30);
      ids.unshift(id);
    }
    const work = await startRun(service, { input: "hold", session_id: "odd" });
    const queued = await startRun(service, { input: "hold", session_id: "odd" });
    ids.unshift(queued.run_id, work.run_id);
    const all = await list(service);
    assert.deepEqual(all.ids, ids);
    assert.equal(all.has_more, false);
    assert.equal(all.data.at(-1).input_preview, "run 0");
    assert.equal(all.data.at(-1).session_key, null);
    for (const [run, id] of all.data.map((run: unknown, i: number) => [run, ids[i]])) {
      if (id !== work.run_id) assert.deepEqual(run, await fetchRun(service, id), "as GET shows it");
    }
    assert.deepEqual((await list(service, "?status=completed")).ids, ids.slice(2));
    assert.deepEqual((await list(service, "?status=queued")).ids, [queued.run_id]);
    assert.deepEqual((await list(service, "?status=running")).ids, [work.run_id]);
    assert.deepEqual((await list(service, "?status=failed")).ids, []);
    assert.deepEqual(
      (await list(service, "?session_id=even")).ids,
      [3, 5, 7].map((i) => ids[i]),
    );
    assert.deepEqual(
      (await list(service, "?session_id=odd&status=completed")).ids,
      [2, 4, 6].map((i) => ids[i]),
    );
    for (const query of ["", "&status=completed", "&session_id=odd"]) {
      const expected = (await list(service, `?limit=100${query}`)).ids;
      const pages = [];
      let page = await list(service, `?limit=3${query}`);
      for (; page.has_more; page = await list(service, `?limit=3&after=${page.last_id}${query}`))
        pages.push(...page.ids);
      assert.deepEqual([...pages, ...page.ids], expected, query);
    }
    const other = await list(service, "", { authorization: `Bearer ${OTHER}` });
    assert.deepEqual(other.ids, []);
  },
);

scenario(
  "listRuns",
  200,
  {
    title: "shows open questions, and only the start of a long prompt",
    script: callsOnce("rm -rf build"),
    tools: [testTool(async () => "ran")],
  },
  async (service) => {
    const { run_id: id } = await startRun(service, { input: `${"𝄞".repeat(300)}` });
    await fetchRun(service, id, 30);
    const { data } = await list(service);
    assert.equal(data[0].input_preview, "𝄞".repeat(200));
    assert.equal(data[0].approval.command, "rm -rf build");
  },
);

scenario("listRuns", 400, { title: "an invalid cursor, limit or status", keys: twoKeys }, async (service) => {
  const { run_id: id } = await startRun(service);
  const asked = await service.request("/v1/runs?after=run_nope");
  assert.equal((await assertError(asked, 400, "invalid_cursor")).param, "after");
  const foreign = { headers: { authorization: `Bearer ${OTHER}` } };
  await assertError(await service.request(`/v1/runs?after=${id}`, foreign), 400, "invalid_cursor");
  for (const query of ["limit=0", "limit=101", "limit=x", "from=soon"]) {
    await assertError(await service.request(`/v1/runs?${query}`), 400, "invalid_request");
  }
  for (const query of ["status=done", "kind=walk", "states=failed"]) {
    await assertError(await service.request(`/v1/runs?${query}`), 400, "unsupported_parameter");
  }
});

scenario(
  "listRuns",
  200,
  { title: "an unknown session, or another key's, has no runs", keys: twoKeys },
  async (service) => {
    await startRun(service, { session_id: "s" });
    assert.deepEqual((await list(service, "?session_id=nope")).ids, []);
    const foreign = await list(service, "?session_id=s", { authorization: `Bearer ${OTHER}` });
    assert.deepEqual(foreign.ids, []);
  },
);
