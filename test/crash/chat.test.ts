import assert from "node:assert/strict";
import { test } from "node:test";
import {
  streamChatCompletion,
  streamRunEvents,
  createAgentClient,
  type RunEvent,
} from "../../src/client/http.ts";
import { createGatewayPlace } from "../harness/gateway.ts";

test("SIGKILL in the middle of a streamed chat: the run reads interrupted, its events replay, the session continues", async () => {
  await using place = await createGatewayPlace();
  const first = await place.start();
  const apiKey = await place.key();
  const seen: string[] = [];
  const headers = { "x-agent-session-id": "survivor" };
  const agent = { on_disconnect: "cancel" as const };
  const ask = (content: string) => ({ messages: [{ role: "user" as const, content }] });
  const stream = streamChatCompletion(
    { baseUrl: first.url, apiKey },
    { ...ask("run: sleep 5"), agent },
    { headers },
  );
  let runId = "";
  await assert.rejects(async () => {
    for await (const chunk of stream) {
      runId ||= chunk.agent?.run_id ?? "";
      seen.push(chunk.choices[0]?.delta.content ?? "");
      if (seen.join("").includes("Calling terminal")) await first.kill("SIGKILL");
    }
  }, "the stream is cut");
  assert.match(runId, /^run_/);

  const second = await place.start();
  const options = { baseUrl: second.url, apiKey };
  const client = createAgentClient(options);
  const { data: run } = await client.getRun({ path: { run_id: runId } });
  assert.equal(run?.status, "interrupted");
  assert.equal(run?.error?.code, "interrupted");
  const events: RunEvent[] = [];
  for await (const event of streamRunEvents(options, runId)) events.push(event);
  assert.deepEqual(
    events.map(({ seq }) => seq),
    events.map((_, index) => index + 1),
  );
  assert.equal(events.at(-1)?.event, "run.interrupted");
  const replayed = events.map((event) => (event.event === "message.delta" ? event.delta : "")).join("");
  assert.ok(replayed.startsWith(seen.join("")), "what was streamed is replayed");

  const answer: string[] = [];
  for await (const chunk of streamChatCompletion(options, ask("run: echo alive"), { headers })) {
    answer.push(chunk.choices[0]?.delta.content ?? "");
  }
  assert.match(answer.join(""), /alive/);
  assert.equal(await second.kill("SIGTERM"), 0, second.stderr());
});

test("prompts that were queued when the process was killed run after the next start", async () => {
  await using place = await createGatewayPlace();
  const first = await place.start();
  const apiKey = await place.key();
  const headers = {
    authorization: `Bearer ${apiKey}`,
    "content-type": "application/json",
    "x-agent-session-id": "s",
  };
  const post = (url: string, content: string) =>
    fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({
        stream: true,
        agent: { on_disconnect: "continue" },
        messages: [{ role: "user", content }],
      }),
    });
  const busy = await post(first.url, "run: sleep 5");
  const queued = await post(first.url, "run: echo queued");
  const runId = queued.headers.get("x-agent-run-id")!;
  await first.kill("SIGKILL");
  await Promise.allSettled([busy.text(), queued.text()]);
  const second = await place.start();
  const events: RunEvent[] = [];
  for await (const event of streamRunEvents({ baseUrl: second.url, apiKey }, runId)) events.push(event);
  assert.equal(events.at(-1)?.event, "run.completed");
  assert.equal(events.filter(({ event }) => event === "run.started").length, 1);
  await second.kill("SIGTERM");
});

test("a second process on the same database leaves the running sessions of the first alone", async () => {
  await using place = await createGatewayPlace();
  const first = await place.start();
  const apiKey = await place.key();
  const options = { baseUrl: first.url, apiKey };
  const stream = streamChatCompletion(options, {
    messages: [{ role: "user", content: "run: sleep 1; echo done" }],
  });
  const answer: string[] = [];
  for await (const chunk of stream) {
    answer.push(chunk.choices[0]?.delta.content ?? "");
    if (answer.join("").includes("Calling")) await (await place.start()).kill("SIGTERM");
  }
  assert.match(answer.join(""), /done/);
});
