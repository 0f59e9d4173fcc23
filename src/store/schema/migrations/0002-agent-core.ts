import { sql } from "kysely";
import type { SchemaBuilder } from "./builder.ts";

/** Lineage, compression and figures of sessions; grants that outlive the process; what an owner spent on a day. */
export async function agentCore(schema: SchemaBuilder): Promise<void> {
  await schema.columns(
    "sessions",
    { parent_id: "text?", root_id: "text?", usage: "text?", context_seq: "integer", summary_seq: "integer?" },
    { context_seq: 0 },
  );
  await schema.index("sessions", "by_title", {
    columns: ["owner", "title"],
    where: sql<boolean>`title is not null`,
  });
  await schema.index("sessions", "by_root", {
    columns: ["root_id"],
    where: sql<boolean>`root_id is not null`,
  });
  await schema.table(
    "grants",
    { owner: "text", signature: "text", tool: "text", title: "text", created_at: "integer" },
    ["owner", "signature"],
  );
  await schema.table("spending", { owner: "text", day: "text", tokens: "integer" }, ["owner", "day"]);
}
