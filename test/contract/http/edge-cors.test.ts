/** CORS as a browser sees it: over the wire, on good answers, errors and streams. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, assertHealthy } from "../../harness/scenario.ts";
import { KEY, startTestService } from "../../harness/service.ts";
import { send } from "../../harness/wire.ts";

const PAGE = "https://app.example";
const config = { api_server: { cors_origins: [PAGE] } };
const bearer = { authorization: `Bearer ${KEY}` };
const hi = { messages: [{ role: "user", content: "hi" }] };

function assertReadable(response: Response, what: string): void {
  assert.equal(response.headers.get("access-control-allow-origin"), PAGE, what);
  assert.equal(response.headers.get("vary"), "Origin", what);
  assert.match(response.headers.get("access-control-expose-headers") ?? "", /X-Agent-Run-Id/, what);
  assert.equal(response.headers.get("access-control-allow-credentials"), null, what);
  assert.ok(response.headers.get("x-request-id"), what);
}

/** Reads the body too: an unread one keeps its connection open. */
async function assertWhole(response: Response, what: string): Promise<void> {
  assertReadable(response, what);
  await response.text();
}

function preflight(service: { readonly url: string }, path: string, more: Record<string, string> = {}) {
  const asked = { "access-control-request-method": "POST", ...more };
  return send(service, { method: "OPTIONS", path, headers: { origin: PAGE, ...asked } });
}

test("an allowed page can read every answer: JSON, streams, errors, unknown paths and methods", async () => {
  await using service = await startTestService({ config });
  const origin = { origin: PAGE };
  await assertWhole(await service.request("/v1/models", { headers: origin }), "200");
  await assertWhole(await service.chat(hi, { headers: origin }), "200 of a run");
  const stream = await service.chat({ ...hi, stream: true }, { headers: origin });
  assertReadable(stream, "a stream");
  assert.match(await stream.text(), /\[DONE\]/);
  await assertWhole(await service.chat({}, { headers: origin }), "400");
  await assertWhole(
    await service.request("/v1/models", { headers: { ...origin, authorization: "" } }),
    "401",
  );
  await assertWhole(await service.request("/v1/nothing", { headers: origin }), "404");
  await assertWhole(await service.request("/v1/models", { method: "PUT", headers: origin }), "405");
  await assertWhole(await service.request("/openapi.json", { headers: origin }), "an open path");
});

test("a preflight answers 204 without a key for any path, with methods, headers and cache time", async () => {
  await using service = await startTestService({ config });
  for (const path of ["/v1/chat/completions", "/v1/runs/x/events", "/health", "/v1/nothing"]) {
    const asked = { "access-control-request-headers": "authorization,user-agent,x-custom,bad name" };
    const response = await preflight(service, path, asked);
    assert.equal(response.status, 204, path);
    assert.equal(await response.text(), "");
    assertReadable(response, path);
    assert.deepEqual(
      ["methods", "headers"].map((name) => response.headers.get(`access-control-allow-${name}`)),
      ["GET, POST, PUT, PATCH, DELETE, OPTIONS", "authorization, user-agent, x-custom"],
    );
    assert.equal(response.headers.get("access-control-max-age"), "600");
  }
});

test("a preflight of another origin is origin_not_allowed", async () => {
  await using service = await startTestService({ config });
  const response = await preflight(service, "/v1/runs", { origin: "https://evil.example" });
  assert.equal(response.headers.get("access-control-allow-origin"), null);
  assert.equal(response.headers.get("access-control-allow-methods"), null);
  assert.equal(response.headers.get("vary"), "Origin");
  await assertError(response, 403, "origin_not_allowed");
});

test("OPTIONS without a preflight is a wrong method", async () => {
  await using service = await startTestService({ config });
  const response = await send(service, { method: "OPTIONS", path: "/v1/models", headers: bearer });
  await assertError(response, 405, "method_not_allowed");
});

test("while CORS is off, no CORS header is sent, and a program's Origin header is ignored", async () => {
  await using service = await startTestService();
  for (const response of [
    await service.chat(hi, { headers: { origin: PAGE } }),
    await service.request("/v1/nothing", { headers: { origin: PAGE } }),
    await preflight(service, "/v1/runs"),
  ]) {
    const names = [...response.headers.keys()].filter((name) => /^access-control-|^vary$/.test(name));
    assert.deepEqual(names, []);
  }
  assert.equal((await service.chat(hi, { headers: { origin: PAGE } })).status, 200);
  await assertError(await preflight(service, "/v1/runs"), 405, "method_not_allowed");
});

test("pages of the server itself may always call", async () => {
  for (const requireKey of [true, false]) {
    await using service = await startTestService({ config, requireKey });
    const response = await service.chat(hi, { headers: { origin: service.url } });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("access-control-allow-origin"), null);
  }
});

test("with *, any page may call, and none with credentials", async () => {
  await using service = await startTestService({ config: { api_server: { cors_origins: ["*"] } } });
  for (const origin of [PAGE, "null", "https://other.example"]) {
    const response = await service.chat(hi, { headers: { origin } });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("access-control-allow-origin"), "*");
    assert.equal(response.headers.get("access-control-allow-credentials"), null);
  }
});

test("a page cannot start a run on a server without keys by omitting the content type", async () => {
  await using service = await startTestService({ requireKey: false });
  const headers = { origin: "https://evil.example" };
  const body = JSON.stringify(hi);
  const path = "/v1/chat/completions";
  await assertError(await send(service, { method: "POST", path, headers, body }), 403, "origin_not_allowed");
  assert.equal((await send(service, { method: "POST", path, body })).status, 200);
  await assertHealthy(service);
});
