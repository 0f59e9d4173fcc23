/** Scenarios of the HTTP API that need no knowledge of the server: its edge, chat completions and responses. */
import { randomUUID } from "node:crypto";
import { type Answer, eventsOf, type HttpTarget, type Json, documentedPaths, PROMPT } from "./http-target.ts";
import { must, mustEqual, type Scenario } from "./scenario.ts";

const chat = { messages: [{ role: "user", content: PROMPT }] };

function refused({ status, body }: Answer, wanted: number, what: string): Json {
  must(status === wanted, `${what} answers ${status}, expected ${wanted}`);
  must(typeof body?.error?.message === "string", `${what} has no error.message`);
  must(typeof body.error.code === "string", `${what} has no error.code`);
  return body.error;
}

const post = (
  target: HttpTarget,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
) => target.request(path, { method: "POST", body, headers });

const edge: readonly Scenario<HttpTarget>[] = [
  {
    title: "health answers without a key",
    run: async (target) => {
      const { status, body } = await target.request("/health", { keyed: false });
      mustEqual(status, 200, "the status");
      mustEqual(body?.status, "ok", "status in the body");
    },
  },
  {
    title: "a request without a key is 401 and says how to authenticate",
    run: async (target) => {
      const answer = await target.request("/v1/models", { keyed: false });
      refused(answer, 401, "a request without a key");
      const scheme = answer.headers.get("www-authenticate") ?? "";
      must(/^bearer/i.test(scheme), `WWW-Authenticate is "${scheme}", expected Bearer`);
    },
  },
  {
    title: "a request with a wrong key is 401",
    run: async (target) => {
      const headers = { authorization: "Bearer not-a-key" };
      refused(await target.request("/v1/models", { keyed: false, headers }), 401, "a wrong key");
    },
  },
  {
    title: "a prompt with a wrong key is 401 before its body is read",
    run: async (target) => {
      const headers = { authorization: "Bearer not-a-key" };
      const answer = await target.request("/v1/runs", { method: "POST", text: "{", keyed: false, headers });
      refused(answer, 401, "a wrong key");
    },
  },
  {
    title: "an unknown path is 404 with an error body",
    run: async (target) => {
      refused(await target.request("/v1/no-such-path", { known: false }), 404, "an unknown path");
    },
  },
  {
    title: "an unknown method is 405 and names the allowed ones",
    run: async (target) => {
      const answer = await target.request("/v1/models", { method: "DELETE", known: false });
      refused(answer, 405, "DELETE /v1/models");
      must(/GET/.test(answer.headers.get("allow") ?? ""), "Allow does not name GET");
    },
  },
  {
    title: "a body that is not JSON is 400",
    run: async (target) => {
      const answer = await target.request("/v1/chat/completions", { method: "POST", text: '{"messages": [' });
      refused(answer, 400, "a broken body");
    },
  },
  {
    title: "a body of another content type is 415",
    run: async (target) => {
      const headers = { "content-type": "text/plain" };
      const answer = await target.request("/v1/runs", { method: "POST", text: "hello", headers });
      refused(answer, 415, "a body of text");
    },
  },
  {
    title: "a body without a required field is 400 and names the field",
    run: async (target) => {
      const { param, message } = refused(await post(target, "/v1/runs", {}), 400, "a run without input");
      must(/input/.test(`${param} ${message}`), `the error does not name input: ${message}`);
    },
  },
  {
    title: "the models are listed and each can be read",
    run: async (target) => {
      const { body } = await target.request("/v1/models");
      must(body.data.length > 0, "no model is listed");
      const { id } = body.data[0];
      const one = await target.request(`/v1/models/${encodeURIComponent(id)}`);
      mustEqual(one.body?.id, id, "the id of the model");
      refused(await target.request("/v1/models/no-such-model"), 404, "an unknown model");
    },
  },
  {
    title: "the capabilities list endpoints that exist",
    run: async (target) => {
      const { body } = await target.request("/v1/capabilities");
      const known = new Set(documentedPaths().map((path) => path.replaceAll(/\{[^}]+\}/g, "{}")));
      const named = Object.values<{ path: string }>(body.endpoints).map(({ path }) => path);
      must(named.length > 0, "no endpoint is listed");
      const unknown = named.filter(
        (path) => path.startsWith("/v1/") && !known.has(path.replaceAll(/\{[^}]+\}|:\w+/g, "{}")),
      );
      mustEqual(unknown, [], "endpoints that the document does not have");
    },
  },
  {
    title: "the OpenAPI document is served without a key and has every path",
    run: async (target) => {
      const { body } = await target.request("/openapi.json", { keyed: false });
      const missing = documentedPaths().filter((path) => body?.paths?.[path] === undefined);
      mustEqual(missing, [], "paths that are missing");
    },
  },
];

const chats: readonly Scenario<HttpTarget>[] = [
  {
    title: "a chat is answered with a message, a finish reason and a usage that adds up",
    run: async (target) => {
      const { status, body } = await post(target, "/v1/chat/completions", chat);
      mustEqual(status, 200, "the status");
      const [choice] = body.choices;
      must(typeof choice?.message?.content === "string" && choice.message.content !== "", "there is no text");
      mustEqual(choice.finish_reason, "stop", "finish_reason");
      const { prompt_tokens: input, completion_tokens: output, total_tokens: total } = body.usage;
      mustEqual(total, input + output, "total_tokens");
    },
  },
  {
    title: "a streamed chat begins with the role, has one id and ends with the finish reason and [DONE]",
    run: async (target) => {
      const frames = await target.stream("/v1/chat/completions", {
        method: "POST",
        body: { ...chat, stream: true },
      });
      mustEqual(frames.at(-1)?.data, "[DONE]", "the last frame");
      const chunks = eventsOf(frames).filter(({ object }) => object === "chat.completion.chunk");
      mustEqual(chunks[0]?.choices[0]?.delta.role, "assistant", "the role of the first chunk");
      mustEqual(new Set(chunks.map(({ id }) => id)).size, 1, "the number of ids");
      const reasons = chunks
        .flatMap(({ choices }) => choices)
        .flatMap((choice: Json) => choice.finish_reason ?? []);
      mustEqual(reasons, ["stop"], "the finish reasons");
    },
  },
  {
    title: "a streamed chat with include_usage has one usage chunk, the last, and no other has usage",
    run: async (target) => {
      const body = { ...chat, stream: true, stream_options: { include_usage: true } };
      const chunks = eventsOf(await target.stream("/v1/chat/completions", { method: "POST", body })).filter(
        ({ object }) => object === "chat.completion.chunk",
      );
      const withUsage = chunks.flatMap(({ usage }, index) => (usage ? [index] : []));
      mustEqual(withUsage, [chunks.length - 1], "the chunks with usage");
      mustEqual(chunks.at(-1)?.choices, [], "the choices of the usage chunk");
    },
  },
  {
    title: "the text of a streamed chat is the output of its run",
    run: async (target) => {
      const body = { ...chat, stream: true };
      const { text, headers } = await target.request("/v1/chat/completions", { method: "POST", body });
      const runId = headers.get("x-agent-run-id");
      must(runId !== null, "X-Agent-Run-Id is missing");
      const said = [...text.matchAll(/^data: (\{.*\})$/gm)].map(
        ([, json = ""]) => (JSON.parse(json) as Json).choices?.[0]?.delta?.content ?? "",
      );
      const { body: run } = await target.request(`/v1/runs/${runId}`);
      mustEqual(said.join(""), run.output, "the streamed text");
    },
  },
  {
    title: "a session named by the client is used again",
    run: async (target) => {
      const headers = { "x-agent-session-id": randomUUID() };
      const first = await post(target, "/v1/chat/completions", chat, headers);
      const second = await post(target, "/v1/chat/completions", chat, headers);
      mustEqual(
        first.headers.get("x-agent-session-id"),
        headers["x-agent-session-id"],
        "the session of the first",
      );
      mustEqual(
        second.headers.get("x-agent-session-id"),
        headers["x-agent-session-id"],
        "the session of the second",
      );
    },
  },
  {
    title: "a chat without messages is 400",
    run: async (target) => {
      refused(await post(target, "/v1/chat/completions", { messages: [] }), 400, "a chat without messages");
    },
  },
  {
    title: "a chat with an Idempotency-Key is answered once, and its repetition is the same answer",
    run: async (target) => {
      const headers = { "idempotency-key": randomUUID() };
      const first = await post(target, "/v1/chat/completions", chat, headers);
      const again = await post(target, "/v1/chat/completions", chat, headers);
      mustEqual(again.body.id, first.body.id, "the id of the repetition");
      mustEqual(again.headers.get("idempotency-replayed"), "true", "Idempotency-Replayed");
    },
  },
];

const responses: readonly Scenario<HttpTarget>[] = [
  {
    title: "a response is stored, read, listed with its input, and deleted",
    run: async (target) => {
      const { body: made } = await post(target, "/v1/responses", { input: PROMPT });
      mustEqual(made.status, "completed", "the status");
      const path = `/v1/responses/${made.id}`;
      const { body: read } = await target.request(path);
      mustEqual(read.output, made.output, "the output as it was stored");
      const { body: items } = await target.request(`${path}/input_items`);
      must(JSON.stringify(items.data).includes(PROMPT), "the input items do not hold the prompt");
      const { body: gone } = await target.request(path, { method: "DELETE" });
      mustEqual(gone.deleted, true, "deleted");
      refused(await target.request(path), 404, "a deleted response");
    },
  },
  {
    title: "a response with store: false cannot be read later",
    run: async (target) => {
      const { body } = await post(target, "/v1/responses", { input: PROMPT, store: false });
      refused(await target.request(`/v1/responses/${body.id}`), 404, "a response that is not stored");
    },
  },
  {
    title: "the events of a streamed response are numbered without gaps, from created to completed",
    run: async (target) => {
      const body = { input: PROMPT, stream: true };
      const frames = await target.stream("/v1/responses", { method: "POST", body });
      const events = eventsOf(frames);
      mustEqual(events[0]?.type, "response.created", "the first event");
      mustEqual(events.at(-1)?.type, "response.completed", "the last event");
      const numbers = events.map(({ sequence_number: number }) => number);
      mustEqual(
        numbers,
        numbers.map((_, index) => numbers[0] + index),
        "the sequence numbers",
      );
      const named = frames.filter(
        ({ event, data }) => event !== undefined && JSON.parse(data).type !== event,
      );
      mustEqual(named.length, 0, "frames whose event is not their type");
    },
  },
  {
    title: "the deltas of a streamed response are its text",
    run: async (target) => {
      const events = eventsOf(
        await target.stream("/v1/responses", { method: "POST", body: { input: PROMPT, stream: true } }),
      );
      const deltas = events
        .filter(({ type }) => type === "response.output_text.delta")
        .map(({ delta }) => delta);
      const done = events.filter(({ type }) => type === "response.output_text.done").map(({ text }) => text);
      must(done.length > 0, "there is no response.output_text.done");
      mustEqual(deltas.join(""), done.join(""), "the text of the deltas");
    },
  },
  {
    title: "a response continues the previous one, and an unknown previous one is refused",
    run: async (target) => {
      const { body: first } = await post(target, "/v1/responses", { input: PROMPT });
      const { status, body } = await post(target, "/v1/responses", {
        input: PROMPT,
        previous_response_id: first.id,
      });
      mustEqual(status, 200, "the status");
      mustEqual(body.previous_response_id, first.id, "previous_response_id");
      const unknown = { input: PROMPT, previous_response_id: "resp_unknown" };
      const answer = await post(target, "/v1/responses", unknown);
      must([400, 404].includes(answer.status), `an unknown previous response answers ${answer.status}`);
    },
  },
];

export const httpScenarios: readonly Scenario<HttpTarget>[] = [...edge, ...chats, ...responses];
