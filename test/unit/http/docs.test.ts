import assert from "node:assert/strict";
import { test } from "node:test";
import { docsPage, docsPolicy } from "../../../generated/reference/docs.gen.ts";
import { openRaw, responseOf } from "../../harness/raw-http.ts";
import { startTestService } from "../../harness/service.ts";

test("GET /docs serves the reference to everyone, with a policy that allows no external content", async () => {
  await using service = await startTestService();
  const answer = await service.request("/docs", { headers: { authorization: "" } });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "text/html; charset=utf-8");
  assert.equal(answer.headers.get("content-security-policy"), docsPolicy);
  assert.match(docsPolicy, /^default-src 'none'; /);
  assert.doesNotMatch(docsPolicy, /unsafe|\*|https?:/);
  assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
  assert.equal(answer.headers.get("cache-control"), "private, max-age=300");
  assert.ok(answer.headers.get("x-request-id"));
  assert.equal(await answer.text(), docsPage.replaceAll("http://127.0.0.1:8642", service.url));
});

test("the reference and the document name the address of the request, also behind a proxy that ends TLS", async () => {
  await using service = await startTestService();
  const ask = async (path: string, headers: Readonly<Record<string, string>>) => {
    using connection = await openRaw(service.url);
    const lines = Object.entries({ connection: "close", ...headers }).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    );
    connection.write(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
    return responseOf(await connection.closed()).text();
  };
  const port = new URL(service.url).port;
  for (const [headers, wanted] of [
    [{ host: `localhost:${port}` }, `http://localhost:${port}`],
    [{ host: "agent.example.com", "x-forwarded-proto": "https" }, "https://agent.example.com"],
    [{ host: "[::1]:9000" }, "http://[::1]:9000"],
    [{ host: "a.example", "x-forwarded-proto": "javascript" }, "http://a.example"],
    [{ host: "no_host.example" }, "http://127.0.0.1:8642"],
  ] as const) {
    const page = await ask("/docs", headers);
    assert.ok(page.includes(`${wanted}/v1/runs`), wanted);
    const { servers } = JSON.parse(await ask("/openapi.json", headers)) as { servers: unknown };
    assert.deepEqual(servers, [{ url: wanted }]);
  }
  // Deno refuses this one itself.
  const hostile = await ask("/docs", { host: '"><script>alert(1)</script>' });
  assert.ok(!hostile.includes("alert(1)"));
});

test("HEAD /docs returns only the headers", async () => {
  await using service = await startTestService();
  const answer = await service.request("/docs", { method: "HEAD", headers: { authorization: "" } });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "text/html; charset=utf-8");
  assert.equal(await answer.text(), "");
});
