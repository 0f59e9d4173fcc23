import { occurrenceRow } from "../unit/store/rows.ts";
import type { OccurrenceRow } from "../../src/store/schema/tables.ts";
import { START_MS, type TestCron } from "./cron.ts";

/** An open occurrence whose run is running in this process. */
export function openOccurrence(cron: TestCron, jobId: string): OccurrenceRow {
  return occurrenceRow({
    id: `occ_${jobId.padEnd(26, "0")}`,
    owner: "tester",
    job_id: jobId,
    cause: "manual",
    status: "running",
    lease_owner: cron.store.owner,
    lease_until: START_MS + 3_600_000,
    claimed_at: START_MS,
    ended_at: null,
    delivery_status: null,
  });
}
