import type { SchemaBuilder } from "./builder.ts";

/** When the request of an attempt began; and what a scheduler found when its clock had been ahead. */
export async function deliveries(schema: SchemaBuilder): Promise<void> {
  await schema.columns("outbox", { started_at: "integer?" });
  await schema.columns("cron_tickers", { corrected_at: "integer?", corrected_jobs: "integer?" });
}
