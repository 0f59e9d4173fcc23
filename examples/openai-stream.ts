/** Streams an answer with the official OpenAI package: node examples/openai-stream.ts "run: echo hello" */
import process from "node:process";
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: `${process.env["AGENTD_URL"] ?? "http://127.0.0.1:8642"}/v1`,
  apiKey: process.env["API_SERVER_KEY"],
});
const stream = await client.chat.completions.create({
  model: "agentd",
  messages: [{ role: "user", content: process.argv[2] ?? "run: echo hello" }],
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");
process.stdout.write("\n");
