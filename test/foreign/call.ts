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
const { data: job, error: refusal } = await client.POST("/v1/jobs", {
  body: { schedule: "every 2h", prompt: "hello", name: "foreign-ts" },
});
if (refusal) throw new Error(refusal.error.message);
const query = { name: job.name, state: ["scheduled" as const] };
const { data: jobs } = await client.GET("/v1/jobs", { params: { query } });
console.log(`job ${job.name} ${job.state} ${jobs?.data.length}`);

/** The frames of the streams are types as well. */
export function textOf(event: components["schemas"]["ResponseStreamEvent"]): string {
  return event.type === "response.output_text.delta" ? event.delta : "";
}
