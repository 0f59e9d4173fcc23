import assert from "node:assert/strict";
import { test } from "node:test";
import {
  describeRunEnd,
  endModelSpan,
  endToolSpan,
  startModelSpan,
  startRunSpan,
  startToolSpan,
} from "../../../src/agent/usage/spans.ts";
import { outcomeOf } from "../../../src/agent/run/control.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { noSpan, offTracer } from "../../../src/base/observe.ts";
import { KeepingTracer } from "../../harness/tracer.ts";

const run = { id: "run_1", session_id: "ses_1", kind: "chat", model: "local:org/model:7b" };
const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const usage = {
  inputTokens: 10,
  outputTokens: 5,
  cachedInputTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
  modelCalls: 2,
  toolCalls: 1,
  costNano: 0,
  unpricedTokens: 0,
};
const noStop = { stop: undefined, pendingSteer: [] };

test("a run is invoke_agent, with agent, conversation, model and usage", () => {
  const tracer = new KeepingTracer();
  const span = startRunSpan({ tracer, agentName: "helper" }, run, parent);
  const end = { stop: "end", text: "the secret answer", usage } as const;
  describeRunEnd(span, end, outcomeOf(run, end, noStop));
  const kept = tracer.span("invoke_agent helper");
  assert.equal(kept.kind, "internal");
  assert.equal(kept.parent, parent);
  assert.equal(kept.error, undefined);
  assert.deepEqual(kept.attributes, {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.provider.name": "local",
    "gen_ai.request.model": "org/model:7b",
    "gen_ai.agent.name": "helper",
    "gen_ai.conversation.id": "ses_1",
    "gen_ai.usage.input_tokens": 10,
    "gen_ai.usage.output_tokens": 5,
    "gen_ai.usage.cache_read.input_tokens": 3,
    "gen_ai.usage.cache_creation.input_tokens": 2,
    "gen_ai.usage.reasoning.output_tokens": 1,
    "gen_ai.response.finish_reasons": ["end"],
    "agentd.run.id": "run_1",
    "agentd.run.kind": "chat",
    "agentd.run.status": "completed",
    "agentd.run.model_calls": 2,
    "agentd.run.tool_calls": 1,
  });
});

test("a failed run reports the code of its error", () => {
  const tracer = new KeepingTracer();
  const span = startRunSpan({ tracer, agentName: "a" }, run, undefined);
  const error = { code: "provider_error", message: "it said: hello" } as const;
  const end = { stop: "error", text: "", usage, error } as const;
  describeRunEnd(span, end, outcomeOf(run, end, noStop));
  assert.equal(tracer.span("invoke_agent a").error, "provider_error");
});

test("a cancelled run is not an error", () => {
  const tracer = new KeepingTracer();
  const span = startRunSpan({ tracer, agentName: "a" }, run, undefined);
  const end = { stop: "aborted", text: "", usage } as const;
  describeRunEnd(span, end, outcomeOf(run, end, noStop));
  const kept = tracer.span("invoke_agent a");
  assert.equal(kept.error, undefined);
  assert.equal(kept.attributes["agentd.run.status"], "cancelled");
});

test("a model call is chat, a client span with provider, settings, address, usage and finish reason", () => {
  const tracer = new KeepingTracer();
  const root = tracer.start("root");
  const span = startModelSpan(
    root,
    { provider: "local", id: "m" },
    {
      provider: { name: "local", type: "openai_compatible", baseUrl: "http://127.0.0.1:8080/v1" },
      settings: { temperature: 0.5, maxOutputTokens: 100 },
    },
  );
  endModelSpan(span, { usage, finish: "stop" });
  const kept = tracer.span("chat m");
  assert.deepEqual([kept.kind, kept.parent, kept.ends], ["client", root.traceparent, 1]);
  const { attributes } = kept;
  assert.equal(attributes["gen_ai.operation.name"], "chat");
  assert.equal(attributes["gen_ai.provider.name"], "local");
  assert.equal(attributes["gen_ai.request.model"], "m");
  assert.equal(attributes["gen_ai.request.temperature"], 0.5);
  assert.equal(attributes["gen_ai.request.max_tokens"], 100);
  assert.ok(!("gen_ai.request.top_p" in attributes));
  assert.deepEqual([attributes["server.address"], attributes["server.port"]], ["127.0.0.1", 8080]);
  assert.equal(attributes["gen_ai.usage.input_tokens"], 10);
  assert.deepEqual(attributes["gen_ai.response.finish_reasons"], ["stop"]);
});

test("providers have their well-known names", () => {
  const tracer = new KeepingTracer();
  const root = tracer.start("root");
  const nameOf = (type: string) => {
    const place = { name: "mine", type, baseUrl: "https://api.example.com" };
    startModelSpan(root, { provider: "mine", id: type }, { provider: place, settings: {} });
    return tracer.span(`chat ${type}`).attributes["gen_ai.provider.name"];
  };
  assert.deepEqual(["openai", "anthropic", "google", "openrouter", "openai_compatible"].map(nameOf), [
    "openai",
    "anthropic",
    "gcp.gemini",
    "openrouter",
    "mine",
  ]);
  assert.equal(tracer.span("chat openai").attributes["server.port"], 443);
});

test("an interrupted model call has an error and no finish reason", () => {
  const tracer = new KeepingTracer();
  const place = { provider: { name: "p", type: "openai" }, settings: {} };
  const span = startModelSpan(tracer.start("root"), { provider: "p", id: "m" }, place);
  endModelSpan(span, { usage, finish: undefined, error: new ServiceError("provider_error", "no") });
  const kept = tracer.span("chat m");
  assert.equal(kept.error, "provider_error");
  assert.ok(!("gen_ai.response.finish_reasons" in kept.attributes));
});

test("a tool call is execute_tool with name and call id, never its arguments", () => {
  const tracer = new KeepingTracer();
  const root = tracer.start("root");
  const call = { callId: "call_1", tool: "read_file", input: { path: "/secret" } };
  endToolSpan(startToolSpan(root, call), "ok");
  const kept = tracer.span("execute_tool read_file");
  assert.deepEqual([kept.kind, kept.parent, kept.ends], ["internal", root.traceparent, 1]);
  assert.deepEqual(kept.attributes, {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "read_file",
    "gen_ai.tool.call.id": "call_1",
    "gen_ai.tool.type": "function",
    "agentd.tool.status": "ok",
  });
  endToolSpan(startToolSpan(root, { ...call, tool: "broken" }), "error");
  assert.equal(tracer.span("execute_tool broken").error, "tool_error");
  endToolSpan(startToolSpan(root, { ...call, tool: "denied" }), "denied");
  assert.equal(tracer.span("execute_tool denied").error, undefined);
});

test("a name that a model invented is bounded", () => {
  const tracer = new KeepingTracer();
  startToolSpan(tracer.start("root"), { callId: "c".repeat(500), tool: "t".repeat(500), input: {} });
  const { name, attributes } = tracer.spans[1]!;
  assert.equal(name.length, "execute_tool ".length + 128);
  assert.equal(String(attributes["gen_ai.tool.call.id"]).length, 128);
});

test("off: no span is made, and the trace context is passed on", () => {
  const place = { provider: { name: "p", type: "openai" }, settings: {} };
  assert.equal(startModelSpan(undefined, { provider: "p", id: "m" }, place), noSpan);
  const span = startRunSpan({ tracer: offTracer, agentName: "a" }, run, parent);
  assert.equal(startModelSpan(span, { provider: "p", id: "m" }, place).traceparent, parent);
  assert.equal(startToolSpan(noSpan, { callId: "c", tool: "t", input: {} }), noSpan);
});
