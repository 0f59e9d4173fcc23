import assert from "node:assert/strict";
import { test } from "node:test";
import { createModelEngine } from "../../src/agent/engines/model-engine.ts";
import { systemClock } from "../../src/base/clock.ts";
import { createLog } from "../../src/base/log.ts";
import { checkToolInput } from "../../src/check-input.ts";
import {
  calling,
  saying,
  startModelServer,
  type ModelServer,
  type Replies,
} from "../harness/openai-server.ts";
import { startTestService, type TestService } from "../harness/service.ts";
import { readData } from "../harness/sse.ts";

const hi = (content: string) => ({ messages: [{ role: "user", content }] });
const session = { "x-agent-session-id": "s" };

/** The whole service, with a provider that is a server of this machine. */
async function withProvider(
  replies: Replies,
  run: (service: TestService, models: ModelServer) => Promise<void>,
): Promise<void> {
  await using models = await startModelServer(replies);
  const engine = createModelEngine({
    providers: [
      { name: "local", type: "openai_compatible", baseUrl: models.baseUrl, apiKey: "a-provider-key" },
    ],
    checkInput: checkToolInput,
    clock: systemClock,
    log: createLog("error", () => {}),
  });
  const providers = [{ name: "local", type: "openai_compatible", models: ["test-model"] }];
  await using service = await startTestService({ engine, providers });
  await run(service, models);
}

type Chunk = { choices?: { delta: { content?: string } }[]; error?: { code: string } };

async function streamed(response: Response): Promise<{ text: string; error: string | undefined }> {
  const frames = (await readData(response)).filter((frame) => frame !== "[DONE]") as Chunk[];
  return {
    text: frames.map((frame) => frame.choices?.[0]?.delta.content ?? "").join(""),
    error: frames.find((frame) => frame.error)?.error?.code,
  };
}

test("a chat streams from a provider through the whole service, tool call included", async () => {
  const replies = [
    calling({ id: "call_1", name: "terminal", json: '{"command":"echo from-the-tool"}' }),
    saying("It said so."),
  ];
  await withProvider(replies, async (service, models) => {
    const response = await service.chat({ ...hi("say it"), stream: true, temperature: 0.25 });
    assert.equal(response.headers.get("x-agent-model"), "local:test-model");
    const { text } = await streamed(response);
    assert.equal(text, "It said so.");
    const [first, second] = models.requests;
    assert.equal(first?.headers.authorization, "Bearer a-provider-key");
    assert.equal(first?.body.model, "test-model");
    assert.equal(first?.body["temperature"], 0.25);
    const names = first?.body.tools?.map((tool) => tool.function["name"]);
    assert.ok(names?.includes("terminal"));
    assert.match(JSON.stringify(second?.body.messages), /from-the-tool/);
    const run = await (await service.request(`/v1/runs/${response.headers.get("x-agent-run-id")}`)).json();
    assert.equal(run.status, "completed");
    assert.equal(run.usage.model_calls, 2);
  });
});

test("a provider that limits the rate is asked again after what it says, and the notice is an event", async () => {
  const limited = { status: 429, headers: { "retry-after": "0" }, body: '{"error":{"message":"slow down"}}' };
  await withProvider([limited, saying("Now.")], async (service, models) => {
    const response = await service.chat(hi("go"));
    assert.equal((await response.json()).choices[0].message.content, "Now.");
    assert.equal(models.requests.length, 2);
    const events = await service.request(`/v1/runs/${response.headers.get("x-agent-run-id")}/events`);
    const names = ((await readData(events)) as { event: string }[]).map(({ event }) => event);
    assert.ok(names.includes("run.notice"), names.join(" "));
  });
});

test("a provider that stays down is a 502 that says so and keeps its words and the key to itself", async () => {
  const down = { status: 500, body: "internal: a-provider-key and more" };
  await withProvider(
    () => down,
    async (service, models) => {
      const response = await service.chat(hi("go"));
      const body = await response.text();
      assert.equal(response.status, 502);
      assert.match(body, /provider local failed \(500\)/);
      assert.ok(!body.includes("a-provider-key"));
      assert.equal(models.requests.length, 3);
    },
  );
});

test("a stream that is cut fails the run, keeps what was said, and the session goes on with a history a strict provider takes", async () => {
  const cut = { pieces: [{ text: "I was say" }, { cut: true as const }] };
  await withProvider([cut, saying("Again.")], async (service, models) => {
    const first = await service.chat({ ...hi("one"), stream: true }, { headers: session });
    const { text, error } = await streamed(first);
    assert.equal(text, "I was say");
    assert.equal(error, "agent_incomplete");
    const run = await (await service.request(`/v1/runs/${first.headers.get("x-agent-run-id")}`)).json();
    assert.equal(run.status, "failed");
    const second = await (await service.chat(hi("two"), { headers: session })).json();
    assert.equal(second.choices[0].message.content, "Again.");
    const roles = models.requests[1]?.body.messages.map(({ role }) => role);
    assert.deepEqual(roles, ["system", "user", "assistant", "user"]);
  });
});

test("a chat that is left while the provider hangs is cancelled, and the provider's connection is closed", async () => {
  const hanging = { pieces: [{ text: "wait" }, { hang: true as const }] };
  await withProvider([hanging], async (service, models) => {
    const leave = new AbortController();
    const response = await service.chat({ ...hi("go"), stream: true }, { signal: leave.signal });
    const runId = response.headers.get("x-agent-run-id")!;
    const request = await models.requested(1);
    leave.abort();
    await response.text().catch(() => {});
    await request.closed;
    for await (const group of service.service.store.journal.follow({ runId })) {
      if (group.some(({ type }) => type === "run.cancelled")) break;
    }
  });
});
