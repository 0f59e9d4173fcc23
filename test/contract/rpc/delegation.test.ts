import assert from "node:assert/strict";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import type { Json, RpcHost } from "../../harness/rpc.ts";
import { openSession, rpcScenario, takeTurn } from "./scenario.ts";

/** "go" delegates the goals; a sub-agent does what `child` says. */
function family(goals: readonly string[], child: Script, about: object = {}): Script {
  return (state) => {
    if (state.user !== "go") return child(state);
    if (state.step > 0) return { text: "over" };
    return {
      calls: [{ tool: "delegate_task", input: { tasks: goals.map((goal) => ({ goal, ...about })) } }],
    };
  };
}

const untilAborted: Script = ({ signal }) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve({ text: "" }), { once: true }));

const eventsOf = (host: RpcHost, type: string): Json[] =>
  host.events().flatMap((event) => (event.type === type ? [event.payload] : []));

/** Of a sub-agent that reasons, says something, calls a tool and answers. */
const ORDER = ["spawn_requested", "start", "thinking", "progress", "tool", "progress", "complete"].map(
  (name) => `subagent.${name}`,
);

rpcScenario(
  [
    "event subagent.spawn_requested",
    "event subagent.start",
    "event subagent.thinking",
    "event subagent.tool",
    "event subagent.progress",
    "event subagent.complete",
  ],
  {
    title: "a delegation is reported from the request to the end, in order, inside its tool",
    tools: [createDelegateTask()],
    script: family(
      ["dig", "fill"],
      ({ step, user }) =>
        step === 0
          ? {
              reasoning: `how to ${user}`,
              text: `I will ${user}`,
              calls: [{ tool: "probe", input: { command: "ls" } }],
            }
          : { text: `did ${user}` },
      { toolsets: ["terminal"] },
    ),
  },
  async (host) => {
    const session_id = await openSession(host);
    assert.equal((await takeTurn(host, session_id, "go")).text, "over");
    for (const [index, goal] of ["dig", "fill"].entries()) {
      const mine = host.events(session_id).filter(({ payload }) => payload.goal === goal);
      const types = mine.map(({ type }) => type);
      assert.deepEqual(types, ORDER);
      const [requested, start, thought, said, tool, , end] = mine.map(({ payload }) => payload);
      for (const each of mine) {
        assert.deepEqual(
          [each.payload.subagent_id, each.payload.task_index, each.payload.task_count, each.payload.depth],
          [requested.subagent_id, index, 2, 1],
        );
        assert.deepEqual(each.payload.toolsets, ["terminal"]);
        assert.ok(each.turn_id && each.seq > 0);
      }
      assert.deepEqual([requested.status, start.status, end.status], ["queued", "running", "completed"]);
      assert.ok(start.child_session_id && start.parent_id && start.model);
      assert.deepEqual([thought.text, said.text], [`how to ${goal}`, `I will ${goal}`]);
      assert.deepEqual([tool.tool_name, tool.tool_count], ["probe", 1]);
      assert.equal(end.summary, `did ${goal}`);
      assert.ok(end.duration_seconds >= 0 && end.output_tokens > 0);
      assert.deepEqual([end.api_calls, end.tool_count], [2, 1]);
    }
    const requests = host.events(session_id).map(({ type }) => type);
    assert.ok(requests.lastIndexOf("subagent.spawn_requested") < requests.indexOf("subagent.start"));
    assert.ok(requests.indexOf("tool.start") < requests.indexOf("subagent.spawn_requested"));
    assert.ok(requests.lastIndexOf("subagent.complete") < requests.indexOf("tool.complete"));
    assert.deepEqual((await host.result("delegation.status")).active, []);
  },
);

rpcScenario(
  "delegation.status",
  {
    title: "lists running sub-agents, their parents and the limits",
    tools: [createDelegateTask()],
    config: { delegation: { max_concurrent: 2, max_depth: 1 } },
    script: family(["one", "two", "three"], untilAborted),
  },
  async (host, { connect, owner }) => {
    const session_id = await openSession(host);
    const { turn_id } = await host.result("prompt.submit", { session_id, text: "go" });
    await host.event("subagent.start", ({ payload }) => payload.goal === "one");
    await host.event("subagent.start", ({ payload }) => payload.goal === "two");
    const status = await host.result("delegation.status", { session_id });
    assert.deepEqual(status.active.map((each: Json) => each.goal).toSorted(), ["one", "two"]);
    assert.deepEqual([status.paused, status.max_spawn_depth, status.max_concurrent_children], [false, 1, 2]);
    assert.equal(eventsOf(host, "subagent.spawn_requested").length, 3);
    const [first] = status.active;
    assert.deepEqual([first.depth, first.model, first.tool_count], [1, "demo:demo", 0]);
    assert.ok(first.started_at > 1e9 && first.parent_id);
    const quiet = await openSession(host);
    assert.deepEqual((await host.result("delegation.status", { session_id: quiet })).active, []);
    const stranger = await connect({ owner: `${owner}-too` });
    assert.deepEqual((await stranger.result("delegation.status")).active, []);
    await host.result("session.interrupt", { session_id });
    await host.event("message.complete", (event) => event.turn_id === turn_id);
    // Each that was asked for has an end, also the one that never began.
    const ends = eventsOf(host, "subagent.complete");
    assert.deepEqual(ends.map((each) => each.goal).toSorted(), ["one", "three", "two"]);
    assert.ok(ends.every((each) => each.status === "interrupted"));
    assert.deepEqual((await host.result("delegation.status")).active, []);
  },
);

rpcScenario("delegation.status 4001", "the session is unknown", async (host) => {
  await host.error("delegation.status", { session_id: "none" }, 4001);
  await host.error("delegation.status", { session_id: {} }, -32602);
});

rpcScenario(
  "subagent.interrupt",
  {
    title: "this sub-agent ends, its siblings and its parent continue",
    tools: [createDelegateTask()],
    script: family(["wait", "work"], (state) =>
      state.user === "wait" ? untilAborted(state) : { text: "worked" },
    ),
  },
  async (host, { connect, owner }) => {
    const session_id = await openSession(host);
    const { turn_id } = await host.result("prompt.submit", { session_id, text: "go" });
    const { payload } = await host.event("subagent.start", ({ payload }) => payload.goal === "wait");
    const { subagent_id } = payload;
    const stranger = await connect({ owner: `${owner}-too` });
    const missed = { found: false, subagent_id };
    assert.deepEqual(await stranger.result("subagent.interrupt", { subagent_id }), missed);
    assert.deepEqual(await host.result("subagent.interrupt", { subagent_id, session_id: "other" }), missed);
    assert.deepEqual(await host.result("subagent.interrupt", { subagent_id, session_id }), {
      found: true,
      subagent_id,
    });
    const { payload: done } = await host.event("message.complete", (event) => event.turn_id === turn_id);
    assert.deepEqual([done.status, done.text], ["complete", "over"]);
    const ends = eventsOf(host, "subagent.complete").map(({ goal, status }) => [goal, status]);
    assert.deepEqual(Object.fromEntries(ends), { wait: "interrupted", work: "completed" });
    assert.deepEqual(await host.result("subagent.interrupt", { subagent_id }), missed);
  },
);

rpcScenario(
  "subagent.interrupt",
  {
    title: "the whole subtree ends with it",
    tools: [createDelegateTask()],
    script: (state) => {
      const { user, step } = state;
      if (user === "deep") return untilAborted(state);
      if (step > 0) return { text: `${user} over` };
      const goal = user === "go" ? "middle" : "deep";
      return { calls: [{ tool: "delegate_task", input: { tasks: [{ goal }] } }] };
    },
  },
  async (host) => {
    const session_id = await openSession(host);
    const { turn_id } = await host.result("prompt.submit", { session_id, text: "go" });
    const deep = await host.event("subagent.start", ({ payload }) => payload.goal === "deep");
    assert.equal(deep.payload.depth, 2);
    const middle = await host.event("subagent.start", ({ payload }) => payload.goal === "middle");
    const { subagent_id } = middle.payload;
    assert.equal(deep.payload.parent_id, subagent_id);
    assert.equal((await host.result("subagent.interrupt", { subagent_id })).found, true);
    await host.event("message.complete", (event) => event.turn_id === turn_id);
    assert.deepEqual((await host.result("delegation.status")).active, []);
  },
);

rpcScenario("subagent.interrupt 4000", "no sub-agent is named", async (host) => {
  const { data } = await host.error("subagent.interrupt", { subagent_id: "" }, 4000);
  assert.equal(data.reason, "missing_param");
  for (const bad of [{}, { subagent_id: 1 }, { subagent_id: null }])
    await host.error("subagent.interrupt", bad, -32602);
  for (const subagent_id of ["x", "run_none", "a\0b", "x".repeat(100_000)]) {
    assert.deepEqual(await host.result("subagent.interrupt", { subagent_id }), { found: false, subagent_id });
  }
});
