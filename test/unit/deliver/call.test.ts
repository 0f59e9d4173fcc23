import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { systemClock } from "../../../src/base/time.ts";
import { forgetSecret, registerSecret, offTracer } from "../../../src/base/observe.ts";
import { createCall, outcomeOfAnswer, summarize } from "../../../src/deliver/platform/call.ts";

const options = { signal: new AbortController().signal, span: offTracer.start("send", {}) };

async function ask({ baseUrl = "http://127.0.0.1:9", token = "a-token", password = "kw9" }) {
  const call = createCall({ title: "Somewhere", baseUrl, version: "1.2.3", clock: systemClock });
  const body = { chatGuid: "a", tempGuid: "b", message: "c", method: "apple-script" as const };
  const headers = { Authorization: `Bearer ${token}` };
  const answer = await call(
    "BluebubblesAnswer",
    (client) => client.bluebubblesSendText({ query: { password }, body, headers }),
    options,
  );
  assert.equal(answer.kind, "none");
  return answer.kind === "none" ? answer.outcome : undefined;
}

test("an invalid base URL is a permanent failure that shows nothing of the request", async () => {
  const wrong = ["http://bad host:1234", "http://", "http://h:99999", "", "ftp://h", "localhost:8080"];
  for (const baseUrl of wrong) {
    const outcome = await ask({ baseUrl });
    assert.equal(outcome?.status, "permanent", baseUrl);
    assert.match(outcome.error, /base_url/);
    assert.doesNotMatch(outcome.error, /kw9/);
  }
});

test("a base URL with a user, a query or a fragment is a permanent failure that does not show them", async () => {
  for (const baseUrl of [
    "https://u:kw9@127.0.0.1:9",
    "http://127.0.0.1:9/?key=kw9",
    "http://127.0.0.1:9#kw9",
  ]) {
    const outcome = await ask({ baseUrl });
    assert.equal(outcome?.status, "permanent", baseUrl);
    assert.doesNotMatch(outcome.error, /kw9/);
  }
});

test("a credential that is invalid in a header is a permanent failure that does not show it", async () => {
  for (const token of ["kw9\nx", "kw9\u0000", "kw9\u2026"]) {
    const outcome = await ask({ token });
    assert.equal(outcome?.status, "permanent", JSON.stringify(token));
    assert.match(outcome.error, /credential/);
    assert.doesNotMatch(outcome.error, /kw9/);
  }
});

test("a trailing slash or path of the base URL is handled, and a refused connection is retried", async () => {
  for (const baseUrl of ["http://127.0.0.1:9/", "http://127.0.0.1:9/some/path//"])
    assert.equal((await ask({ baseUrl }))?.status, "retry", baseUrl);
});

async function answered(t: TestContext, listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const call = createCall({ title: "Somewhere", baseUrl, version: "1.2.3", clock: systemClock });
  return call(
    "SmsAnswer",
    (client) => client.smsCreateMessage({ path: { accountSid: "a" }, headers, body: sms }),
    options,
  );
}

const headers = { Authorization: "Basic a" };
const sms = { To: "+15550100123", From: "+15550100124", Body: "c" };

test("a response in an unknown encoding is unknown: the message may have arrived", async (t) => {
  const answer = await answered(t, (_, response) => {
    response.writeHead(201, { "content-encoding": "zstd" }).end("{}");
  });
  assert.equal(answer.kind === "none" ? answer.outcome.status : "answer", "unknown");
});

test("an error response that breaks off still counts by its status", async (t) => {
  for (const status of [401, 429, 503]) {
    const answer = await answered(t, (_, response) => {
      response.writeHead(status, { "content-length": "100", "retry-after": "7" });
      response.write('{"mess', () => response.destroy());
    });
    assert.equal(answer.kind, "answer");
    assert.ok(answer.kind === "answer");
    assert.deepEqual(
      { status: answer.status, body: answer.body, retryAfterMs: answer.retryAfterMs },
      { status, body: undefined, retryAfterMs: 7_000 },
    );
  }
});

test("a platform's error text is redacted before it is truncated, and has no control characters", () => {
  const secret = "canary-secret-with-a-long-tail-1234567890";
  registerSecret(secret);
  try {
    const reason = `${"x".repeat(180)} ${secret} \u001b[31mred`;
    const answer = {
      kind: "answer",
      status: 400,
      headers: {},
      body: {},
      text: "",
      retryAfterMs: undefined,
    } as const;
    for (const said of [
      outcomeOfAnswer(answer, { title: "Somewhere", name: "sms", reason }).error,
      summarize(answer, { title: "Somewhere", name: "sms", reason }),
    ]) {
      assert.doesNotMatch(said, /canary/);
      assert.ok(!said.includes("\u001b"));
    }
  } finally {
    forgetSecret(secret);
  }
});
