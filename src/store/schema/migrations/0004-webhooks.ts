import { sql } from "kysely";
import type { SchemaBuilder } from "./builder.ts";

/** What the receiver of webhooks took in, and what became of it; what the end of a run owes to a target. */
export async function webhooks(schema: SchemaBuilder): Promise<void> {
  await schema.table(
    "deliveries",
    {
      id: "text",
      route: "text",
      delivery_id: "text",
      event: "text",
      status: "text",
      reason: "text?",
      stages: "text",
      headers: "text",
      run_id: "text?",
      outbox_id: "text?",
      replay_of: "text?",
      created_at: "integer",
      ended_at: "integer?",
    },
    ["id"],
  );
  await schema.table("delivery_bodies", { id: "text", payload: "text?", rendered: "text?" }, ["id"]);
  // Ids sort by their time: a route's newest come first without a sort.
  await schema.index("deliveries", "by_route", { columns: ["route", "id"] });
  await schema.index("deliveries", "open", { columns: ["id"], where: sql<boolean>`ended_at is null` });
  await schema.columns("runs", { delivery: "text?" });
  await schema.table(
    "pending_events",
    {
      id: "text",
      delivery: "text",
      prompt: "text",
      superseded: "integer",
      first_at: "integer",
      due_at: "integer",
    },
    ["id"],
  );
  await schema.index("pending_events", "by_due", { columns: ["due_at", "id"] });
}
