import assert from "node:assert/strict";
import { scenario } from "../../harness/scenario.ts";

scenario("getDocs", 200, { title: "serves the reference as one page, to everyone" }, async (service) => {
  const answer = await fetch(`${service.url}/docs`);
  assert.equal(answer.headers.get("content-type"), "text/html; charset=utf-8");
  assert.match(answer.headers.get("content-security-policy") ?? "", /^default-src 'none'; /);
  assert.match(await answer.text(), /^<!doctype html>/);
});
