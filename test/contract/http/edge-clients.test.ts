/** What the clients of other people's servers send and expect at the edge. */
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { test } from "node:test";
import { assertError, scenario } from "../../harness/scenario.ts";
import { startTestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";

const hi = { messages: [{ role: "user", content: "hi" }] };
const provider = { name: "stub", type: "openai_compatible", models: [] };

scenario(
  "createChatCompletion",
  415,
  { title: "a compressed body is refused with the encodings that are accepted" },
  async (service) => {
    const response = await service.request("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
      body: gzipSync(JSON.stringify(hi)),
    });
    assert.equal(response.headers.get("accept-encoding"), "identity");
    const error = await assertError(response, 415, "unsupported_media_type");
    assert.match(error.message, /"gzip" is not supported\. Send the body without compression\./);
  },
);

scenario(
  "createChatCompletion",
  415,
  { title: "another media type is not a matter of encodings" },
  async (service) => {
    const response = await service.request("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "text/plain" },
      body: "{}",
    });
    assert.equal(response.headers.get("accept-encoding"), null);
    await assertError(response, 415, "unsupported_media_type");
  },
);

test("operations of OpenAI that do not exist here are 404, not methods of a response", async () => {
  await using service = await startTestService();
  for (const path of ["/v1/responses/compact", "/v1/responses/input_tokens"]) {
    const response = await service.request(path, { method: "POST", body: "{}" });
    await assertError(response, 404, "not_found");
  }
});

scenario("listRuns", 400, { title: "a query parameter that is given twice" }, async (service) => {
  const error = await assertError(await service.request("/v1/runs?limit=1&limit=2"), 400, "invalid_request");
  assert.equal(error.param, "limit");
});

test("errors about no field have an empty param in the responses format, which demands text, else null", async () => {
  const error = { code: "provider_error" as const, message: "hung up" };
  await using service = await startTestService({ script: () => ({ error }) });
  const paramOf = async (response: Response) => ((await response.json()) as ErrorBody).error.param;
  const post = (path: string, body: object) =>
    service.request(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  assert.equal(await paramOf(await service.request("/v1/responses/resp_none")), "");
  assert.equal(await paramOf(await post("/v1/responses", { input: "hi" })), "");
  assert.equal(await paramOf(await post("/v1/responses", { input: "hi", stream: true })), "");
  assert.equal(await paramOf(await service.request("/v1/runs/run_none")), null);
  assert.equal(await paramOf(await service.chat(hi)), null);
});

interface ErrorBody {
  readonly error: { readonly message: string; readonly param: string | null };
}

scenario(
  "createChatCompletion",
  200,
  {
    title: "an error in a stream is whole for readers that collect every line without data",
    script: () => ({ text: "begun", error: { code: "provider_error", message: "hung up" } }),
  },
  async (service) => {
    const text = await (await service.chat({ ...hi, stream: true })).text();
    // As the reader of go-openai does: what is not data, or is an error, is collected, and is one JSON text.
    const lines = text.split("\n").map((line) => line.trim());
    const collected = lines.flatMap((line) => {
      if (/^data:\s*\{"error":/.test(line)) return [line.replace(/^data:\s*/, "")];
      return line.startsWith("data:") ? [] : [line];
    });
    const { error } = JSON.parse(collected.join("")) as ErrorBody;
    assert.equal(error.message, "hung up");
  },
);

scenario(
  "createChatCompletion",
  200,
  { title: "frames are numbered for a client that can resume at the run's events" },
  async (service) => {
    const numbersOf = async (body: object) => {
      const ids: (string | undefined)[] = [];
      for await (const { id } of readFrames(await service.chat({ ...hi, ...body, stream: true })))
        ids.push(id);
      return ids.filter((id) => id !== undefined);
    };
    assert.deepEqual(await numbersOf({}), []);
    assert.ok((await numbersOf({ agent: { on_disconnect: "continue" } })).length > 0);
  },
);

scenario(
  "createChatCompletion",
  400,
  { title: "a model of a provider that does not exist is refused in the header", providers: [provider] },
  async (service) => {
    const send = (name: string) => service.chat(hi, { headers: { "x-agent-model": name } });
    const error = await assertError(await send("nope:zz"), 400, "model_not_found");
    assert.equal(error.param, "X-Agent-Model");
    assert.equal((await send("stub:zz")).headers.get("x-agent-model"), "stub:zz");
    assert.equal((await send("")).status, 200);
  },
);

scenario(
  "getModel",
  200,
  { title: "returns a model that a request may name", providers: [provider] },
  async (service) => {
    const response = await service.request("/v1/models/stub:echo");
    assert.equal(((await response.json()) as { id: string }).id, "stub:echo");
    await assertError(await service.request("/v1/models/nope:zz"), 404, "model_not_found");
  },
);
