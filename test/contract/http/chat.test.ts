import assert from "node:assert/strict";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { scenario } from "../../harness/scenario.ts";
import { readData, readFrames } from "../../harness/sse.ts";

const CHAT = "createChatCompletion";
const hi = { model: "agentd", messages: [{ role: "user", content: "hi" }] };
const echo: Script = ({ user }) => ({ text: `you said ${user}`, chunkSize: 4 });

scenario(CHAT, 200, { title: "answers in the chat completions format", script: echo }, async (service) => {
  const response = await service.chat(hi);
  const body = await response.json();
  assert.equal(response.status, 200);
  assert.equal(body.object, "chat.completion");
  assert.equal(body.model, "agentd");
  assert.deepEqual(body.choices, [
    {
      index: 0,
      message: { role: "assistant", content: "you said hi", refusal: null },
      finish_reason: "stop",
      logprobs: null,
    },
  ]);
  assert.equal(body.usage.total_tokens, body.usage.prompt_tokens + body.usage.completion_tokens);
  assert.equal(response.headers.get("x-agent-run-id"), body.agent.run_id);
  assert.equal(response.headers.get("x-agent-session-id"), body.agent.session_id);
  assert.equal(response.headers.get("x-agent-model"), "demo:demo");
  assert.match(response.headers.get("x-request-id") ?? "", /^req_/);
});

scenario(
  CHAT,
  200,
  { title: "streams role, content, finish, usage and [DONE]", script: echo },
  async (service) => {
    const response = await service.chat({ ...hi, stream: true, stream_options: { include_usage: true } });
    assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
    assert.equal(response.headers.get("cache-control"), "no-cache, no-transform");
    assert.equal(response.headers.get("x-accel-buffering"), "no");
    const frames = [];
    for await (const frame of readFrames(response)) frames.push(frame);
    assert.equal(frames.at(-1)?.data, "[DONE]");
    const chunks = frames.slice(0, -1).map((frame) => JSON.parse(frame.data!));
    assert.deepEqual(chunks[0].choices[0].delta, { role: "assistant", content: "" });
    const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
    assert.equal(text, "you said hi");
    assert.equal(chunks.at(-2).choices[0].finish_reason, "stop");
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.completion_tokens, 3);
    assert.ok(chunks.slice(0, -1).every((chunk) => chunk.usage === undefined));
  },
);

const twoTexts: Script = ({ step }) =>
  step === 0 ? { text: "First.", calls: [{ tool: "nope", input: {} }] } : { text: "Second." };

scenario(
  CHAT,
  200,
  { title: "the whole answer equals the streamed one, over several messages", script: twoTexts },
  async (service) => {
    const whole = await (await service.chat(hi)).json();
    const chunks = (await readData(await service.chat({ ...hi, stream: true }))) as {
      choices?: { delta: { content?: string } }[];
    }[];
    const streamed = chunks.map((chunk) => chunk.choices?.[0]?.delta.content ?? "").join("");
    assert.equal(whole.choices[0].message.content, "First.\n\nSecond.");
    assert.equal(streamed, whole.choices[0].message.content);
  },
);

scenario(CHAT, 200, { title: "tool progress is sent on request", script: twoTexts }, async (service) => {
  type Progress = { choices: unknown[]; agent?: { tool?: { type: string; status: string } } };
  const plain = (await readData(await service.chat({ ...hi, stream: true }))) as Progress[];
  assert.ok(plain.every((chunk) => chunk.agent?.tool === undefined));
  const headers = { "x-agent-progress": "1" };
  const full = (await readData(await service.chat({ ...hi, stream: true }, { headers }))) as Progress[];
  const tools = full.flatMap((chunk) => (chunk.agent?.tool ? [chunk.agent.tool] : []));
  assert.deepEqual(
    tools.map(({ type, status }) => [type, status]),
    [
      ["tool.started", "running"],
      ["tool.completed", "failed"],
    ],
  );
});

scenario(
  CHAT,
  200,
  {
    title: "a session remembers, by id and by key; messages before the last answer are not added again",
    script: ({ messages }) => ({ text: messages.map((m) => (m.role === "user" ? m.text : "-")).join("|") }),
  },
  async (service) => {
    const ask = async (content: string, headers: Record<string, string>, before: object[] = []) => {
      const response = await service.chat({ messages: [...before, { role: "user", content }] }, { headers });
      return { text: (await response.json()).choices[0].message.content, headers: response.headers };
    };
    const id = { "x-agent-session-id": "my session" };
    assert.equal((await ask("one", id)).text, "one");
    const second = await ask("two", id, [
      { role: "user", content: "one" },
      { role: "assistant", content: "one" },
    ]);
    assert.equal(second.text, "one|-|two");
    assert.equal(second.headers.get("x-agent-session-id"), "my session");
    const key = { "x-agent-session-key": "channel-7" };
    const opened = await ask("a", key, [
      { role: "user", content: "before" },
      { role: "assistant", content: "answer" },
    ]);
    assert.equal(opened.text, "before|-|a");
    assert.equal(opened.headers.get("x-agent-session-key"), "channel-7");
    assert.equal((await ask("b", key)).text, "before|-|a|-|b");
    assert.equal((await ask("alone", {})).text, "alone");
  },
);

scenario(
  CHAT,
  200,
  {
    title: "a prompt to a busy session waits for its turn",
    script: async ({ user }) => ({ text: user }),
  },
  async (service) => {
    const headers = { "x-agent-session-id": "busy" };
    const answers = await Promise.all(
      ["1", "2", "3", "4"].map(async (content) => {
        const body = await (
          await service.chat({ messages: [{ role: "user", content }] }, { headers })
        ).json();
        return body.choices[0].message.content;
      }),
    );
    assert.deepEqual(answers, ["1", "2", "3", "4"]);
  },
);

scenario(
  CHAT,
  200,
  {
    title: "the header's model wins over the body's; an unknown one in the body means the default",
    providers: [{ name: "openai", type: "openai", models: ["gpt-small"] }],
    config: { api_server: { unknown_model: "default" } },
  },
  async (service) => {
    const modelOf = async (model: string, header?: string) => {
      const headers: Record<string, string> = header === undefined ? {} : { "x-agent-model": header };
      const response = await service.chat({ ...hi, model }, { headers });
      const body = await response.json();
      assert.equal(body.model, model);
      return response.headers.get("x-agent-model");
    };
    assert.equal(await modelOf("agentd"), "openai:gpt-small");
    assert.equal(await modelOf("demo:demo"), "demo:demo");
    assert.equal(await modelOf("demo:demo", "gpt-other"), "openai:gpt-other");
    assert.equal(await modelOf("nobody knows"), "openai:gpt-small");
  },
);

scenario(
  CHAT,
  200,
  {
    title: "instructions, roles and text parts reach the engine",
    script: ({ instructions, user }) => ({ text: JSON.stringify([instructions.includes("be brief"), user]) }),
  },
  async (service) => {
    const response = await service.chat({
      messages: [
        { role: "system", content: "be brief" },
        {
          role: "user",
          content: [
            { type: "text", text: "a" },
            { type: "input_text", text: "b" },
          ],
        },
      ],
    });
    assert.equal((await response.json()).choices[0].message.content, '[true,"ab"]');
  },
);

scenario(
  CHAT,
  200,
  {
    title: "reasoning is streamed apart from the content",
    script: () => ({ reasoning: "hm", text: "ok" }),
  },
  async (service) => {
    const chunks = (await readData(await service.chat({ ...hi, stream: true }))) as {
      choices?: { delta: { content?: string; reasoning_content?: string } }[];
    }[];
    assert.ok(chunks.some((chunk) => chunk.choices?.[0]?.delta.reasoning_content === "hm"));
  },
);

scenario(
  CHAT,
  200,
  {
    title: "a failure after the stream started is an error frame, then [DONE]",
    script: () => ({ text: "partial", error: { code: "provider_error", message: "the provider hung up" } }),
  },
  async (service) => {
    const frames = (await readData(await service.chat({ ...hi, stream: true }))) as {
      error?: { code: string; message: string };
    }[];
    assert.equal(frames.at(-1), "[DONE]");
    assert.equal(frames.at(-2)?.error?.code, "provider_error");
  },
);
