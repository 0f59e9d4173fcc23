// Drives the client that openapi-typescript and openapi-fetch make. Copied beside it by scripts/foreign-clients.ts.
import process from "node:process";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.d.ts";

const client = createClient<paths>({
  baseUrl: process.env["AGENTD_URL"] ?? "",
  headers: { authorization: `Bearer ${process.env["API_SERVER_KEY"]}` },
});
const content = [{ type: "text" as const, text: process.env["AGENTD_PROMPT"] ?? "" }];
const { data, error } = await client.POST("/v1/chat/completions", {
  body: { messages: [{ role: "user", content }] },
});
if (error) throw new Error(error.error.message);
console.log(data.choices[0]?.message.content);
const { data: run } = await client.POST("/v1/runs", { body: { input: "hello" } });
console.log(`created ${run?.created_at}`);

/** The frames of the streams are types as well. */
export function textOf(event: components["schemas"]["ResponseStreamEvent"]): string {
  return event.type === "response.output_text.delta" ? event.delta : "";
}
