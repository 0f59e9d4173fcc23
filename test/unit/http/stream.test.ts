/** Chats as real clients read them: slowly, many at once, and not to the end. */
import assert from "node:assert/strict";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { test } from "node:test";
import { defineTool } from "../../../src/agent/tool/tool.ts";
import { assertHealthy } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { readData, readFrames } from "../../harness/sse.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

const hi = { messages: [{ role: "user", content: "hi" }], stream: true };

/** A model that says one word, and the rest when it is let go; it ends early when its run is stopped. */
function heldModel() {
  const release = Promise.withResolvers<void>();
  async function* speak(signal: AbortSignal) {
    yield "begun";
    const stopped = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    await Promise.race([release.promise, stopped]);
    yield " ended";
  }
  return {
    release: release.resolve,
    script: ({ signal }: { signal: AbortSignal }) => ({ text: speak(signal) }),
  };
}

/** The status of the run once it has ended. */
async function ended(service: TestService, runId: string): Promise<string> {
  const { store } = service.service;
  for await (const group of store.journal.follow({ runId })) {
    const end = group.find(({ type }) => /^run\.(completed|failed|cancelled|interrupted)$/.test(type));
    if (end) return end.type;
  }
  return "no end";
}

function post(service: TestService, body: unknown): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${service.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    });
    request.on("response", resolve).on("error", reject).end(JSON.stringify(body));
  });
}

async function* parts(text: string): AsyncGenerator<string> {
  for (const part of text.split(" ")) yield `${part} `;
}

test("a client that leaves in the middle of a stream stops its run", async () => {
  await using _ = watchUnhandled();
  const model = heldModel();
  await using service = await startTestService({ script: model.script });
  const controller = new AbortController();
  const response = await service.chat(hi, { signal: controller.signal });
  const runId = response.headers.get("x-agent-run-id")!;
  for await (const frame of readFrames(response)) if (frame.data?.includes("begun")) break;
  controller.abort();
  assert.equal(await ended(service, runId), "run.cancelled");
  await assertHealthy(service);
});

test("a client that leaves while it waits for the whole answer stops its run", async () => {
  await using _ = watchUnhandled();
  const model = heldModel();
  await using service = await startTestService({ script: model.script });
  const controller = new AbortController();
  const answer = service.chat({ ...hi, stream: false }, { signal: controller.signal });
  const [started] = await firstEvents(service, "message.delta");
  controller.abort();
  await assert.rejects(answer);
  assert.equal(await ended(service, started!), "run.cancelled");
});

/** The ids of the runs of the first session, once one of them has an event of this type. */
async function firstEvents(service: TestService, type: string): Promise<string[]> {
  const { store } = service.service;
  for (;;) {
    const runs = await store.read.selectFrom("runs").select("id").execute();
    for (const { id } of runs) {
      for await (const group of store.journal.follow({ runId: id })) {
        if (group.some((event) => event.type === type)) return runs.map((run) => run.id);
      }
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

for (const stream of [true, false]) {
  test(`with on_disconnect continue the run continues without its client, stream ${stream}`, async () => {
    await using _ = watchUnhandled();
    const model = heldModel();
    await using service = await startTestService({ script: model.script });
    const controller = new AbortController();
    const body = { ...hi, stream, agent: { on_disconnect: "continue" } };
    const answer = service.chat(body, { signal: controller.signal }).then((response) => response.text());
    answer.catch(() => {});
    const [runId] = await firstEvents(service, "message.delta");
    controller.abort();
    await assert.rejects(answer);
    // The service has noticed the leaving once it answers anew on other connections.
    for (let i = 0; i < 5; i++) await assertHealthy(service);
    model.release();
    assert.equal(await ended(service, runId!), "run.completed");
    const run = await (await service.request(`/v1/runs/${runId}`)).json();
    assert.equal(run.output, "begun ended");
  });
}

test("a slow reader of a long stream loses nothing", async () => {
  const words = Array.from({ length: 20_000 }, (_, index) => `word${index}-${"x".repeat(50)}`).join(" ");
  await using service = await startTestService({ script: () => ({ text: parts(words) }) });
  const response = await post(service, hi);
  response.pause();
  assert.equal(await ended(service, String(response.headers["x-agent-run-id"])), "run.completed");
  let text = "";
  response.setEncoding("utf8");
  for await (const piece of response) text += piece;
  const said = text
    .split("\n\n")
    .filter((frame) => frame.includes("data: {"))
    .map((frame) => JSON.parse(frame.slice(frame.indexOf("{"))).choices[0]?.delta?.content ?? "")
    .join("");
  assert.equal(said, `${words} `);
  assert.ok(text.endsWith("data: [DONE]\n\n"));
});

test("many concurrent streams each get their own answer, complete and in order", async () => {
  await using service = await startTestService({
    script: ({ user }) => ({ text: parts(`${user} ${user} ${user} over ${user}`) }),
  });
  const names = Array.from({ length: 60 }, (_, index) => `client${index}`);
  const answers = await Promise.all(
    names.map(async (content) => {
      const frames = await readData(
        await service.chat({ messages: [{ role: "user", content }], stream: true }),
      );
      assert.equal(frames.at(-1), "[DONE]");
      return (frames.slice(0, -1) as { choices: { delta: { content?: string } }[] }[])
        .map((frame) => frame.choices[0]?.delta.content ?? "")
        .join("");
    }),
  );
  assert.deepEqual(
    answers,
    names.map((name) => `${name} ${name} ${name} over ${name} `),
  );
});

test("when half of many clients leave, the others are not affected", async () => {
  await using _ = watchUnhandled();
  const model = heldModel();
  await using service = await startTestService({ script: model.script });
  const clients = await Promise.all(
    Array.from({ length: 30 }, async () => {
      const controller = new AbortController();
      return { controller, response: await service.chat(hi, { signal: controller.signal }) };
    }),
  );
  const ids = clients.map(({ response }) => response.headers.get("x-agent-run-id")!);
  for (const [index, { controller }] of clients.entries()) if (index % 2) controller.abort();
  for (const [index, id] of ids.entries()) {
    if (index % 2) assert.equal(await ended(service, id), "run.cancelled");
  }
  model.release();
  for (const [index, { response }] of clients.entries()) {
    if (index % 2) continue;
    assert.match(JSON.stringify(await readData(response)), / ended.*\[DONE\]/);
  }
});

test("HEAD answers as GET without a body, but not for operations that stream or write", async () => {
  await using service = await startTestService();
  for (const path of ["/health", "/v1/models", "/openapi.json"]) {
    const [head, get] = [await service.request(path, { method: "HEAD" }), await service.request(path)];
    assert.equal(head.status, 200, path);
    assert.equal(await head.text(), "");
    assert.equal(head.headers.get("content-type"), get.headers.get("content-type"));
    await get.text();
  }
  assert.equal((await service.request("/v1/models/nope", { method: "HEAD" })).status, 404);
  const chat = await service.request("/v1/chat/completions", { method: "HEAD" });
  assert.equal(chat.status, 405);
  assert.equal(chat.headers.get("allow"), "POST");
});

test("at level info the log holds neither keys nor prompts", async () => {
  const broken = defineTool({
    name: "broken",
    toolset: "planning",
    description: "Fails.",
    parameters: { type: "object", properties: { text: { type: "string" } } },
    inspect: ({ text }: { readonly text: string }) => ({ kind: "tool", effect: "none", title: text }),
    run: async () => {
      throw new Error("out of order");
    },
  });
  await using service = await startTestService({
    tools: [broken],
    script: ({ user, step }) => {
      if (user.includes("fail")) return { error: { code: "provider_error", message: "no luck" } };
      if (user.includes("crash")) throw new Error("the engine is out of order");
      const calls = step === 0 ? [{ tool: "broken", input: { text: "quokka" } }] : [];
      return { text: "the answer is xylophone", calls };
    },
  });
  for (const content of ["quokka", "quokka fail", "quokka crash"]) {
    await (await service.chat({ messages: [{ role: "user", content }] })).text();
  }
  await (await service.chat({ messages: [{ role: "quokka", content: 7 }] })).text();
  await (await service.chat('{"messages": quokka')).text();
  await (await service.request(`/v1/runs/quokka?key=${KEY}`)).text();
  await (await service.request("/", { headers: { authorization: `Bearer ${KEY}x` } })).text();
  const log = service.logLines.join("");
  assert.match(log, /"message":"a tool failed unexpectedly".*out of order/);
  assert.doesNotMatch(log, /quokka|xylophone|test-key/);
});

test("the session headers of an answer continue its session", async () => {
  await using service = await startTestService({
    script: ({ messages }) => ({ text: `${messages.length} messages` }),
  });
  const say = async (headers: Record<string, string>) => {
    const response = await service.chat({ ...hi, stream: false }, { headers });
    const { choices } = await response.json();
    return {
      text: choices[0].message.content as string,
      id: response.headers.get("x-agent-session-id")!,
      key: response.headers.get("x-agent-session-key"),
    };
  };
  const first = await say({});
  assert.equal(first.key, null);
  const second = await say({ "x-agent-session-id": first.id });
  assert.deepEqual([second.id, second.text], [first.id, "3 messages"]);
  const keyed = await say({ "x-agent-session-key": "chat:room 1/" });
  assert.equal(keyed.key, "chat:room 1/");
  assert.notEqual(keyed.id, first.id);
});

test("a session key selects the newest session that has it", async () => {
  await using service = await startTestService();
  const say = async (headers: Record<string, string>) => {
    const response = await service.chat({ ...hi, stream: false }, { headers });
    assert.equal(response.status, 200, await response.text());
    return response.headers.get("x-agent-session-id");
  };
  const key = { "x-agent-session-key": "room" };
  const first = await say(key);
  assert.equal(await say(key), first);
  assert.equal(await say({ ...key, "x-agent-session-id": "newer" }), "newer");
  assert.equal(await say(key), "newer");
  // Speaking in the older one does not make it the newest.
  assert.equal(await say({ "x-agent-session-id": first! }), first);
  assert.equal(await say(key), "newer");
});
