/** Which runs a list has. */
import assert from "node:assert/strict";
import type { Run } from "../../../generated/http/client/types.gen.ts";
import { list } from "../../harness/control.ts";
import { fetchRun, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const OTHER = "another-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", owner: "a", scopes: ["chat", "runs", "read"] },
];

async function ids(service: TestService, query: string, headers = {}): Promise<readonly string[]> {
  return (await list<Run>(service, `/v1/runs${query}`, headers)).map(({ id }) => id);
}

scenario(
  "listRuns",
  200,
  { title: "filters by kind, key, model, text and time combine", keys: twoKeys },
  async (service) => {
    const first = await startRun(service, { input: "Deploy 100% of the_site" });
    await fetchRun(service, first.id, 30);
    const second = await startRun(service, { input: "deploy the docs" }, other);
    await fetchRun(service, second.id, 30);
    const chat = await service.chat({ messages: [{ role: "user", content: "hello" }] });
    await chat.text();
    const third = chat.headers.get("x-agent-run-id") ?? "";
    const all = [third, second.id, first.id];
    const { created_at: createdAt, model } = await fetchRun(service, second.id);
    const times = new Map((await list<Run>(service, "/v1/runs")).map((run) => [run.id, run.created_at]));
    const since = all.filter((id) => (times.get(id) ?? 0) >= createdAt);
    const before = all.filter((id) => !since.includes(id));
    for (const [query, expected] of [
      ["", all],
      ["?kind=chat", [third]],
      ["?kind=run,response", [second.id, first.id]],
      ["?key=b", [second.id]],
      ["?key=a,b&status=completed,failed", all],
      ["?key=nobody", []],
      [`?model=${model}`, all],
      ["?model=other:model", []],
      ["?q=DEPLOY", [second.id, first.id]],
      ["?q=100%25", [first.id]],
      ["?q=_", [first.id]],
      [`?q=${second.id}`, [second.id]],
      ["?q=deploy&key=a", [first.id]],
      ["?source=http", all],
      ["?status=failed", []],
      ["?status=queued,running", []],
      ["?parent_id=run_x", []],
      [`?from=${createdAt}`, since],
      [`?to=${createdAt}`, before],
      [`?from=${createdAt}&to=${createdAt}`, []],
      [`?from=${new Date(createdAt * 1000).toISOString()}&kind=chat`, [third]],
    ] as const) {
      assert.deepEqual(await ids(service, query), expected, query);
    }
    assert.deepEqual(await ids(service, `?kind=run&limit=1&after=${second.id}`), [first.id]);
  },
);

scenario(
  "listRuns",
  200,
  {
    title: "an administrator lists the runs of all owners, or of one",
    keys: [...twoKeys, { key: `${OTHER}c`, name: "c", scopes: ["runs"] }],
  },
  async (service) => {
    const mine = await startRun(service);
    const theirs = await startRun(service, {}, { authorization: `Bearer ${OTHER}c` });
    assert.deepEqual(await ids(service, ""), [mine.id]);
    assert.deepEqual(await ids(service, "", { "x-agent-owner": "c" }), [theirs.id]);
    const everyone = await list<Run>(service, "/v1/runs", { "x-agent-owner": "*" });
    assert.deepEqual(
      everyone.map(({ id, owner, key }) => [id, owner, key]),
      [
        [theirs.id, "c", "c"],
        [mine.id, "a", "a"],
      ],
    );
    const next = await ids(service, `?after=${theirs.id}`, { "x-agent-owner": "*" });
    assert.deepEqual(next, [mine.id]);
    const response = await service.request("/v1/runs?session_id=s", { headers: { "x-agent-owner": "*" } });
    await assertError(response, 400, "invalid_request");
  },
);
