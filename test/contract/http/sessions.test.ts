import assert from "node:assert/strict";
import { allEvents, createGate, fetchRun, post, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService } from "../../harness/service.ts";

const shared = createGate();
scenario(
  "createRun",
  202,
  {
    title: "concurrent requests with one session key share one session, whatever the run limit",
    script: shared.script,
    config: { limits: { max_concurrent_runs: 1 } },
  },
  async (service) => {
    const key = { "x-agent-session-key": "room" };
    const responses = await Promise.all(
      Array.from({ length: 12 }, (_, i) => post(service, "/v1/runs", { input: String(i) }, key)),
    );
    const runs = await Promise.all(responses.map((response) => response.json()));
    assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([202]), JSON.stringify(runs));
    assert.equal(new Set(runs.map((run) => run.session_id)).size, 1);
    const queued = runs.filter(({ status }) => status === "queued");
    assert.equal(queued.length, 11);
    const another = await post(service, "/v1/runs", { input: "in another" });
    await assertError(another, 429, "too_many_concurrent_runs");
    shared.open();
    for (const { run_id: id } of runs) assert.equal((await fetchRun(service, id, 30)).status, "completed");
  },
);

scenario(
  "createRun",
  202,
  { title: "first requests for one new session, sent to two replicas at once, join that session" },
  async (service) => {
    await using replica = await startTestService({ like: service });
    const sent = Array.from({ length: 4 }, (_, index) =>
      startRun(index % 2 === 0 ? service : replica, { input: String(index), session_id: "room" }),
    );
    const runs = await Promise.all(sent);
    for (const { run_id: id } of runs) assert.equal((await fetchRun(service, id, 30)).status, "completed");
    const { data } = (await (await service.request("/v1/sessions")).json()) as { readonly data: unknown[] };
    assert.equal(data.length, 1);
  },
);

const steered = createGate();
scenario(
  "createRun",
  202,
  {
    title: "a request that steers joins the running run, and its repetition returns that run",
    script: steered.script,
    config: { sessions: { when_busy: "steer" } },
  },
  async (service) => {
    const first = await startRun(service, { input: "one", session_id: "s" });
    const headers = { "idempotency-key": "steer-1" };
    const second = await startRun(service, { input: "two", session_id: "s" }, headers);
    assert.deepEqual([second.run_id, second.replayed], [first.run_id, false]);
    const again = await startRun(service, { input: "two", session_id: "s" }, headers);
    assert.deepEqual([again.run_id, again.replayed], [first.run_id, true]);
    steered.open();
    const events = await allEvents(service, first.run_id);
    const taken = events.filter(({ event }) => event === "run.steer_accepted");
    assert.deepEqual(
      taken.map((event) => (event as { text?: string }).text),
      ["two"],
    );
  },
);

for (const [own, others] of [
  ["a", "b"],
  ["default", "b"],
  ["a", "default"],
] as const) {
  const keys = [
    { key: KEY, name: own, scopes: ["chat", "runs", "read"] },
    { key: "another-key-0123456789", name: others, scopes: ["chat", "runs", "read"] },
  ];
  scenario(
    "createChatCompletion",
    200,
    {
      title: `a session name of the key ${own} means another session for the key ${others}`,
      keys,
      script: ({ messages }) => ({ text: `${messages.length} messages` }),
    },
    async (service) => {
      const authorization = "Bearer another-key-0123456789";
      const mine = { "x-agent-session-id": "mine" };
      for (const [count, headers] of [
        ["1 messages", mine],
        ["1 messages", { ...mine, authorization }],
        ["3 messages", mine],
        ["3 messages", { ...mine, authorization }],
      ] as const) {
        const response = await service.chat({ messages: [{ role: "user", content: "hi" }] }, { headers });
        const body = await response.json();
        assert.equal(body.choices[0].message.content, count);
        assert.equal(response.headers.get("x-agent-session-id"), "mine");
        assert.equal(body.agent.session_id, "mine");
        const runId = response.headers.get("x-agent-run-id")!;
        const auth = "authorization" in headers ? { headers: { authorization } } : {};
        const run = await (await service.request(`/v1/runs/${runId}`, auth)).json();
        assert.equal(run.session_id, "mine");
        const events = await service.request(`/v1/runs/${runId}/events`, auth);
        assert.equal(events.headers.get("x-agent-session-id"), "mine");
        assert.doesNotMatch(await events.text(), /mine\.\./);
        const { data } = await (await service.request("/v1/runs?session_id=mine", auth)).json();
        assert.equal(data.length, count === "1 messages" ? 1 : 2);
        assert.equal(data[0].session_id, "mine");
      }
    },
  );
}

const formatted = createGate();
scenario(
  "createChatCompletion",
  200,
  {
    title: "a prompt with a response format does not steer a run: it has an answer of its own",
    script: (state) => (state.user === "work" ? formatted.script(state) : { text: '{"ok":true}' }),
    config: { sessions: { when_busy: "steer" } },
  },
  async (service) => {
    const key = { "x-agent-session-key": "room" };
    const work = await (await post(service, "/v1/runs", { input: "work" }, key)).json();
    await fetchRun(service, work.run_id);
    const asked = { messages: [{ role: "user", content: "and JSON" }] };
    const answering = service.chat({ ...asked, response_format: { type: "json_object" } }, { headers: key });
    const runs = async () => (await (await service.request("/v1/runs?status=queued")).json()).data;
    while ((await runs()).length === 0) await new Promise((resolve) => setImmediate(resolve));
    formatted.open();
    const { choices } = await (await answering).json();
    assert.equal(choices[0].message.content, '{"ok":true}');
  },
);
