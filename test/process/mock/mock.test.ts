/** The scripted agent, started as people start it and used with the client that they use. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { connectGateway, webSocketTransport } from "../../../src/client/gateway.ts";
import {
  AgentApiError,
  createAgentClient,
  streamRunEvents,
  type RunEvent,
} from "../../../src/client/http.ts";
import { agentd } from "../../harness/agentd.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";

const isDeno = "Deno" in globalThis;

test(
  "the example of a script can be served, and each of its answers is given",
  { skip: isDeno },
  async () => {
    const { stdout: example } = await agentd(["mock", "--example"]);
    await using mock = await startMock(example);
    const client = createAgentClient(mock);
    const ask = async (content: string) => {
      const { data } = await client.createChatCompletion({ body: { messages: [{ role: "user", content }] } });
      return data;
    };
    const plain = await ask("hello");
    assert.ok("choices" in plain);
    assert.equal(plain.choices[0]?.message.content, "This is a scripted answer.");
    await assert.rejects(
      ask("busy"),
      (error) => error instanceof AgentApiError && error.code === "provider_error",
    );
    const second = await ask("busy");
    assert.ok("choices" in second);
  },
);

test(
  "a scripted tool with an approval waits for a person, and runs when it is approved",
  { skip: isDeno },
  async () => {
    await using mock = await startMock(`
answers:
  - steps:
      - calls: [{ tool: forecast, input: { city: Bern } }]
      - text: done
tools:
  - { name: forecast, approval: Ask the weather service, answer: Sunny }
`);
    const client = createAgentClient(mock);
    const { data: accepted } = await client.createRun({ body: { input: "weather" } });
    const events: RunEvent[] = [];
    for await (const event of streamRunEvents(mock, accepted.run_id)) {
      events.push(event);
      if (event.event !== "approval.request") continue;
      await client.resolveRunApproval({ path: { run_id: accepted.run_id }, body: { choice: "once" } });
    }
    const tool = events.find((event) => event.event === "tool.completed");
    assert.match(JSON.stringify(tool), /Sunny/);
    assert.equal(events.at(-1)?.event, "run.completed");
  },
);

test("a scripted question reaches a host of the gateway, and its answer continues with the script", async () => {
  await using mock = await startMock(`
answers:
  - steps:
      - calls: [{ tool: clarify, input: { questions: [{ question: Which colour?, choices: [red, blue] }] } }]
      - text: Thank you.
`);
  const transport = webSocketTransport({ url: mock.baseUrl, token: mock.apiKey });
  await using gateway = await connectGateway({ transport });
  const { session_id } = await gateway.call("session.create", {});
  const events = gateway.events({ sessionId: session_id });
  await gateway.call("prompt.submit", { session_id, text: "colour" });
  let last = "";
  for await (const event of events) {
    if (event.type === "clarify.request") {
      const { request_id } = event.payload;
      await gateway.call("clarify.respond", { session_id, request_id, answer: "blue" });
    }
    if (event.type !== "message.complete") continue;
    last = event.payload.text;
    break;
  }
  assert.equal(last, "Thank you.");
});

test(
  "a cut connection ends the stream, and a client that resumes gets the whole text",
  { skip: isDeno },
  async () => {
    await using mock = await startMock(`
answers:
  - steps: [{ text: "The line breaks here, and the rest follows.", cut: true, characters_per_delta: 4 }]
`);
    const client = createAgentClient(mock);
    const { data: accepted } = await client.createRun({ body: { input: "cut" } });
    const path = `${mock.baseUrl}/v1/runs/${accepted.run_id}/events`;
    const plain = await fetch(path, { headers: { authorization: `Bearer ${mock.apiKey}` } });
    await assert.rejects(plain.text(), "the connection is cut");
    let text = "";
    for await (const event of streamRunEvents(mock, accepted.run_id)) {
      if (event.event === "message.delta") text += event.delta;
    }
    assert.equal(text, "The line breaks here, and the rest follows.");
  },
);

test("a script with an unknown field is refused, and the field is named", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-script-"));
  const file = join(folder, "agent.yaml");
  await writeFile(file, "answers:\n  - steps: [{ txt: hello }]\n");
  const { code, stderr } = await agentd(["mock", file]);
  await rm(folder, { recursive: true });
  assert.equal(code, 1);
  assert.match(stderr, /answers\[0\]\.steps\[0\]\.txt/);
  assert.match(stderr, /agentd mock --example/);
});

test("the mock leaves nothing behind, and takes no settings of the user's home", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-mock-temp-"));
  const mock = await startMock("answers: [{ steps: [{ text: hi }] }]", { TMPDIR: folder });
  assert.equal((await readdir(folder)).length, 1);
  await mock[Symbol.asyncDispose]();
  assert.deepEqual(await readdir(folder), []);
  await rm(folder, { recursive: true });
});

async function startMock(script: string, env: Readonly<Record<string, string>> = {}) {
  const folder = await mkdtemp(join(tmpdir(), "agentd-script-"));
  const file = join(folder, "agent.yaml");
  await writeFile(file, script);
  const [program, ...words] = agentdCommand("mock", file);
  const child = spawn(program, words, {
    env: programEnvironment(env),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const facts = await readBanner(child);
  return {
    ...facts,
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function readBanner({ stdout }: ChildProcess) {
  assert.ok(stdout);
  let baseUrl = "";
  for await (const line of createInterface({ input: stdout })) {
    baseUrl = /listens on (\S+)/.exec(line)?.[1] ?? baseUrl;
    const apiKey = /^ {2}key +(\S+)$/.exec(line)?.[1];
    if (apiKey !== undefined) return { baseUrl, apiKey };
  }
  throw new Error("the mock ended before it listened");
}
