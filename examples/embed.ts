/** Runs agentd inside of this process, with a tool of its own and a model for tests: node examples/embed.ts */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createScriptedEngine, createService, defineTool, systemClock } from "@agentd/agentd";
import { createAgentClient } from "@agentd/agentd/client";

const price = defineTool<{ article: string }>({
  name: "price",
  toolset: "shop",
  description: "Returns the price of an article in cents.",
  parameters: {
    type: "object",
    additionalProperties: false,
    required: ["article"],
    properties: { article: { type: "string" } },
  },
  // Without an effect, each call would ask for approval.
  inspect: ({ article }) => ({ kind: "tool", title: `Price of ${article}`, effect: "none" }),
  run: ({ article }) => Promise.resolve(article === "tea" ? "450" : "unknown"),
});

// A model that is a function. Leave it out to use the configured one.
const engine = createScriptedEngine(
  ({ step, toolResults }) =>
    step === 0
      ? { calls: [{ tool: "price", input: { article: "tea" } }] }
      : { text: `Tea costs ${toolResults[0]?.text} cents.` },
  { clock: systemClock },
);

const home = await mkdtemp(join(tmpdir(), "agentd-embed-"));
const apiKey = randomUUID();
const env = { ...process.env, API_SERVER_KEY: apiKey };
const { service } = await createService({ env, home, port: 0, tools: [price], engine });
try {
  const client = createAgentClient({ baseUrl: service.url, apiKey });
  const { data } = await client.createChatCompletion({
    body: { messages: [{ role: "user", content: "What does tea cost?" }] },
  });
  console.log(data.choices[0]?.message.content);
} finally {
  await service.stop();
  await rm(home, { recursive: true });
}
