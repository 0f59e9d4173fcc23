import { sql } from "kysely";
import type { SchemaBuilder } from "./builder.ts";

/** Messages to one chat go in their order; parts that arrived are noted; what may have arrived is told from what did not. */
export async function outboxLanes(schema: SchemaBuilder): Promise<void> {
  await schema.columns("outbox", { lane: "text?", retried_at: "integer?", attempt_log: "text?" });
  await schema.columns("outbox", { tried_at: "integer?", uncertain_at: "integer?" });
  const counted = { queue: "text", held: "integer", parts_sent: "integer" } as const;
  await schema.columns("outbox", counted, { queue: "", held: 0, parts_sent: 0 });
  const owed = sql<boolean>`status in ('due', 'leased')`;
  await sql`update outbox set queue = substr(target, 1, 400) where ${owed}`.execute(schema.db);
  // What waits behind an older one is not in it: a long lane costs those who look for work nothing.
  await schema.dropIndex("outbox", "ready");
  await schema.index("outbox", "ready", {
    columns: ["queue", "available_at", "id"],
    where: sql<boolean>`status in ('due', 'leased') and held = 0`,
  });
  await schema.index("outbox", "lane", { columns: ["lane", "id"], where: owed });
  await schema.index("outbox", "leased", { columns: ["lane"], where: sql<boolean>`status = 'leased'` });
  await schema.dropIndex("outbox", "dead");
  await schema.index("outbox", "failed", {
    columns: ["status", "id"],
    where: sql<boolean>`status in ('dead', 'unknown', 'dropped')`,
  });
  await schema.index("outbox", "by_ref", { columns: ["ref"], where: sql<boolean>`ref is not null` });
}
