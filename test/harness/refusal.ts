import assert from "node:assert/strict";
import { ServiceError } from "../../src/base/errors.ts";

/** What people wrote is wrong, or does not fit the state of the job. */
const REFUSALS: readonly string[] = ["invalid_request", "invalid_schedule", "job_over"];

/** Fails unless `work` rejects with a ServiceError that says what people need. */
export async function assertRefused(
  work: Promise<unknown>,
  { code, says }: { readonly code?: string; readonly says: RegExp },
): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof ServiceError, String(error));
    if (code === undefined) assert.ok(REFUSALS.includes(error.code), error.code);
    else assert.equal(error.code, code, error.message);
    assert.match(error.message, says);
    return true;
  });
}
