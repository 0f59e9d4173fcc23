import { sql } from "kysely";
import type { SchemaBuilder } from "./builder.ts";

/** Jobs of the clock, each instant at which one was due, and the processes that look for them. */
export async function cron(schema: SchemaBuilder): Promise<void> {
  await schema.table(
    "cron_jobs",
    {
      id: "text",
      name: "text",
      name_key: "text",
      definition: "text",
      revision: "integer",
      state: "text",
      due_at: "integer?",
      next_run_at: "integer?",
      manual_at: "integer?",
      retry_at: "integer?",
      retries: "integer",
      repeat_done: "integer",
      failure_streak: "integer",
      last_run_at: "integer?",
      last_status: "text?",
      last_error: "text?",
      last_delivery_error: "text?",
      last_occurrence: "text?",
      paused_at: "integer?",
      paused_reason: "text?",
      created_at: "integer",
      updated_at: "integer",
    },
    ["id"],
  );
  const due = sql<boolean>`due_at is not null`;
  await schema.index("cron_jobs", "due", { columns: ["due_at", "id"], where: due });
  await schema.index("cron_jobs", "by_state", { columns: ["state", "last_status"] });
  await schema.index("cron_jobs", "by_name", { columns: ["name_key"] });
  await schema.index("cron_jobs", "by_time", { columns: ["created_at", "id"] });
  await schema.table(
    "occurrences",
    {
      id: "text",
      job_id: "text",
      job_name: "text",
      scheduled_at: "integer",
      cause: "text",
      timing: "text",
      status: "text",
      reason: "text?",
      covers_until: "integer?",
      covers_count: "integer",
      lease_owner: "text?",
      lease_until: "integer?",
      claimed_at: "integer",
      started_at: "integer?",
      ended_at: "integer?",
      run_id: "text?",
      session_id: "text?",
      output_file: "text?",
      delivery_status: "text?",
      delivery_error: "text?",
    },
    ["id"],
  );
  const open = sql<boolean>`ended_at is null`;
  const once = { columns: ["job_id", "scheduled_at", "cause"], isUnique: true };
  await schema.index("occurrences", "once", once);
  await schema.index("occurrences", "by_job", { columns: ["job_id", "id"] });
  await schema.index("occurrences", "open", { columns: ["job_id"], where: open });
  await schema.index("occurrences", "ended", {
    columns: ["ended_at"],
    where: sql<boolean>`ended_at is not null`,
  });
  const ticker = {
    owner: "text",
    started_at: "integer",
    ticked_at: "integer",
    succeeded_at: "integer?",
    last_error: "text?",
  } as const;
  await schema.table("cron_tickers", ticker, ["owner"]);
}
