import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestCron } from "../../harness/cron.ts";
import { openOccurrence } from "../../harness/occurrence.ts";
import { assertRefused } from "../../harness/refusal.ts";

const HOUR_MS = 3_600_000;

test("the history is paged, newest first, for one job or all", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  const { jobs } = cron;
  const { id } = await cron.create();
  const other = await cron.create({ name: "other", overlap: "allow" });
  await cron.advance(HOUR_MS);
  await cron.advance(HOUR_MS);
  const all = (await cron.occurrences()).map((row) => row.id).reverse();
  assert.equal(all.length, 4);
  const history = await jobs.history();
  assert.deepEqual(
    history.occurrences.map((each) => each.id),
    all,
  );
  assert.equal("nextCursor" in history, false);
  const first = await jobs.history(undefined, { limit: 3 });
  assert.deepEqual(
    first.occurrences.map((each) => each.id),
    all.slice(0, 3),
  );
  const second = await jobs.history(undefined, { limit: 3, cursor: first.nextCursor });
  assert.deepEqual(
    second.occurrences.map((each) => each.id),
    all.slice(3),
  );
  assert.equal(
    (await jobs.history("other")).occurrences.every((each) => each.jobId === other.id),
    true,
  );
  await cron.store.write((tx) =>
    tx.insert("occurrences", [{ ...openOccurrence(cron, id), id: `occ_${"z".repeat(26)}` }]),
  );
  const [open] = (await jobs.history(id)).occurrences;
  assert.equal(open?.status, "running");
  assert.equal("endedAtMs" in (open ?? {}), false);
  for (const cursor of ["x", "occ_", "occ_' or 1=1", ""])
    await assertRefused(jobs.history(id, { cursor }), { code: "invalid_cursor", says: /cursor/ });
  for (const limit of [0, 501, 1.5, Number.NaN])
    await assertRefused(jobs.history(id, { limit }), { says: /from 1 to 500/ });
  await assertRefused(jobs.history("nobody"), { code: "job_not_found", says: /No job/ });
});
