import { sql } from "kysely";
import type { SchemaBuilder } from "./builder.ts";

/** Stored responses; what a run owes to whom; what a question holds up. */
export async function httpApi(schema: SchemaBuilder): Promise<void> {
  await schema.columns("runs", {
    response_id: "text?",
    webhook: "text?",
    required_action: "text?",
    pending_steer: "text?",
    input_preview: "text?",
  });
  await schema.index("runs", "active", {
    columns: ["owner", "status"],
    where: sql<boolean>`ended_at is null`,
  });
  await schema.index("runs", "by_end", {
    columns: ["owner", "status", "id"],
    where: sql<boolean>`ended_at is not null`,
  });
  await schema.index("outbox", "dead", {
    columns: ["done_at"],
    where: sql<boolean>`status = 'dead'`,
  });
  await schema.columns("questions", { call_id: "text?", taken_at: "integer?" });
  await schema.table(
    "responses",
    {
      id: "text",
      owner: "text",
      run_id: "text",
      session_id: "text",
      conversation: "text?",
      previous_id: "text?",
      next_id: "text?",
      request: "text",
      input: "text",
      created_at: "integer",
      used_at: "integer",
    },
    ["id"],
  );
  await schema.index("responses", "by_use", { columns: ["owner", "used_at"] });
  await schema.index("responses", "by_run", { columns: ["run_id"] });
}
