/** A contract test: it provokes one declared answer of one operation, and proves that this answer was given. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { OperationMeta } from "../../generated/http/contract.gen.ts";
import { operations } from "../../generated/http/server.gen.ts";
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

/** An operation of the spec, with its name. */
export interface NamedOperation extends OperationMeta {
  readonly id: string;
}

/** Those that list the status. */
export function operationsWith(status: number): readonly NamedOperation[] {
  const all: readonly [string, OperationMeta][] = Object.entries(operations);
  return all.flatMap(([id, meta]) => (meta.responses[String(status)] ? [{ ...meta, id }] : []));
}

/**
 * As {@link scenario}, for every operation that lists the status: what the edge answers is the same for all. `provoke`
 * is called for each, on one service; the test fails unless each gave the status. `except` names operations with scenarios
 * of their own.
 */
export function scenarioOfAll(
  status: number,
  what: TestServiceOptions & { readonly title: string; readonly except?: readonly string[] },
  provoke: (service: TestService, operation: NamedOperation) => Promise<void>,
): void {
  test(`every operation that lists ${status}: ${what.title}`, async () => {
    await using service = await startTestService(what);
    for (const operation of operationsWith(status)) {
      if (what.except?.includes(operation.id)) continue;
      try {
        await provoke(service, operation);
      } catch (cause) {
        throw new Error(`${operation.id} ${status}: ${(cause as Error).message}`, { cause });
      }
      assert.ok(service.seen.has(`${operation.id} ${status}`), `${operation.id} never answered ${status}`);
    }
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
