import assert from "node:assert/strict";
import { test } from "node:test";
import openApi from "../../../generated/specs/http.openapi.json" with { type: "json" };
import { assertError, assertHealthy, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService } from "../../harness/service.ts";

scenario(
  "listModels",
  200,
  { title: "lists one model, the agent", config: { api_server: { model_name: "my-agent" } } },
  async (service) => {
    const body = await (await service.request("/v1/models")).json();
    assert.deepEqual(
      body.data.map((model: { id: string }) => model.id),
      ["my-agent"],
    );
  },
);

scenario("listModels", 401, { title: "requires a key" }, async (service) => {
  await assertError(
    await service.request("/v1/models", { headers: { authorization: "" } }),
    401,
    "missing_api_key",
  );
});

for (const scope of ["chat", "runs", "approvals", "sessions", "jobs", "read"]) {
  const keys = [{ key: KEY, name: "some", scopes: [scope] }];
  scenario(
    "listModels",
    200,
    { title: `clients that list models first can do so with only the scope ${scope}`, keys },
    async (service) => {
      const paths = ["/v1/models", "/v1/models/agentd", "/v1/capabilities"];
      for (const path of paths) assert.equal((await service.request(path)).status, 200, path);
      if (scope !== "read") await assertError(await service.request("/v1/runs"), 403, "insufficient_scope");
    },
  );
}

scenario("getModel", 200, { title: "returns the agent by name" }, async (service) => {
  assert.equal((await (await service.request("/v1/models/agentd")).json()).id, "agentd");
});

scenario("getModel", 401, { title: "requires a key" }, async (service) => {
  const headers = { authorization: "Bearer x" };
  await assertError(await service.request("/v1/models/agentd", { headers }), 401, "invalid_api_key");
});

scenario("getModel", 404, { title: "any other name is unknown" }, async (service) => {
  await assertError(await service.request("/v1/models/gpt-none"), 404, "model_not_found");
});

scenario("getHealth", 200, { title: "is public, also for HEAD" }, async (service) => {
  assert.equal((await fetch(`${service.url}/health`)).status, 200);
  const head = await fetch(`${service.url}/health`, { method: "HEAD" });
  assert.equal(head.status, 200);
  assert.equal(await head.text(), "");
});

scenario("getHealthV1", 200, { title: "is the same under the versioned prefix" }, async (service) => {
  const body = await (await fetch(`${service.url}/v1/health`)).json();
  assert.deepEqual(body, { status: "ok", platform: "agent", version: "0.0.0-test" });
});

for (const [id, path] of [
  ["getHealth", "/health"],
  ["getHealthV1", "/v1/health"],
] as const) {
  scenario(id, 503, { title: "a server that shuts down reports it to load balancers" }, async (service) => {
    await assertHealthy(service);
    await service.service.runs.drain(0);
    const response = await fetch(`${service.url}${path}`);
    assert.equal(response.headers.get("retry-after"), "1");
    await assertError(response, 503, "server_draining");
    const report = await (await service.request("/health/detailed")).json();
    assert.equal(report.draining, true);
  });
}

scenario("getOpenApi", 200, { title: "serves the bundled document to everyone" }, async (service) => {
  const servers = [{ url: service.url }];
  assert.deepEqual(await (await fetch(`${service.url}/openapi.json`)).json(), { ...openApi, servers });
});

scenario(
  "getRoot",
  302,
  { title: "sends a browser to the reference and says nothing else" },
  async (service) => {
    const answer = await fetch(`${service.url}/`, { redirect: "manual" });
    assert.deepEqual([answer.status, answer.headers.get("location"), await answer.text()], [302, "docs", ""]);
    const names = [...answer.headers.keys()].filter(
      (name) => !/^(?:connection|date|keep-alive|content-length|transfer-encoding)$/.test(name),
    );
    assert.deepEqual(names.toSorted(), ["location", "x-request-id"]);
    const page = await fetch(`${service.url}/`);
    assert.equal(new URL(page.url).pathname, "/docs");
    await page.body?.cancel();
  },
);

test("http 404: a path that does not exist answers not_found, with the envelope", async () => {
  await using service = await startTestService();
  for (const path of ["/v1", "/v1/nope", "/v1/chat/completions/x"]) {
    await assertError(await service.request(path), 404, "not_found");
  }
});

test("http 405: a wrong method answers with Allow", async () => {
  await using service = await startTestService();
  for (const [path, method, allow] of [
    ["/v1/chat/completions", "GET", "POST"],
    ["/v1/models", "POST", "GET, HEAD"],
    ["/v1/runs/x", "DELETE", "GET, HEAD"],
    ["/v1/runs/x/events", "PUT", "GET"],
    ["/health", "POST", "GET, HEAD"],
  ] as const) {
    const response = await service.request(path, { method });
    assert.equal(response.headers.get("allow"), allow, path);
    await assertError(response, 405, "method_not_allowed");
  }
});

test("http X-Request-Id: a valid one is repeated, any other replaced", async () => {
  await using service = await startTestService();
  const given = await service.request("/health", { headers: { "x-request-id": "abc-123" } });
  assert.equal(given.headers.get("x-request-id"), "abc-123");
  for (const bad of ["x".repeat(129), "has space"]) {
    const replaced = await service.request("/health", { headers: { "x-request-id": bad } });
    assert.match(replaced.headers.get("x-request-id") ?? "", /^req_/);
  }
});

test("http headers: control characters and oversize headers are refused, and the service stays up", async () => {
  await using service = await startTestService();
  const { hostname, port } = new URL(service.url);
  const { connect } = await import("node:net");
  const send = (lines: string): Promise<string> =>
    new Promise((resolve) => {
      let text = "";
      const socket = connect(Number(port), hostname, () => socket.write(lines));
      socket.on("data", (bytes) => (text += bytes.toString()));
      socket.on("error", () => resolve(text));
      socket.on("close", () => resolve(text));
    });
  const control = await send("GET /health HTTP/1.1\r\nhost: x\r\nx-a: a\u0001b\r\nconnection: close\r\n\r\n");
  assert.match(control, /^HTTP\/1\.1 (?:400|200)|^$/);
  const smuggled = await send(
    "POST /v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n",
  );
  assert.match(smuggled, /^HTTP\/1\.1 400|^$/);
  await assertHealthy(service);
});
