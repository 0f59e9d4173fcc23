/** What HTTP tells of runs whose process is gone, before the next round of recovery. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openStore } from "../../../src/store/open.ts";
import { abandonSessions, type Abandoned } from "../../harness/abandoned.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const OWNER = "abandoner";

/** A service that is through with its own recovery, and a session that a process left since. */
async function withAbandoned(
  check: (service: TestService, abandoned: Abandoned) => Promise<void>,
): Promise<void> {
  await using service = await startTestService({ keys: [{ key: KEY, name: OWNER, scopes: ["admin"] }] });
  await service.service.agent.recovered;
  const store = await openStore({ url: service.database.url });
  try {
    const [one] = await abandonSessions(store, 1, OWNER);
    await check(service, one!);
    const events = await store.journal.read({ runId: one!.runId });
    assert.equal(events.at(-1)?.type, "run.interrupted");
    assert.equal(events.filter(({ type }) => type === "run.interrupted").length, 1);
  } finally {
    await store.close();
  }
}

const json = async (answer: Promise<Response>) => (await answer).json();

for (const { title, check } of [
  {
    title: "GET /v1/runs/{run_id} tells that a run whose process is gone was interrupted",
    check: async (service: TestService, { runId }: Abandoned) => {
      const run = await json(service.request(`/v1/runs/${runId}`));
      assert.deepEqual([run.status, run.error.code], ["interrupted", "interrupted"]);
    },
  },
  {
    title: "GET /v1/runs lists a run whose process is gone as interrupted, and none as running",
    check: async (service: TestService, { runId, sessionId }: Abandoned) => {
      const running = await json(service.request("/v1/runs?status=running"));
      assert.deepEqual(running.data, []);
      for (const query of ["", "?status=interrupted", `?session_id=${sessionId}`]) {
        const { data } = await json(service.request(`/v1/runs${query}`));
        assert.deepEqual(
          data.map(({ id, status }: { id: string; status: string }) => [id, status]),
          [[runId, "interrupted"]],
        );
      }
    },
  },
  {
    title: "GET /v1/runs/{run_id}/events of a run whose process is gone ends with run.interrupted",
    check: async (service: TestService, { runId }: Abandoned) => {
      const text = await (await service.request(`/v1/runs/${runId}/events`)).text();
      assert.match(text, /event: run\.interrupted\n/);
    },
  },
  {
    title: "POST /v1/runs/{run_id}/stop of a run whose process is gone tells that it is over",
    check: async (service: TestService, { runId }: Abandoned) => {
      const stopped = await json(service.request(`/v1/runs/${runId}/stop`, { method: "POST" }));
      assert.equal(stopped.status, "interrupted");
    },
  },
  {
    title: "POST /v1/runs/{run_id}/steer of a run whose process is gone is refused: it is over",
    check: async (service: TestService, { runId }: Abandoned) => {
      const steered = await service.request(`/v1/runs/${runId}/steer`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ text: "more" }),
      });
      assert.equal((await steered.json()).error.code, "run_not_active");
    },
  },
]) {
  test(title, () => withAbandoned(check));
}

test("GET /v1/responses/{response_id} reports a response as failed when its process is dead", async () => {
  await withAbandoned(async (service, { sessionId, runId }) => {
    const store = await openStore({ url: service.database.url });
    const answered = await service.request("/v1/responses", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ input: "hi" }),
    });
    const { id } = await answered.json();
    // As if it were the response of the run that was left.
    await store.write(async (tx) => {
      const set = { run_id: runId, session_id: sessionId };
      await tx.update("responses", { id }, set);
      await tx.update("runs", { id: runId }, { kind: "response" });
    });
    await store.close();
    const response = await json(service.request(`/v1/responses/${id}`));
    assert.equal(response.status, "failed");
  });
});
