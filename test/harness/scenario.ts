/** A contract test: it provokes one declared answer of one operation, and proves that this answer was given. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestService, type TestService, type TestServiceOptions } from "./service.ts";

/**
 * Registers the test `operation status: sentence`. The service runs with every answer and event checked against the
 * spec; the scenario fails unless the operation gave that status. test/contract/coverage.test.ts counts scenarios.
 */
export function scenario(
  operation: string,
  status: number,
  what: TestServiceOptions & { readonly title: string },
  run: (service: TestService) => Promise<void>,
): void {
  test(`${operation} ${status}: ${what.title}`, async () => {
    await using service = await startTestService(what);
    await run(service);
    assert.ok(service.seen.has(`${operation} ${status}`), `${operation} never answered ${status}`);
    const undeclared = [...service.seen].filter((answer) => answer.endsWith(" 0"));
    assert.deepEqual(undeclared, [], "answers that the spec does not list");
  });
}

/** Asserts an error answer: status, code, and that the envelope is whole. Returns its error. */
export async function assertError(
  response: Response,
  status: number,
  code: string,
): Promise<{ message: string; type: string; param: string | null; code: string }> {
  const body = await response.json();
  assert.equal(response.status, status, JSON.stringify(body));
  assert.equal(body.error.code, code);
  assert.equal(typeof body.error.message, "string");
  assert.ok("param" in body.error);
  assert.ok(response.headers.get("x-request-id"));
  return body.error;
}

/** Asserts that the service still answers. */
export async function assertHealthy(service: TestService): Promise<void> {
  const response = await service.request("/health");
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), { status: "ok", platform: "agent", version: "0.0.0-test" });
}
