import assert from "node:assert/strict";
import { respond, responseOf } from "../../harness/responses.ts";
import { assertError, assertHealthy, scenario } from "../../harness/scenario.ts";
import { KEY } from "../../harness/service.ts";

const CREATE = "createResponse";
const hi = { input: "hi" };
const said = (content: unknown) => ({ input: [{ role: "user", content }] });

for (const [title, body, code, param] of [
  ["no input", {}, "missing_required_parameter", "input"],
  ["an empty text", { input: "" }, "missing_required_parameter", "input"],
  ["an empty list", { input: [] }, "missing_required_parameter", "input"],
  ["input of a wrong type", { input: 5 }, "invalid_request", "input"],
  ["an item that is none", { input: [{}] }, "invalid_request", "input[0]"],
  ["an item of an unknown type", { input: [{ type: "hologram" }] }, "invalid_request", "input[0].type"],
  [
    "a message without a role",
    { input: [{ type: "message", content: "x" }] },
    "invalid_request",
    "input[0].role",
  ],
  ["a message without content", { input: [{ role: "user" }] }, "invalid_request", "input[0].content"],
  ["content that is not a list of parts", said([5]), "invalid_request", "input[0].content"],
  [
    "a part of an unknown kind",
    said([{ type: "smell" }]),
    "unsupported_content_type",
    "input[0].content[0].type",
  ],
  [
    "an image that is none",
    said([{ type: "input_image", image_url: "data:image/png;base64,aGFsbG8=" }]),
    "invalid_image_url",
    "input[0].content[0].image_url",
  ],
  [
    "a file by its id",
    said([{ type: "input_file", file_id: "f" }]),
    "invalid_content_part",
    "input[0].content[0].file_data",
  ],
  [
    "an image where only text is allowed",
    {
      input: [
        { role: "system", content: [{ type: "input_image", image_url: "data:," }] },
        { role: "user", content: "x" },
      ],
    },
    "invalid_content_part",
    "input[0].content[0].image_url",
  ],
  [
    "a call without an id",
    { input: [{ type: "function_call", name: "f" }] },
    "invalid_request",
    "input[0].call_id",
  ],
  [
    "a call without a name",
    { input: [{ type: "function_call", call_id: "c" }] },
    "invalid_request",
    "input[0].name",
  ],
  [
    "an output without an id",
    { input: [{ type: "function_call_output", output: "x" }] },
    "invalid_request",
    "input[0].call_id",
  ],
  [
    "an output of nothing",
    { input: [{ type: "function_call_output", call_id: "c" }] },
    "invalid_request",
    "input[0].output",
  ],
  [
    "an approval, which has its own operation",
    { input: [{ type: "mcp_approval_response", approve: true }] },
    "invalid_request",
    "input[0]",
  ],
  [
    "an end that is not the user's",
    { input: [{ role: "assistant", content: "x" }] },
    "invalid_request",
    "input",
  ],
  ["only what is ignored", { input: [{ type: "reasoning", summary: [] }] }, "invalid_request", "input"],
  [
    "too many items",
    { input: Array.from({ length: 6 }, () => ({ role: "user", content: "x" })) },
    "invalid_request",
    "input",
  ],
  ["too long a text", { input: "x".repeat(300) }, "string_above_max_length", "input"],
  ["too long an item", said("x".repeat(300)), "string_above_max_length", "input[0].content"],
  [
    "too long instructions",
    { ...hi, instructions: "x".repeat(300) },
    "string_above_max_length",
    "instructions",
  ],
  [
    "a tool of the provider's",
    { ...hi, tools: [{ type: "web_search" }] },
    "unsupported_parameter",
    "tools[0].type",
  ],
  [
    "a tool that is no function",
    { ...hi, tools: [{ type: "computer", name: "c" }] },
    "unsupported_parameter",
    "tools[0].type",
  ],
  [
    "two tools of one name",
    {
      ...hi,
      tools: [
        { type: "function", name: "a" },
        { type: "function", name: "a" },
      ],
    },
    "invalid_request",
    "tools[1]",
  ],
  [
    "a choice that is not among the tools",
    { ...hi, tool_choice: { type: "function", name: "b" } },
    "invalid_request",
    "tool_choice",
  ],
  [
    "a text format without its schema",
    { ...hi, text: { format: { type: "json_schema", name: "a" } } },
    "missing_required_parameter",
    "text.format.schema",
  ],
  [
    "a background response that is not stored",
    { ...hi, background: true, store: false },
    "invalid_request",
    "store",
  ],
  [
    "a conversation and a previous response",
    { ...hi, conversation: "c", previous_response_id: "resp_x" },
    "invalid_request",
    "conversation",
  ],
  [
    "a conversation's name that cannot be",
    { ...hi, conversation: "bell\u0007" },
    "invalid_session_key",
    "conversation",
  ],
  ["an empty conversation", { ...hi, conversation: { id: "" } }, "invalid_session_key", "conversation"],
  ["an unknown toolset", { ...hi, agent: { toolsets: ["root"] } }, "invalid_request", "agent.toolsets[0]"],
  [
    "more metadata than is taken",
    { ...hi, metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"])) },
    "invalid_request",
    "metadata",
  ],
] as const) {
  const config = { limits: { max_messages: 5, max_text_bytes: 200 } };
  scenario(CREATE, 400, { title: `${title} is refused with its error code`, config }, async (service) => {
    const error = await assertError(await respond(service, body), 400, code);
    if (param !== undefined) assert.equal(error.param, param);
    await assertHealthy(service);
  });
}

scenario(
  CREATE,
  400,
  { title: "a conversation in the body that differs from the one in the header" },
  async (service) => {
    const headers = { "x-agent-session-key": "a" };
    const answer = await respond(service, { ...hi, conversation: "b" }, { headers });
    assert.equal((await assertError(answer, 400, "invalid_request")).param, "conversation");
    assert.equal((await respond(service, { ...hi, conversation: "a" }, { headers })).status, 200);
  },
);

scenario(
  CREATE,
  403,
  { title: "a conversation is refused while keys are off", requireKey: false },
  async (service) => {
    await assertError(await respond(service, { ...hi, conversation: "c" }), 403, "auth_required_for_session");
    const headers = { "x-agent-session-id": "s" };
    await assertError(await respond(service, hi, { headers }), 403, "auth_required_for_session");
    const { id } = await responseOf(service, hi);
    assert.equal((await respond(service, { ...hi, previous_response_id: id })).status, 200);
  },
);

const twoKeys = [
  { key: KEY, name: "a", scopes: ["chat"] },
  { key: "another-key-0123456789", name: "b", scopes: ["chat"] },
];
scenario(
  CREATE,
  404,
  { title: "another key's previous response, or session", keys: twoKeys },
  async (service) => {
    const { id, agent } = await responseOf(service, hi);
    const headers = { authorization: "Bearer another-key-0123456789" };
    const answer = await respond(service, { ...hi, previous_response_id: id }, { headers });
    assert.equal(
      (await assertError(answer, 404, "previous_response_not_found")).param,
      "previous_response_id",
    );
    const named = { headers: { ...headers, "x-agent-session-id": agent!.session_id } };
    await assertError(await respond(service, hi, named), 404, "session_not_found");
    await assertError(
      await respond(service, { ...hi, previous_response_id: "resp_none" }),
      404,
      "previous_response_not_found",
    );
  },
);

/** A text that says one word and then waits until the run is stopped. */
async function* until(signal: AbortSignal): AsyncGenerator<string> {
  yield "working";
  if (!signal.aborted)
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

scenario(
  CREATE,
  409,
  {
    title: "a busy session refuses when configured so",
    config: { sessions: { when_busy: "reject" } },
    script: ({ signal }) => ({ text: until(signal) }),
  },
  async (service) => {
    const first = await responseOf(service, { ...hi, background: true });
    const second = await respond(service, { ...hi, previous_response_id: first.id });
    assert.equal(second.headers.get("x-should-retry"), "false");
    await assertError(second, 409, "session_busy");
    // The refused request took nothing: the same one still goes on in the session.
    const row = await service.service.store.read
      .selectFrom("responses")
      .selectAll()
      .executeTakeFirstOrThrow();
    assert.equal(row.next_id, null);
  },
);

scenario(
  CREATE,
  429,
  {
    title: "more runs than the limit; an unused branch is deleted",
    config: { limits: { max_concurrent_runs: 1 } },
    script: ({ user, signal }) => ({ text: user === "slow" ? until(signal) : "ok" }),
  },
  async (service) => {
    const one = await responseOf(service, hi);
    await responseOf(service, { ...hi, previous_response_id: one.id });
    await responseOf(service, { input: "slow", background: true });
    const before = await service.service.store.read.selectFrom("sessions").select("id").execute();
    const refused = await respond(service, { ...hi, previous_response_id: one.id });
    await assertError(refused, 429, "too_many_concurrent_runs");
    const after = await service.service.store.read.selectFrom("sessions").select("id").execute();
    assert.equal(after.length, before.length);
  },
);

scenario(
  CREATE,
  500,
  {
    title: "a bug in the engine is an internal error",
    script: () => {
      throw new Error("boom at /etc/secret");
    },
  },
  async (service) => {
    const answer = await respond(service, hi);
    assert.ok(answer.headers.get("x-agent-run-id"));
    const error = await assertError(answer, 500, "internal_error");
    assert.ok(!error.message.includes("/etc/secret"), error.message);
  },
);

scenario(
  CREATE,
  502,
  {
    title: "a provider error, which says not to retry after a tool ran",
    script: ({ user, step }) =>
      user === "tool" && step === 0
        ? { calls: [{ tool: "read_file", input: { path: "x" } }] }
        : { error: { code: "provider_error", message: "the provider is down" } },
  },
  async (service) => {
    const first = await respond(service, hi);
    assert.equal(first.headers.get("x-should-retry"), null);
    await assertError(first, 502, "provider_error");
    const second = await respond(service, { input: "tool" });
    assert.equal(second.headers.get("x-should-retry"), "false");
    await assertError(second, 502, "provider_error");
  },
);

scenario(
  CREATE,
  504,
  {
    title: "a run that exceeds its time limit",
    config: { agent: { timeout_seconds: 1 } },
    script: ({ signal }) => ({ text: until(signal) }),
  },
  async (service) => {
    await assertError(await respond(service, hi), 504, "agent_timeout");
  },
);
