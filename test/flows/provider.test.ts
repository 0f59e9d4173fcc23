/** A chat through the whole service, with a model server of this machine for a provider. */
import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../harness/fake-clock.ts";
import { calling, saying, strict, tooLong, type ModelReply } from "../harness/openai-server.ts";
import { PROVIDER_KEY, startFlow } from "../harness/provider-flow.ts";
import { type TestService } from "../harness/service.ts";
import { readData, readFrames } from "../harness/sse.ts";
import { startLocalEngine } from "../unit/agent/engines/local-engine.ts";
import { probe } from "../unit/agent/engines/turn-probe.ts";

const hi = (content: string) => ({ messages: [{ role: "user", content }] });
const session = { "x-agent-session-id": "flow" };
const terminal = (id: string, command: string) => ({
  id,
  name: "terminal",
  json: JSON.stringify({ command }),
});

interface Chunk {
  readonly choices?: readonly { readonly delta: { readonly content?: string } }[];
  readonly error?: { readonly code: string; readonly message: string };
}

async function streamed(response: Response): Promise<{ text: string; error: Chunk["error"] }> {
  const frames = (await readData(response)).filter((frame) => frame !== "[DONE]") as Chunk[];
  return {
    text: frames.map((frame) => frame.choices?.[0]?.delta.content ?? "").join(""),
    error: frames.find((frame) => frame.error)?.error,
  };
}

const runIdOf = (response: Response): string => response.headers.get("x-agent-run-id") ?? "";

async function runOf(service: TestService, response: Response) {
  return (await service.request(`/v1/runs/${runIdOf(response)}`)).json();
}

async function eventsOf(service: TestService, response: Response) {
  const events = await service.request(`/v1/runs/${runIdOf(response)}/events`);
  return (await readData(events)) as { event: string; [field: string]: unknown }[];
}

test("a chat streams from a provider through the whole service, tool call included", async () => {
  await using flow = await startFlow(
    strict([calling(terminal("call_1", "echo from-the-tool")), saying("It ", "said ", "so.")]),
  );
  const response = await flow.service.chat({ ...hi("say it"), stream: true, temperature: 0.25 });
  assert.equal(response.headers.get("x-agent-model"), "local:test-model");
  assert.equal((await streamed(response)).text, "It said so.");
  const [first, second] = flow.models.requests;
  assert.equal(first?.headers.authorization, `Bearer ${PROVIDER_KEY}`);
  assert.equal(first?.body.model, "test-model");
  assert.equal(first?.body["temperature"], 0.25);
  assert.ok(first?.body.tools?.some((tool) => tool.function["name"] === "terminal"));
  assert.match(JSON.stringify(second?.body.messages), /from-the-tool/);
  const run = await runOf(flow.service, response);
  assert.equal(run.status, "completed");
  assert.equal(run.usage.model_calls, 2);
  assert.equal(run.usage.tool_calls, 1);
});

test("what a provider says reaches the client while the provider still speaks", async () => {
  await using flow = await startFlow([{ pieces: [{ text: "wait" }, { hang: true }] }]);
  const leave = new AbortController();
  const response = await flow.service.chat({ ...hi("go"), stream: true }, { signal: leave.signal });
  for await (const { data } of readFrames(response)) if (data?.includes('"wait"')) break;
  leave.abort();
  const [request] = flow.models.requests;
  await request?.closed;
  for await (const group of flow.service.service.store.journal.follow({ runId: runIdOf(response) })) {
    if (group.some(({ type }) => type === "run.cancelled")) break;
  }
  assert.equal((await runOf(flow.service, response)).status, "cancelled");
});

test("a provider that limits the rate is asked again when it says, and the run reports it", async () => {
  const clock = new FakeClock();
  const limited: ModelReply = { status: 429, headers: { "retry-after": "7" }, body: "{}" };
  await using flow = await startFlow([limited, saying("Now.")], { clock });
  const response = await flow.service.chat({ ...hi("go"), stream: true });
  const journal = flow.service.service.store.journal.follow({ runId: runIdOf(response) });
  for await (const group of journal) if (group.some(({ type }) => type === "run.notice")) break;
  clock.tick(6999);
  assert.equal(clock.pending, 1, "the engine waits on");
  assert.equal(flow.models.requests.length, 1);
  clock.tick(1);
  assert.deepEqual(await streamed(response), { text: "Now.", error: undefined });
  assert.equal(flow.models.requests.length, 2);
  const notice = (await eventsOf(flow.service, response)).find(({ event }) => event === "run.notice");
  assert.match(JSON.stringify(notice), /local failed; trying again in 7 seconds/);
  assert.equal((await runOf(flow.service, response)).status, "completed");
});

const refusals: readonly (readonly [string, ModelReply, RegExp])[] = [
  ["stays down", { status: 500, body: `internal: ${PROVIDER_KEY}` }, /local failed \(500\)/],
  ["refuses the key", { status: 401, body: `bad key ${PROVIDER_KEY}` }, /model\.providers\.local\.api_key/],
  ["does not have the model", { status: 404, body: "{}" }, /local does not have this model/],
  [
    "wants to be left alone for longer than is waited",
    { status: 429, headers: { "retry-after": "31" }, body: "{}" },
    /Try again in 31 seconds/,
  ],
];

for (const [title, reply, message] of refusals) {
  test(`a provider that ${title} is a 502 to the client, whole or streamed, and nothing of the key`, async () => {
    await using flow = await startFlow(() => reply);
    const whole = await flow.service.chat(hi("go"));
    const answer = await whole.text();
    assert.equal(whole.status, 502, answer);
    assert.equal(JSON.parse(answer).error.code, "provider_error");
    assert.match(JSON.parse(answer).error.message, message);
    const stream = await flow.service.chat({ ...hi("go"), stream: true });
    assert.equal(stream.status, 502);
    const { error } = (await stream.json()) as Chunk;
    assert.equal(error?.code, "provider_error");
    assert.match(error?.message ?? "", message);
    const run = await runOf(flow.service, whole);
    assert.equal(run.status, "failed");
    assert.match(run.error.message, message);
    const told = [
      answer,
      error,
      run,
      await eventsOf(flow.service, whole),
      flow.logLines,
      flow.service.logLines,
    ];
    assert.ok(!JSON.stringify(told).includes(PROVIDER_KEY), "the key is told");
  });
}

test("a stream that is cut fails the run and keeps what was said for the next prompt", async () => {
  await using flow = await startFlow(
    strict([{ pieces: [{ text: "I was say" }, { cut: true }] }, saying("Again.")]),
  );
  const first = await flow.service.chat({ ...hi("one"), stream: true }, { headers: session });
  const { text, error } = await streamed(first);
  assert.equal(text, "I was say");
  assert.equal(error?.code, "agent_incomplete");
  const run = await runOf(flow.service, first);
  assert.equal(run.status, "failed");
  assert.equal(run.error.code, "agent_incomplete");
  assert.match(run.error.message, /ended its answer early/);
  const second = await (await flow.service.chat(hi("two"), { headers: session })).json();
  assert.equal(second.choices[0].message.content, "Again.");
  const said = flow.models.requests[1]?.body.messages.map(({ role, content }) => [role, content]);
  assert.deepEqual(said?.slice(1), [
    ["user", "one"],
    ["assistant", "I was say"],
    ["user", "two"],
  ]);
});

/** Turns that leave a session in a state from which only a careful history leads on. */
const untidy: readonly (readonly [string, readonly ModelReply[]])[] = [
  [
    "a stream that was cut after a tool had run",
    [calling(terminal("a", "echo one")), { pieces: [{ text: "So it" }, { cut: true }] }],
  ],
  [
    "a stream that ended with calls and without saying why",
    [
      {
        pieces: [{ call: { index: 0, ...terminal("a", "touch ran"), arguments: '{"command":"touch ran"}' } }],
        done: false,
      },
    ],
  ],
  [
    "arguments that were no JSON",
    [calling({ id: "a", name: "terminal", json: '{"command":' }), saying("Oh.")],
  ],
  ["arguments of another shape", [calling({ id: "a", name: "terminal", json: '["ls"]' }), saying("Oh.")]],
  ["a tool that is not there", [calling({ id: "a", name: "fly", json: "{}" }), saying("Oh.")]],
  ["a call that the policy denied", [calling(terminal("a", "rm -rf /")), saying("Oh.")]],
  [
    "a tool that failed beside one that did not",
    [calling(terminal("a", "exit 3"), terminal("b", "echo x")), saying("Oh.")],
  ],
  ["calls that share an id", [calling(terminal("a", "echo 1"), terminal("a", "echo 2")), saying("Oh.")]],
  [
    "a call id that comes in every step",
    [calling(terminal("a", "echo 1")), calling(terminal("a", "echo 2")), saying("Oh.")],
  ],
  ["an answer without a word", [{ pieces: [{ finish: "stop" }] }]],
  ["thoughts without a word", [{ pieces: [{ reasoning: "hm" }, { finish: "stop" }] }]],
  [
    "an answer cut by its length inside a call",
    [
      {
        pieces: [{ call: { index: 0, id: "a", name: "terminal", arguments: '{"com' } }, { finish: "length" }],
      },
      // The model gets the failed call and goes on.
      saying("That was too long."),
    ],
  ],
  ["a refused request", [{ status: 400, body: "{}" }]],
];

for (const [title, replies] of untidy) {
  test(`after ${title} a strict provider takes the session's next prompt`, async () => {
    await using flow = await startFlow(strict([...replies, saying("Still here.")]));
    const first = await flow.service.chat(hi("one"), { headers: session });
    await first.text();
    const second = await flow.service.chat(hi("two"), { headers: session });
    const answer = await second.text();
    assert.equal(second.status, 200, answer);
    assert.equal(JSON.parse(answer).choices[0].message.content, "Still here.");
    assert.equal(flow.models.requests.length, replies.length + 1);
    await assert.rejects(access(join(flow.service.workspace, "ran")), "a tool of a cut answer ran");
  });
}

test("a session that is left while its tool runs continues with a history that a strict provider takes", async () => {
  await using flow = await startFlow(strict([calling(terminal("a", "sleep 60")), saying("Still here.")]));
  const leave = new AbortController();
  const first = await flow.service.chat(
    { ...hi("one"), stream: true },
    { headers: session, signal: leave.signal },
  );
  const journal = flow.service.service.store.journal.follow({ runId: runIdOf(first) });
  for await (const group of journal) {
    if (group.some(({ type }) => type === "tool.started")) leave.abort();
    if (group.some(({ type }) => type === "run.cancelled")) break;
  }
  const second = await (await flow.service.chat(hi("two"), { headers: session })).json();
  assert.equal(second.choices[0].message.content, "Still here.");
  const answer = flow.models.requests[1]?.body.messages.find(({ role }) => role === "tool");
  assert.equal(typeof answer?.["content"], "string");
});

test("when a provider dies in the middle of a session, the spare one continues with all of it", async () => {
  await using flow = await startFlow(strict([calling(terminal("a", "echo one")), saying("One.")]), {
    second: strict([saying("Two.")]),
  });
  await (await flow.service.chat(hi("one"), { headers: session })).text();
  await flow.models[Symbol.asyncDispose]();
  const response = await flow.service.chat(hi("two"), { headers: session });
  assert.equal((await response.json()).choices[0].message.content, "Two.");
  assert.deepEqual(
    flow.second.requests[0]?.body.messages.map(({ role }) => role),
    ["system", "user", "assistant", "tool", "assistant", "user"],
  );
  const told = JSON.stringify(await eventsOf(flow.service, response));
  assert.match(told, /local:test-model does not respond; switching to second:spare/);
});

test("a storm of 429 is waited out as far as it may be, and then the spare provider answers", async () => {
  const limited: ModelReply = { status: 429, headers: { "retry-after": "0" }, body: PROVIDER_KEY };
  await using flow = await startFlow(() => limited, { second: strict([saying("Calm.")]) });
  const response = await flow.service.chat({ ...hi("go"), stream: true });
  assert.deepEqual(await streamed(response), { text: "Calm.", error: undefined });
  assert.equal(flow.models.requests.length, 3);
  const told = [await eventsOf(flow.service, response), flow.logLines, flow.service.logLines];
  assert.ok(!JSON.stringify(told).includes(PROVIDER_KEY), "the key is told");
});

test("a conversation that the provider finds too long is summed up, and the prompt answered", async () => {
  const talk = Array.from({ length: 8 }, (_, index) => saying(`Answer ${index}.`));
  await using flow = await startFlow(
    strict([
      calling(terminal("a", "echo old")),
      ...talk,
      tooLong,
      saying("They counted."),
      saying("Still here."),
    ]),
  );
  for (const index of talk.keys()) {
    await (await flow.service.chat(hi(`Question ${index}?`), { headers: session })).text();
  }
  const response = await flow.service.chat(hi("And now?"), { headers: session });
  const answer = await response.text();
  assert.equal(response.status, 200, answer);
  assert.equal(JSON.parse(answer).choices[0].message.content, "Still here.");
  const refused = flow.models.requests.at(-3)?.body.messages ?? [];
  const taken = flow.models.requests.at(-1)?.body.messages ?? [];
  assert.ok(taken.length < refused.length, `${taken.length} of ${refused.length}`);
  assert.match(JSON.stringify(taken), /They counted\..*And now\?/);
  assert.doesNotMatch(JSON.stringify(taken), /Question 0\?/);
  const told = (await eventsOf(flow.service, response)).map(({ event }) => event);
  assert.ok(told.includes("compression.completed"), told.join(" "));
});

test("a conversation that cannot be shortened is reported as too long, without the provider's words", async () => {
  await using flow = await startFlow([tooLong, tooLong]);
  const response = await flow.service.chat({ ...hi("go"), stream: true });
  const { error } = await streamed(response);
  assert.equal(error?.code, "context_too_long");
  assert.match(error?.message ?? "", /too long/);
  const told = JSON.stringify([error, await eventsOf(flow.service, response)]);
  assert.ok(!told.includes("8192"), told);
  assert.ok(flow.logLines.length > 0);
  assert.ok(!flow.logLines.join("").includes("8192"), "the provider's words are in the log");
});

test("thoughts, a picture, tools and a call of nonsense make a conversation that a strict provider takes", async () => {
  const called: ModelReply = {
    pieces: [
      { reasoning: "I should look." },
      { text: "Looking." },
      { call: { index: 0, id: "a", name: "weather", arguments: '{"city":"Paris"}' } },
      { call: { index: 1, id: "b", name: "fly", arguments: "{}" } },
      { call: { index: 2, id: "c", name: "weather", arguments: '{"city":' } },
      { finish: "tool_calls" },
    ],
  };
  await using local = await startLocalEngine(strict([called, saying("Sunny.")]));
  const picture = { type: "image", mediaType: "image/png", data: "iVBORw0KGgo=" } as const;
  const { end, calls } = await probe(local.engine, {
    turn: { messages: [{ role: "user", text: "here?", attachments: [picture] }] },
    callTool: ({ invalid }) =>
      invalid === undefined ? { status: "ok", text: "20" } : { status: "error", text: invalid },
  });
  assert.equal(end.text, "Sunny.");
  assert.deepEqual(
    calls.map(({ callId, invalid }) => [callId, invalid !== undefined]),
    [
      ["a", false],
      ["b", true],
      ["c", true],
    ],
  );
  const said = local.server.requests[1]?.body.messages.find(({ role }) => role === "assistant");
  assert.equal(said?.["reasoning_content"], "I should look.", "what it thought goes back to it");
  assert.match(JSON.stringify(local.server.requests[1]?.body.messages[1]), /image_url/);
});
