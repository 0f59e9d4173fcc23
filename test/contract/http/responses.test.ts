import assert from "node:assert/strict";
import type { ResponseObject } from "../../../generated/http/client/types.gen.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import {
  checkStream,
  eventsOf,
  getResponse,
  outputText,
  respond,
  responseOf,
} from "../../harness/responses.ts";
import { createGate, runEvent } from "../../harness/runs.ts";
import { scenario } from "../../harness/scenario.ts";

const CREATE = "createResponse";
const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PDF = `data:application/pdf;base64,${btoa("%PDF-1.4\n%%EOF\n")}`;

/** Says what it was given. */
const echo: Script = ({ messages, instructions }) => ({
  text: JSON.stringify({
    instructions: instructions.split("\n\n").at(-1),
    messages: messages.map((message) =>
      message.role === "user"
        ? [message.role, message.text, (message.attachments ?? []).map(({ mediaType }) => mediaType)]
        : [message.role],
    ),
  }),
});
const heard = (response: ResponseObject) => JSON.parse(outputText(response));

scenario(CREATE, 200, { title: "text in, text out; the response can be fetched" }, async (service) => {
  const answer = await respond(service, { model: "gpt-4o", input: "hi", metadata: { a: "b" } });
  const body: ResponseObject = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  assert.equal(body.status, "completed");
  assert.equal(outputText(body), "hello");
  assert.equal(body.model, "gpt-4o");
  assert.deepEqual(body.metadata, { a: "b" });
  assert.ok(body.usage!.total_tokens > 0);
  const runId = answer.headers.get("x-agent-run-id")!;
  assert.equal(body.id, `resp_${runId.slice("run_".length)}`);
  assert.deepEqual(body.agent, { run_id: runId, session_id: answer.headers.get("x-agent-session-id") });
  assert.equal(answer.headers.get("x-agent-model"), "demo:demo");
  const run = await (await service.request(`/v1/runs/${runId}`)).json();
  assert.equal(run.kind, "response");
  assert.equal(run.response_id, body.id);
  assert.deepEqual(await (await getResponse(service, body.id)).json(), body);
});

scenario(
  CREATE,
  200,
  {
    title: "a stream ends with the same response",
    script: () => ({ text: "one two", chunkSize: 2 }),
  },
  async (service) => {
    const answer = await respond(service, { input: "hi", stream: true });
    assert.match(answer.headers.get("content-type")!, /^text\/event-stream/);
    const events = await eventsOf(answer);
    const final = checkStream(events);
    assert.equal(outputText(final), "one two");
    assert.ok(events.filter(({ type }) => type === "response.output_text.delta").length >= 1);
    assert.deepEqual(await (await getResponse(service, final.id)).json(), final);
  },
);

scenario(
  CREATE,
  200,
  { title: "instructions, of the request and its items", script: echo },
  async (service) => {
    const own = await responseOf(service, { instructions: "Be brief.", input: "hi" });
    assert.equal(heard(own).instructions, "Be brief.");
    assert.equal(own.instructions, "Be brief.");
    const items = [
      { role: "system", content: "You are a pirate." },
      { role: "user", content: "hi" },
    ];
    const system = await responseOf(service, { input: items });
    assert.equal(heard(system).instructions, "You are a pirate.");
    assert.deepEqual(heard(system).messages, [["user", "hi", []]]);
  },
);

scenario(CREATE, 200, { title: "a conversation of several turns", script: echo }, async (service) => {
  const input = [
    { type: "message", role: "user", content: "My name is Ada." },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello Ada." }] },
    { type: "reasoning", id: "rs_1", summary: [] },
    { type: "mcp_call", id: "mcp_1", name: "terminal", arguments: "{}", server_label: "agentd" },
    { type: "message", role: "user", content: [{ type: "input_text", text: "What is my name?" }] },
  ];
  const response = await responseOf(service, { input });
  assert.deepEqual(heard(response).messages, [
    ["user", "My name is Ada.", []],
    ["assistant"],
    ["tool"],
    ["user", "What is my name?", []],
  ]);
});

scenario(CREATE, 200, { title: "an image and a file as data URLs", script: echo }, async (service) => {
  const content = [
    { type: "input_text", text: "look" },
    { type: "input_image", image_url: PIXEL },
    { type: "input_file", filename: "a.pdf", file_data: PDF },
  ];
  const response = await responseOf(service, { input: [{ role: "user", content }] });
  assert.deepEqual(heard(response).messages, [["user", "look", ["image/png", "application/pdf"]]]);
});

const terminal = testTool(async ({ command }) => `did ${command}`);

scenario(
  CREATE,
  200,
  {
    title: "reasoning and calls of the agent's own tools are items",
    tools: [terminal],
    script: (state) => ({ reasoning: "hm", ...callsOnce("a", "b")(state) }),
  },
  async (service) => {
    const final = checkStream(await eventsOf(await respond(service, { input: "go", stream: true })));
    assert.deepEqual(
      final.output.map((item) =>
        item.type === "mcp_call" ? [item.name, item.arguments, item.output] : item.type,
      ),
      [
        "reasoning",
        ["terminal", '{"command":"a"}', "did a"],
        ["terminal", '{"command":"b"}', "did b"],
        "reasoning",
        "message",
      ],
    );
    assert.equal(final.status, "completed");
  },
);

for (const [toolItems, types] of [
  ["function_call", ["function_call", "message"]],
  ["none", ["message"]],
] as const) {
  scenario(
    CREATE,
    200,
    {
      title: `tool_items ${toolItems}; reasoning is hidden when configured so`,
      config: { api_server: { tool_items: toolItems, show_reasoning: false } },
      tools: [terminal],
      script: (state) => ({ reasoning: "hm", ...callsOnce("a")(state) }),
    },
    async (service) => {
      const response = await responseOf(service, { input: "go" });
      assert.deepEqual(
        response.output.map(({ type }) => type),
        types,
      );
    },
  );
}

scenario(
  CREATE,
  200,
  {
    title: "a run cut by a limit gives an incomplete response",
    script: () => ({ text: "cut", stop: "length" }),
  },
  async (service) => {
    const response = await responseOf(service, { input: "go", max_output_tokens: 1 });
    assert.equal(response.status, "incomplete");
    assert.deepEqual(response.incomplete_details, { reason: "max_output_tokens" });
    assert.equal(response.max_output_tokens, 1);
  },
);

scenario(
  CREATE,
  200,
  {
    title: "a failure in a stream is its last event",
    script: () => ({ text: "begun", error: { code: "budget_exceeded", message: "spent" } }),
  },
  async (service) => {
    const final = checkStream(await eventsOf(await respond(service, { input: "go", stream: true })));
    assert.equal(final.status, "failed");
    assert.equal(final.error?.code, "rate_limit_exceeded");
    assert.equal(outputText(final), "begun");
    assert.deepEqual(await (await getResponse(service, final.id)).json(), final);
  },
);

scenario(CREATE, 200, { title: "store: false stores nothing" }, async (service) => {
  const response = await responseOf(service, { input: "hi", store: false });
  assert.equal(response.store, false);
  assert.equal((await getResponse(service, response.id)).status, 404);
  const rows = await service.service.store.read.selectFrom("responses").select("id").execute();
  assert.deepEqual(rows, []);
});

const gate = createGate();
scenario(
  CREATE,
  200,
  {
    title: "leaving a stream cancels the run; with on_disconnect: continue the run continues",
    script: gate.script,
  },
  async (service) => {
    const left = await respond(service, { input: "hi", stream: true });
    await left.body!.cancel();
    await runEvent(service, left.headers.get("x-agent-run-id")!, "run.cancelled");
    const alone = await respond(service, { input: "hi", stream: true, agent: { on_disconnect: "continue" } });
    await alone.body!.cancel();
    gate.open();
    await runEvent(service, alone.headers.get("x-agent-run-id")!, "run.completed");
  },
);

scenario(
  CREATE,
  200,
  {
    title: "an approval waits for its answer through the run; deny refuses at once",
    tools: [terminal],
    config: { approvals: { mode: "ask" } },
    script: callsOnce("rm -rf /tmp/x"),
  },
  async (service) => {
    const waiting = await respond(service, { input: "go", stream: true });
    const run = waiting.headers.get("x-agent-run-id")!;
    await runEvent(service, run, "approval.request");
    const body = JSON.stringify({ choice: "once" });
    const headers = { "content-type": "application/json" };
    const approval = await service.request(`/v1/runs/${run}/approval`, { method: "POST", body, headers });
    assert.equal(approval.status, 200, await approval.text());
    assert.match(outputText(checkStream(await eventsOf(waiting))), /did rm/);
    const denied = await responseOf(service, { input: "go", agent: { approval_mode: "deny" } });
    assert.match(outputText(denied), /^denied/);
    const [call] = denied.output;
    assert.equal(call?.status, "failed");
  },
);

scenario(
  CREATE,
  200,
  { title: "the same Idempotency-Key gives the same response, whole or streamed, once" },
  async (service) => {
    const headers = { "idempotency-key": "k1" };
    const first = await respond(service, { input: "hi" }, { headers });
    const again = await respond(service, { input: "hi" }, { headers });
    assert.equal(first.headers.get("idempotency-replayed"), null);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    assert.deepEqual(await again.json(), await first.json());
    const streamed = { input: "hi", stream: true };
    const key = { headers: { "idempotency-key": "k2" } };
    const once = await eventsOf(await respond(service, streamed, key));
    assert.deepEqual(await eventsOf(await respond(service, streamed, key)), once);
    const rows = await service.service.store.read.selectFrom("responses").select("id").execute();
    assert.equal(rows.length, 2);
  },
);
