import assert from "node:assert/strict";
import { test } from "node:test";
import {
  AgentApiError,
  StreamCutError,
  createAgentClient,
  streamChatCompletion,
  streamFeed,
  streamRunEvents,
  type ChatCompletionChunk,
  type RunEvent,
} from "../../../src/client/http.ts";
import type { ScriptState } from "../../../src/agent/engines/scripted.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

/** Thinks, speaks, calls a tool, speaks again: every kind of chunk there is. */
function script({ step }: ScriptState) {
  if (step === 0)
    return { reasoning: "hm", text: ["one ", "two "], calls: [{ tool: "read_file", input: { path: "no" } }] };
  return { text: ["three ", "four"] };
}

const body = {
  messages: [{ role: "user" as const, content: "go" }],
  stream_options: { include_usage: true, include_progress: true },
};

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
}

/** What a chunk says, without the ids of its run. */
const said = ({ choices, usage, agent }: ChatCompletionChunk) => ({
  choices,
  usage: usage && usage.total_tokens > 0,
  tool: agent?.tool && { ...agent.tool, duration_ms: 0, tool_call_id: "" },
});

/** Deltas that are close in time come merged, so a text is compared whole. */
function merged(chunks: readonly ChatCompletionChunk[]) {
  const out: ReturnType<typeof said>[] = [];
  for (const chunk of chunks.map(said)) {
    const delta = chunk.choices[0]?.delta;
    const last = out.at(-1)?.choices[0]?.delta;
    if (delta?.content && last?.content !== undefined && !delta.role) last.content += delta.content;
    else out.push(structuredClone(chunk));
  }
  return out;
}

/** All at once: what takes the time is the pause before each further request. */
async function forEachCut(
  { from, to, step }: { readonly from: number; readonly to: number; readonly step: number },
  read: (bytes: number) => Promise<void>,
): Promise<void> {
  const cuts = Array.from({ length: Math.ceil((to - from) / step) }, (_, index) => from + index * step);
  await Promise.all(cuts.map(read));
}

test("a chat stream cut anywhere continues from the run's events, without loss or repetition, and posts once", async () => {
  await using service = await startTestService({ script });
  const options = { baseUrl: service.url, apiKey: KEY };
  const whole = merged(await collect(streamChatCompletion(options, body)));
  assert.ok(whole.length > 5);
  await forEachCut({ from: 500, to: 4000, step: 97 }, async (bytes) => {
    await using proxy = await startCuttingProxy(service.url, [bytes, bytes]);
    const chunks = await collect(streamChatCompletion({ ...options, baseUrl: proxy.url }, body));
    assert.deepEqual(merged(chunks), whole, `cut after ${bytes} bytes`);
    assert.equal(proxy.requests.filter((line) => line.startsWith("POST /v1/chat")).length, 1);
  });
});

test("the events of a run cut anywhere resume by Last-Event-ID: each once, in order", async () => {
  await using service = await startTestService({ script });
  const options = { baseUrl: service.url, apiKey: KEY };
  const run = await runOf(service);
  const whole = await collect(streamRunEvents(options, run));
  await forEachCut({ from: 300, to: 2600, step: 71 }, async (bytes) => {
    await using proxy = await startCuttingProxy(service.url, [bytes, bytes, bytes]);
    const events = await collect(streamRunEvents({ ...options, baseUrl: proxy.url }, run));
    assert.deepEqual(events, whole, `cut after ${bytes} bytes`);
  });
  assert.deepEqual(await collect(streamRunEvents(options, run, { after: 3 })), whole.slice(3));
});

test("the feed of changes cut anywhere resumes behind its last event: each once, in order", async () => {
  await using service = await startTestService({ script });
  const options = { baseUrl: service.url, apiKey: KEY };
  for (let runs = 0; runs < 4; runs++) await collect(streamRunEvents(options, await runOf(service)));
  // Without it a server streams.
  const headers = { Accept: "application/json" };
  const { data: list } = await createAgentClient(options).streamEvents({ query: { limit: 100 }, headers });
  const [first, ...rest] = list.data;
  assert.ok(first && rest.length > 5);
  await forEachCut({ from: 300, to: 2200, step: 83 }, async (bytes) => {
    await using proxy = await startCuttingProxy(service.url, [bytes, bytes, bytes]);
    const seen: unknown[] = [];
    for await (const frame of streamFeed({ ...options, baseUrl: proxy.url }, { after: first.id })) {
      if (frame.object !== "event") continue;
      seen.push(frame);
      if (frame.id === rest.at(-1)?.id) break;
    }
    assert.deepEqual(seen, rest, `cut after ${bytes} bytes`);
  });
});

test("errors that will not pass are thrown at once; the server's words stand in them", async () => {
  await using service = await startTestService();
  const options = { baseUrl: service.url, apiKey: KEY };
  await using proxy = await startCuttingProxy(service.url, []);
  const unknown = collect(streamRunEvents({ ...options, baseUrl: proxy.url }, "run_nope"));
  const error = await unknown.then(
    () => assert.fail("it did not throw"),
    (thrown: unknown) => thrown as AgentApiError,
  );
  assert.ok(error instanceof AgentApiError);
  assert.deepEqual([error.status, error.code, error.type], [404, "run_not_found", "not_found_error"]);
  assert.ok(error.requestId);
  assert.equal(proxy.connections, 1);
  const wrongKey = collect(streamChatCompletion({ ...options, apiKey: "wrong-key-0123456789" }, body));
  await assert.rejects(wrongKey, (thrown: AgentApiError) => thrown.status === 401);
  const bad = collect(streamChatCompletion(options, { messages: [] }));
  await assert.rejects(bad, (thrown: AgentApiError) => thrown.param === "messages");
});

test("a run that fails ends the stream with its error", async () => {
  await using service = await startTestService({
    script: () => ({ text: "some", error: { code: "provider_error", message: "it hung up" } }),
  });
  const options = { baseUrl: service.url, apiKey: KEY };
  for (const bytes of [Number.POSITIVE_INFINITY, 900]) {
    await using proxy = await startCuttingProxy(service.url, [bytes]);
    const stream = streamChatCompletion({ ...options, baseUrl: proxy.url }, body);
    await assert.rejects(collect(stream), (thrown: AgentApiError) => {
      assert.deepEqual([thrown.code, thrown.message], ["provider_error", "it hung up"]);
      return true;
    });
  }
});

test("a server that is gone for good is given up after a bounded number of tries", async () => {
  const options = { baseUrl: "http://127.0.0.1:1", apiKey: KEY };
  await assert.rejects(collect(streamRunEvents(options, "run_x", { maxAttempts: 1 })), StreamCutError);
  const leaving = new AbortController();
  const waiting = collect(streamRunEvents(options, "run_x", { signal: leaving.signal }));
  leaving.abort(new Error("enough"));
  await assert.rejects(waiting, /enough|abort/);
});

test("a stream that is to end with its connection is not resumed: the cut names the run", async () => {
  await using service = await startTestService({ script });
  await using proxy = await startCuttingProxy(service.url, [700]);
  const stream = streamChatCompletion(
    { baseUrl: proxy.url, apiKey: KEY },
    { ...body, agent: { on_disconnect: "cancel" } },
  );
  await assert.rejects(collect(stream), (thrown: StreamCutError) => (thrown.runId ?? "").startsWith("run_"));
});

test("who leaves the loop stops the run", async () => {
  const gate = Promise.withResolvers<void>();
  await using service = await startTestService({
    script: () => ({
      text: (async function* () {
        yield "begun";
        await gate.promise;
      })(),
    }),
  });
  const options = { baseUrl: service.url, apiKey: KEY };
  let runId = "";
  for await (const chunk of streamChatCompletion(options, body)) {
    runId ||= chunk.agent?.run_id ?? "";
    if (chunk.choices[0]?.delta.content === "begun") break;
  }
  const seen: RunEvent["event"][] = [];
  for await (const { event } of streamRunEvents(options, runId)) {
    seen.push(event);
    if (event === "run.stopping") gate.resolve();
  }
  assert.equal(seen.at(-1), "run.cancelled");
});

test("one idempotency key makes one run", async () => {
  await using service = await startTestService();
  const options = { baseUrl: service.url, apiKey: KEY };
  const idOf = async () => {
    const [first] = await collect(streamChatCompletion(options, body, { idempotencyKey: "once" }));
    return first?.agent?.run_id;
  };
  assert.equal(await idOf(), await idOf());
});

async function runOf(service: TestService): Promise<string> {
  const response = await service.chat(body);
  await response.json();
  return response.headers.get("x-agent-run-id")!;
}
