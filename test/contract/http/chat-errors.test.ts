import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, assertHealthy, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestRequest } from "../../harness/service.ts";

const CHAT = "createChatCompletion";
const hi = { model: "agentd", messages: [{ role: "user", content: "hi" }] };

const imagePart = (url: string) => ({ type: "image_url", image_url: { url } });
const tool = (name: string, parameters?: object) => ({ type: "function", function: { name, parameters } });

for (const [title, body, code, param] of [
  ["malformed JSON", '{"messages": [', "invalid_json", null],
  ["an empty body", "", "invalid_json", null],
  ["bytes that are not UTF-8", "\u0000\ud800", "invalid_json", null],
  ["a missing field", {}, "missing_required_parameter", "messages"],
  ["a wrong type", { messages: "hi" }, "invalid_request", "messages"],
  ["no messages", { messages: [] }, "invalid_request", "messages"],
  ["an unknown role", { messages: [{ role: "robot", content: "x" }] }, "invalid_request", "messages[0].role"],
  ["an unknown field where closed", { ...hi, agent: { nope: 1 } }, "invalid_request", undefined],
  [
    "a prompt that is not the user's",
    { messages: [{ role: "assistant", content: "x" }] },
    "invalid_request",
    "messages",
  ],
  [
    "an image that is neither a data URL nor an address",
    { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] },
    "invalid_image_url",
    "messages[0].content[0].image_url.url",
  ],
  [
    "an image that is none",
    { messages: [{ role: "user", content: [imagePart("data:image/png;base64,aGFsbG8=")] }] },
    "invalid_image_url",
    "messages[0].content[0].image_url.url",
  ],
  [
    "an image of a private address",
    { messages: [{ role: "user", content: [imagePart("http://127.0.0.1:1/x.png")] }] },
    "invalid_image_url",
    "messages[0].content[0].image_url.url",
  ],
  [
    "an image where only text is allowed",
    { messages: [{ role: "system", content: [imagePart("data:,")] }, hi.messages[0]] },
    "invalid_content_part",
    "messages[0].content[0].image_url.url",
  ],
  [
    "a text part without text",
    { messages: [{ role: "user", content: [{ type: "text" }] }] },
    "invalid_content_part",
    "messages[0].content[0].text",
  ],
  [
    "a file by its id",
    { messages: [{ role: "user", content: [{ type: "file", file: { file_id: "f" } }] }] },
    "invalid_content_part",
    "messages[0].content[0].file.file_data",
  ],
  [
    "a part of an unknown kind",
    { messages: [{ role: "user", content: [{ type: "hologram" }] }] },
    "unsupported_content_type",
    "messages[0].content[0].type",
  ],
  [
    "a tool without a function",
    { ...hi, tools: [{ type: "function" }] },
    "missing_required_parameter",
    undefined,
  ],
  ["a tool with a bad name", { ...hi, tools: [tool("no spaces")] }, "invalid_request", undefined],
  ["two tools of one name", { ...hi, tools: [tool("a"), tool("a")] }, "invalid_request", "tools[1]"],
  [
    "parameters that are no object",
    { ...hi, tools: [tool("a", { type: "string" })] },
    "invalid_request",
    "tools[0]",
  ],
  [
    "a choice that is not among the tools",
    { ...hi, tools: [tool("a")], tool_choice: { type: "function", function: { name: "b" } } },
    "invalid_request",
    "tool_choice",
  ],
  ["a required choice of nothing", { ...hi, tool_choice: "required" }, "invalid_request", "tool_choice"],
  ["several choices", { ...hi, n: 2 }, "unsupported_parameter", "n"],
  ["an unknown toolset", { ...hi, agent: { toolsets: ["root"] } }, "invalid_request", "agent.toolsets[0]"],
  [
    "too many messages",
    { messages: Array.from({ length: 6 }, () => hi.messages[0]) },
    "invalid_request",
    "messages",
  ],
  [
    "too much text",
    { messages: [{ role: "user", content: "x".repeat(300) }] },
    "string_above_max_length",
    "messages[0].content",
  ],
] as const) {
  const config = { limits: { max_messages: 5, max_text_bytes: 200 } };
  scenario(CHAT, 400, { title: `${title} is refused with its error code`, config }, async (service) => {
    const error = await assertError(await service.chat(body), 400, code);
    if (param !== undefined) assert.equal(error.param, param);
    await assertHealthy(service);
  });
}

scenario(
  CHAT,
  400,
  {
    title: "an unknown model is refused when configured so",
    config: { api_server: { unknown_model: "reject" } },
  },
  async (service) => {
    const inBody = await assertError(
      await service.chat({ ...hi, model: "gpt-none" }),
      400,
      "model_not_found",
    );
    assert.equal(inBody.param, "model");
    const headers = { "x-agent-model": "nobody:none" };
    const inHeader = await assertError(await service.chat(hi, { headers }), 400, "model_not_found");
    assert.equal(inHeader.param, "X-Agent-Model");
  },
);

scenario(
  CHAT,
  400,
  { title: "session names that could not be a file name or a header are refused" },
  async (service) => {
    for (const id of ["a/b", "..", "a\\b", "x".repeat(257)]) {
      await assertError(
        await service.chat(hi, { headers: { "x-agent-session-id": id } }),
        400,
        "invalid_session_id",
      );
    }
    const key = { "x-agent-session-key": "k".repeat(257) };
    await assertError(await service.chat(hi, { headers: key }), 400, "invalid_session_key");
    const inBody = { ...hi, agent: { session_id: "bell\u0007" } };
    await assertError(await service.chat(inBody), 400, "invalid_session_id");
  },
);

scenario(CHAT, 401, { title: "a missing or wrong key is refused" }, async (service) => {
  const none = await service.chat(hi, { headers: { authorization: "" } });
  assert.equal(none.headers.get("www-authenticate"), "Bearer");
  await assertError(none, 401, "missing_api_key");
  const basic = await service.chat(hi, { headers: { authorization: "Basic abc" } });
  await assertError(basic, 401, "missing_api_key");
  const wrong = await service.chat(hi, { headers: { authorization: "Bearer wrong" } });
  assert.ok(!(await wrong.clone().text()).includes("wrong"), "the presented key is not repeated");
  await assertError(wrong, 401, "invalid_api_key");
});

const readOnly = [{ key: KEY, name: "reader", scopes: ["read"] }];
scenario(CHAT, 403, { title: "a key without the scope chat", keys: readOnly }, async (service) => {
  await assertError(await service.chat(hi), 403, "insufficient_scope");
});

scenario(
  CHAT,
  403,
  { title: "sessions and foreign host names are refused while keys are off", requireKey: false },
  async (service) => {
    assert.equal((await service.chat(hi)).status, 200);
    const headers = { "x-agent-session-id": "s" };
    await assertError(await service.chat(hi, { headers }), 403, "auth_required_for_session");
  },
);

const twoKeys = [
  { key: KEY, name: "a", scopes: ["chat"] },
  { key: "another-key-0123456789", name: "b", scopes: ["chat"] },
];
scenario(CHAT, 404, { title: "another owner's session does not exist", keys: twoKeys }, async (service) => {
  const id = (await service.chat(hi)).headers.get("x-agent-session-id")!;
  const other = { "x-agent-session-id": id, authorization: "Bearer another-key-0123456789" };
  await assertError(await service.chat(hi, { headers: other }), 404, "session_not_found");
});

scenario(
  CHAT,
  408,
  {
    title: "a body that does not arrive in time is refused",
    config: { limits: { body_timeout_seconds: 1 } },
  },
  async (service) => {
    const { hostname, port } = new URL(service.url);
    const { connect } = await import("node:net");
    const socket = connect(Number(port), hostname);
    let text = "";
    const ended = new Promise<void>((resolve) => {
      socket.on("data", (bytes) => {
        text += bytes.toString();
        if (text.includes('"request_timeout"')) resolve();
      });
      socket.on("close", () => resolve());
    });
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"mess`,
    );
    await ended;
    socket.destroy();
    assert.match(text, /^HTTP\/1\.1 408/);
    assert.match(text, /body_timeout_seconds/);
    await assertHealthy(service);
  },
);

scenario(
  CHAT,
  409,
  {
    title: "a busy session refuses when configured so",
    config: { sessions: { when_busy: "reject" } },
    script: ({ signal }) => ({ text: until(signal) }),
  },
  async (service) => {
    const headers = { "x-agent-session-id": "one" };
    const first = await service.chat({ ...hi, stream: true }, { headers });
    const second = await service.chat(hi, { headers });
    assert.equal(second.headers.get("x-should-retry"), "false");
    await assertError(second, 409, "session_busy");
    await first.body?.cancel();
  },
);

/** A text that says one word and then waits until the run is stopped. */
async function* until(signal: AbortSignal): AsyncGenerator<string> {
  yield "working";
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

scenario(
  CHAT,
  413,
  {
    title: "a body over the limit, declared or chunked, is refused, and the connection stays usable",
    config: { limits: { max_body_bytes: 1024 } },
  },
  async (service) => {
    const big = JSON.stringify({ messages: [{ role: "user", content: "x".repeat(5000) }] });
    const declared = await service.chat(big);
    const error = await assertError(declared, 413, "body_too_large");
    assert.match(error.message, /1024 bytes/);
    const chunks = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 50; i++) controller.enqueue(new TextEncoder().encode(" ".repeat(100)));
        controller.close();
      },
    });
    const chunked = await service.request("/v1/chat/completions", {
      method: "POST",
      body: chunks,
      headers: { "content-type": "application/json" },
      duplex: "half",
    } as TestRequest);
    await assertError(chunked, 413, "body_too_large");
    await assertHealthy(service);
  },
);

scenario(
  CHAT,
  415,
  { title: "another content type is refused; +json and a missing one are accepted" },
  async (service) => {
    const headers = { "content-type": "text/plain" };
    await assertError(await service.chat(hi, { headers }), 415, "unsupported_media_type");
    assert.equal(
      (await service.chat(hi, { headers: { "content-type": "application/vnd.x+json; charset=utf-8" } }))
        .status,
      200,
    );
  },
);

scenario(
  CHAT,
  429,
  {
    title: "more runs at once than the limit",
    config: { limits: { max_concurrent_runs: 1 } },
    script: ({ signal }) => ({ text: until(signal) }),
  },
  async (service) => {
    const first = await service.chat({ ...hi, stream: true });
    const second = await service.chat(hi);
    assert.equal(second.headers.get("retry-after"), "1");
    await assertError(second, 429, "too_many_concurrent_runs");
    await first.body?.cancel();
  },
);

scenario(
  CHAT,
  500,
  {
    title: "a bug in the engine is an internal error without its message",
    script: () => {
      throw new Error("boom at /etc/secret");
    },
  },
  async (service) => {
    const response = await service.chat(hi);
    const error = await assertError(response, 500, "internal_error");
    for (const name of ["x-agent-run-id", "x-agent-session-id", "x-agent-model"]) {
      assert.ok(response.headers.get(name), name);
    }
    assert.ok(!error.message.includes("/etc/secret"), error.message);
    await assertHealthy(service);
  },
);

scenario(
  CHAT,
  502,
  {
    title: "a provider error, which says not to retry after a tool ran",
    script: ({ user, step }) =>
      user === "tool" && step === 0
        ? { calls: [{ tool: "read_file", input: { path: "x" } }] }
        : { error: { code: "provider_error", message: "the provider is down" } },
  },
  async (service) => {
    const first = await service.chat(hi);
    assert.equal(first.headers.get("x-should-retry"), null);
    await assertError(first, 502, "provider_error");
    const second = await service.chat({ messages: [{ role: "user", content: "tool" }] });
    assert.equal(second.headers.get("x-should-retry"), "false");
    await assertError(second, 502, "provider_error");
  },
);

scenario(
  CHAT,
  503,
  { title: "a server that shuts down, or whose store is gone, says when to retry" },
  async (service) => {
    await service.service.store.close();
    await assertError(await service.chat(hi), 503, "state_store_unavailable");
    const stopping = service.service.runs.drain(0);
    const response = await service.chat(hi);
    assert.equal(response.headers.get("retry-after"), "1");
    await assertError(response, 503, "server_draining");
    await stopping;
  },
);

scenario(
  CHAT,
  504,
  {
    title: "a run that exceeds its time limit",
    config: { agent: { timeout_seconds: 1 } },
    script: ({ signal }) => ({ text: until(signal) }),
  },
  async (service) => {
    await assertError(await service.chat(hi), 504, "agent_timeout");
  },
);

scenario(
  CHAT,
  400,
  { title: "names that no header can carry are refused or not resolved, and never fail the server" },
  async (service) => {
    const inBody = { ...hi, agent: { session_id: "会話" } };
    await assertError(await service.chat(inBody), 400, "invalid_session_id");
    assert.equal((await service.chat({ ...hi, model: "gpt-模型" })).status, 200);
    assert.equal((await service.chat(hi, { headers: { "x-agent-session-id": "caf\u00e9" } })).status, 200);
  },
);

test("an image at a private address is refused with the hint to send a data URL", async () => {
  await using service = await startTestService();
  const image = imagePart("http://127.0.0.1:1/x.png");
  const response = await service.chat({ messages: [{ role: "user", content: [image] }] });
  const { error } = (await response.json()) as { readonly error: { readonly message: string } };
  const { message } = error;
  assert.match(message, /127\.0\.0\.1 is refused: .*Send it as a data URL/);
  assert.doesNotMatch(message, /allowed_private_hosts|allowed_hosts/);
});
