import type { OccurrenceRow } from "../../src/store/schema/tables.ts";
import { START_MS, type TestCron } from "./cron.ts";

/** An open occurrence whose run is running in this process. */
export function openOccurrence(cron: TestCron, jobId: string): OccurrenceRow {
  return {
    id: `occ_${jobId.padEnd(26, "0")}`,
    owner: "tester",
    job_id: jobId,
    job_name: "tea",
    scheduled_at: START_MS,
    cause: "manual",
    timing: "on_time",
    status: "running",
    reason: null,
    covers_until: null,
    covers_count: 1,
    lease_owner: cron.store.owner,
    lease_until: START_MS + 3_600_000,
    claimed_at: START_MS,
    started_at: START_MS,
    ended_at: null,
    run_id: null,
    session_id: null,
    output_file: null,
    delivery_status: null,
    delivery_error: null,
  };
}
