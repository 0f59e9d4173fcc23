import type { SchemaBuilder } from "./builder.ts";

/** Prompts that overtake the queue of their session. */
export async function sessions(schema: SchemaBuilder): Promise<void> {
  await schema.columns("runs", { precedence: "integer" }, { precedence: 0 });
}
