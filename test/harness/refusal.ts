import assert from "node:assert/strict";
import { ServiceError } from "../../src/base/errors.ts";

/** Fails unless `work` rejects with a ServiceError that says what people need. */
export async function assertRefused(
  work: Promise<unknown>,
  { code = "invalid_request", says }: { readonly code?: string; readonly says: RegExp },
): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof ServiceError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, says);
    return true;
  });
}
