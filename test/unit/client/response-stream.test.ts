import assert from "node:assert/strict";
import { test } from "node:test";
import {
  AgentApiError,
  createAgentClient,
  followResponse,
  StreamCutError,
  streamResponse,
  streamRunEvents,
  type ResponseStreamEvent,
} from "../../../src/client/http.ts";
import type { ScriptState } from "../../../src/agent/engines/scripted.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import { KEY, startTestService } from "../../harness/service.ts";

function script({ step }: ScriptState) {
  if (step > 0) return { text: ["three ", "four"] };
  return { reasoning: "hm", text: ["one ", "two "], calls: [{ tool: "read_file", input: { path: "no" } }] };
}

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
}

function idOf([first]: readonly ResponseStreamEvent[]): string {
  return first?.type === "response.created" ? first.response.id : "";
}

test("a response stream cut anywhere continues by starting_after, without loss or repetition, and posts once", async () => {
  await using service = await startTestService({ script });
  const options = { baseUrl: service.url, apiKey: KEY };
  for (let bytes = 1500; bytes < 16_000; bytes += 911) {
    await using proxy = await startCuttingProxy(service.url, [bytes, bytes, bytes]);
    const events = await collect(streamResponse({ ...options, baseUrl: proxy.url }, { input: "go" }));
    assert.equal(events.at(-1)?.type, "response.completed");
    assert.deepEqual(
      await collect(followResponse(options, idOf(events))),
      events,
      `cut after ${bytes} bytes`,
    );
    assert.equal(proxy.requests.filter((line) => line.startsWith("POST")).length, 1);
  }
});

test("a response that is not stored is not resumed: the cut names its run", async () => {
  await using service = await startTestService({ script });
  await using proxy = await startCuttingProxy(service.url, [2500]);
  const stream = streamResponse({ baseUrl: proxy.url, apiKey: KEY }, { input: "go", store: false });
  await assert.rejects(
    collect(stream),
    (thrown: unknown) => thrown instanceof StreamCutError && (thrown.runId ?? "").startsWith("run_"),
  );
});

test("a background response continues when its stream is left; any other is stopped", async () => {
  const gate = Promise.withResolvers<void>();
  await using service = await startTestService({
    // What it says first gives a stream its headers.
    script: () => ({
      text: (async function* () {
        yield "do";
        await gate.promise;
        yield "ne";
      })(),
    }),
  });
  const options = { baseUrl: service.url, apiKey: KEY };
  const leave = async (background: boolean) => {
    for await (const event of streamResponse(options, { input: "go", background })) {
      if (event.type === "response.in_progress") return event.response;
    }
    return assert.fail("it never began");
  };
  const kept = await leave(true);
  const left = await leave(false);
  const ended: string[] = [];
  for await (const { event } of streamRunEvents(options, left.agent?.run_id ?? "")) {
    ended.push(event);
    if (event === "run.stopping") gate.resolve();
  }
  assert.equal(ended.at(-1), "run.cancelled");
  const events = await collect(followResponse(options, kept.id, { after: 1 }));
  assert.equal(events[0]?.sequence_number, 2);
  assert.equal(events.at(-1)?.type, "response.completed");
  const client = createAgentClient(options);
  const { data } = await client.getResponse({ path: { response_id: kept.id } });
  assert.equal(data?.status, "completed");
});

test("an unknown response is an error at once", async () => {
  await using service = await startTestService();
  const options = { baseUrl: service.url, apiKey: KEY };
  await assert.rejects(
    collect(followResponse(options, "resp_nope")),
    (thrown: unknown) => thrown instanceof AgentApiError && thrown.code === "response_not_found",
  );
});
