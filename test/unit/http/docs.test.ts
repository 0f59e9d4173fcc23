import assert from "node:assert/strict";
import { test } from "node:test";
import { docsPage, docsPolicy } from "../../../generated/reference/docs.gen.ts";
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
  assert.equal(answer.headers.get("cache-control"), "public, max-age=300");
  assert.ok(answer.headers.get("x-request-id"));
  assert.equal(await answer.text(), docsPage);
});

test("HEAD /docs returns only the headers", async () => {
  await using service = await startTestService();
  const answer = await service.request("/docs", { method: "HEAD", headers: { authorization: "" } });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "text/html; charset=utf-8");
  assert.equal(await answer.text(), "");
});
