import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CutError,
  isRetryable,
  retryAfterMs,
  StallError,
  toTurnError,
} from "../../../../src/agent/engines/provider-error.ts";
import type { ProviderConfig } from "../../../../src/agent/engines/providers.ts";

const nowMs = Date.UTC(2026, 0, 1);
const DAY_MS = 86_400_000;
const provider: ProviderConfig = {
  name: "work",
  type: "openai_compatible",
  baseUrl: "https://user:pass@models.example:8443/v1?token=t",
  apiKey: "the-key",
};

/** An error as the model SDK throws it for an HTTP response; its text comes from the provider. */
const answered = (statusCode: number, responseHeaders: Record<string, string> = {}): Error =>
  Object.assign(new Error("refused, the-key and the prompt"), {
    name: "AI_APICallError",
    statusCode,
    responseHeaders,
    responseBody: "the-key and the prompt",
  });
const named = (name: string): Error => Object.assign(new Error("the-key"), { name });

const waits: readonly (readonly [Record<string, string>, number | undefined])[] = [
  [{}, undefined],
  [{ "retry-after": "0" }, 0],
  [{ "retry-after": "7" }, 7000],
  [{ "retry-after": " 7 " }, 7000],
  [{ "retry-after": "1.5" }, 1500],
  [{ "retry-after": "007" }, 7000],
  [{ "retry-after": "Thu, 01 Jan 2026 00:00:05 GMT" }, 5000],
  [{ "retry-after": "Thursday, 01-Jan-26 00:00:05 GMT" }, 5000],
  [{ "retry-after": "Wed, 31 Dec 2025 23:59:59 GMT" }, 0],
  [{ "retry-after": "Fri, 01 Jan 2100 00:00:00 GMT" }, DAY_MS],
  [{ "retry-after": "99999999999999999999" }, DAY_MS],
  [{ "retry-after": "9".repeat(400) }, DAY_MS],
  [{ "retry-after": "" }, undefined],
  [{ "retry-after": "soon" }, undefined],
  [{ "retry-after": "in 5 minutes" }, undefined],
  [{ "retry-after": "not a date GMT" }, undefined],
  [{ "retry-after": "-1" }, undefined],
  [{ "retry-after": "1e3" }, undefined],
  [{ "retry-after": "0x10" }, undefined],
  [{ "retry-after": "NaN" }, undefined],
  [{ "retry-after": "Infinity" }, undefined],
  [{ "retry-after": "5, 6" }, undefined],
  [{ "retry-after-ms": "120" }, 120],
  [{ "retry-after-ms": "120.5", "retry-after": "7" }, 120.5],
  [{ "retry-after-ms": "", "retry-after": "7" }, 7000],
  [{ "retry-after-ms": "soon", "retry-after": "7" }, 7000],
  [{ "retry-after-ms": "-5" }, undefined],
];

for (const [headers, expected] of waits) {
  const said = JSON.stringify(headers).slice(0, 80);
  test(`${said} asks for ${expected === undefined ? "no wait" : `a wait of ${expected} ms`}`, () => {
    assert.equal(retryAfterMs(answered(429, headers), nowMs), expected);
  });
}

test("an error without headers, and a value that is not an error, ask for no wait", () => {
  for (const error of [new Error("x"), named("AI_APICallError"), "text", 7, {}]) {
    assert.equal(retryAfterMs(error, nowMs), undefined);
  }
});

const retryable: readonly (readonly [string, unknown, boolean])[] = [
  ["a 429", answered(429), true],
  ["a 500", answered(500), true],
  ["a 503", answered(503), true],
  ["an answer that broke after a success status", Object.assign(answered(200), { isRetryable: false }), true],
  ["a connection that failed", new Error("connect"), true],
  ["a 400", answered(400), false],
  ["a 401", answered(401), false],
  ["a 404", answered(404), false],
  ["a 409 that the SDK calls retryable", Object.assign(answered(409), { isRetryable: true }), true],
  ["a 501 that the SDK calls final", Object.assign(answered(501), { isRetryable: false }), false],
  ["a stall", new StallError("sent nothing for 5 seconds."), false],
];

for (const [title, error, expected] of retryable) {
  test(`${title} is ${expected ? "" : "not "}retried`, () => {
    assert.equal(isRetryable(error), expected);
  });
}

const reset = Object.assign(new Error("read"), { code: "ECONNRESET" });
const refusedOnDeno =
  "error sending request for url (http://h/): tcp connect error: Connection refused (os error 111)";
const errors: readonly (readonly [string, unknown, string, RegExp])[] = [
  [
    "a stall",
    new StallError("sent nothing for 5 seconds."),
    "agent_timeout",
    /sent nothing for 5 seconds\.$/,
  ],
  [
    "an interrupted answer",
    new CutError("ended its answer early."),
    "agent_incomplete",
    /ended its answer early\.$/,
  ],
  ["an answer that broke", answered(200), "agent_incomplete", /ended its answer early\.$/],
  [
    "an answer without its end",
    named("AI_InvalidResponseDataError"),
    "agent_incomplete",
    /ended its answer early/,
  ],
  ["an answer that is not JSON", named("AI_JSONParseError"), "agent_incomplete", /violates its protocol/],
  ["an answer of another shape", named("AI_TypeValidationError"), "agent_incomplete", /violates its/],
  [
    "a failure reported in the stream",
    named("AI_StreamProviderError"),
    "agent_incomplete",
    /reported a failure/,
  ],
  ["a 401", answered(401), "provider_error", /API key \(401\)\. Check model\.providers\.work\.api_key/],
  ["a 403", answered(403), "provider_error", /API key \(403\)\. Check model\.providers\.work\.api_key/],
  ["a 404", answered(404), "model_not_found", /does not have this model \(404\)/],
  ["a 429 without a time", answered(429), "provider_error", /\(429\)\. Try again later\.$/],
  ["a 429 with a time", answered(429, { "retry-after": "31" }), "provider_error", /again in 31 seconds\.$/],
  ["a 400", answered(400), "provider_error", /refused the request \(400\)/],
  ["a 500", answered(500), "provider_error", /failed \(500\)/],
  [
    "a connection that was reset",
    new Error("Cannot connect to API", { cause: new Error("fetch failed", { cause: reset }) }),
    "provider_error",
    /could not be reached at models\.example:8443: ECONNRESET\.$/,
  ],
  ["a refused connection on Deno", new Error(refusedOnDeno), "provider_error", /: ECONNREFUSED\.$/],
  [
    "an unknown host on Deno",
    new Error("client error (Connect): dns error"),
    "provider_error",
    /: ENOTFOUND\./,
  ],
  [
    "an error without details",
    new Error(""),
    "provider_error",
    /models\.example:8443: the connection failed\.$/,
  ],
  ["a value that is not an error", "the-key", "provider_error", /: the connection failed\.$/],
  [
    "a code that is a sentence",
    Object.assign(new Error(""), { code: "the-key and the prompt" }),
    "provider_error",
    /: the connection failed\.$/,
  ],
];

for (const [title, error, code, message] of errors) {
  test(`${title} is reported as ${code}, in our own words only`, () => {
    const told = toTurnError(error, provider, nowMs);
    assert.equal(told.code, code);
    assert.match(told.message, message);
    assert.match(told.message, /^The provider work /);
    assert.doesNotMatch(told.message, /the-key|the prompt|pass@|token=/);
  });
}

test("a rate limit reports whole seconds, never fewer than the provider asked for", () => {
  const limited = answered(429, { "retry-after-ms": "1200" });
  assert.equal(toTurnError(limited, provider, nowMs).retryAfterSeconds, 2);
  assert.equal("retryAfterSeconds" in toTurnError(answered(429), provider, nowMs), false);
});

test("a provider at its default address is named without the address", () => {
  const { message } = toTurnError(new Error(""), { name: "openai", type: "openai" }, nowMs);
  assert.equal(message, "The provider openai could not be reached: the connection failed.");
});

test("an error that is its own cause is reported", () => {
  const error = new Error("");
  error.cause = error;
  assert.match(toTurnError(error, provider, nowMs).message, /the connection failed/);
});

const kinds: readonly (readonly [string, unknown, object])[] = [
  ["a refused key", answered(401), { kind: "authentication", status: 401, retryable: false }],
  ["a rate limit", answered(429), { kind: "rate_limit", status: 429, retryable: true }],
  ["an overload", answered(529), { kind: "overloaded", status: 529, retryable: true }],
  ["a server's failure", answered(500), { kind: "provider", status: 500, retryable: true }],
  ["a refused request", answered(400), { kind: "provider", status: 400, retryable: false }],
  ["silence", new StallError("said nothing"), { kind: "network", retryable: true }],
  ["an interruption", new CutError("stopped"), { kind: "network", retryable: true }],
  ["an interruption after a success status", answered(200), { kind: "network", retryable: true }],
  ["no connection", new Error("connection refused"), { kind: "network", retryable: true }],
  ["an unsupported request", named("AI_InvalidPromptError"), { kind: "provider", retryable: false }],
];

for (const [what, error, failure] of kinds) {
  test(`the kind of a failure: ${what}`, () => {
    assert.deepEqual(toTurnError(error, provider, nowMs).failure, failure);
  });
}

/** A refused request as the model SDK throws it. */
const refused = (statusCode: number, body: unknown, prompt = "what is the secret of the long lake?"): Error =>
  Object.assign(new Error("Bad Request"), {
    name: "AI_APICallError",
    statusCode,
    responseBody: typeof body === "string" ? body : JSON.stringify(body),
    requestBodyValues: { model: "gemma3:4b", messages: [{ role: "user", content: prompt }] },
  });

const reasons: readonly (readonly [string, number, unknown, string, RegExp])[] = [
  [
    "a model without tools",
    400,
    { error: { message: "registry.ollama.ai/library/gemma3:4b does not support tools" } },
    "provider_error",
    /does not support tools with the model "gemma3:4b".* Choose a model that supports tools \(400\)\.$/,
  ],
  [
    "a router without a model for tools",
    404,
    { error: { message: "No endpoints found that support tool use.", code: 404 } },
    "provider_error",
    /does not support tools/,
  ],
  [
    "a server that was started without tools",
    400,
    { message: '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set' },
    "provider_error",
    /started without support for tools\. Start vLLM with --enable-auto-tool-choice/,
  ],
  [
    "a model that was not pulled",
    404,
    { error: { message: 'model "gemma3:4b" not found, try pulling it first' } },
    "model_not_found",
    /does not have the model "gemma3:4b"\. Pull it first, such as with `ollama pull` \(404\)/,
  ],
  [
    "an account without credit",
    400,
    { error: { message: "Your credit balance is too low to access the API." } },
    "provider_error",
    /no credit left/,
  ],
  [
    "a reason of its own",
    400,
    { error: { message: "temperature\n must be\tat most 1." } },
    "provider_error",
    /refused the request \(400\): "temperature must be at most 1"\.$/,
  ],
  [
    "a reason in another place",
    422,
    { detail: "top_p is unknown" },
    "provider_error",
    /: "top_p is unknown"\.$/,
  ],
  ["a page of a proxy", 400, "<html>the-key</html>", "provider_error", /refused the request \(400\)\.$/],
];

for (const [what, status, body, code, wanted] of reasons) {
  test(`a refused request says why: ${what}`, () => {
    const { message, code: told } = toTurnError(refused(status, body), provider, nowMs);
    assert.equal(told, code);
    assert.match(message, wanted);
  });
}

test("a quoted reason holds no key, no part of the conversation, and at most 300 characters", () => {
  const told = (message: string, prompt?: string) =>
    toTurnError(refused(400, { error: { message } }, prompt), provider, nowMs).message;
  assert.match(
    told("the key the-key is odd, and Bearer sk-proj-abcdefghijklmnopqrstuvwxyz012345"),
    /redacted/,
  );
  assert.doesNotMatch(told("the key the-key is odd"), /the-key/);
  assert.match(told("cannot read: what is the secret of the long la"), /refused the request \(400\)\.$/);
  assert.match(told("cannot read: my pin 1", "my pin 1"), /refused the request \(400\)\.$/);
  assert.ok(told("x".repeat(5_000)).length < 400);
});

test("a failure of the server quotes nothing", () => {
  const { message } = toTurnError(
    refused(500, { error: { message: "does not support tools" } }),
    provider,
    nowMs,
  );
  assert.equal(message, "The provider work failed (500).");
});
