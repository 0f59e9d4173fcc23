/** A server made with the protocol's own SDK. Argument: the file for its process id. */
import { spawn } from "node:child_process";
import { appendFileSync, existsSync } from "node:fs";
import process from "node:process";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const pidFile = process.argv[2];
if (pidFile !== undefined) appendFileSync(pidFile, `${process.pid}\n`);
process.stderr.write("the fixture is up\n");

const server = new McpServer({ name: "fixture", version: "1.0.0" }, { capabilities: { logging: {} } });
const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });

server.registerTool("echo", { description: "Says it again.", inputSchema: { text: z.string() } }, (input) =>
  text(input.text),
);
server.registerTool("environment", { inputSchema: {} }, () => text(JSON.stringify(process.env)));
server.registerTool("slow", { inputSchema: { ms: z.number(), text: z.string() } }, async (input) => {
  await new Promise((resolve) => setTimeout(resolve, input.ms));
  return text(input.text);
});
server.registerTool("waits", { inputSchema: { file: z.string(), text: z.string() } }, async (input) => {
  while (!existsSync(input.file)) await new Promise((resolve) => setTimeout(resolve, 5));
  return text(input.text);
});
server.registerTool("fails", { inputSchema: {} }, () => ({
  ...text("the disk is full"),
  isError: true,
}));
server.registerTool("dies", { inputSchema: {} }, () => process.exit(3));
server.registerTool("floods", { inputSchema: {} }, () => text("x".repeat(300_000)));
server.registerTool("pictures", { inputSchema: {} }, () => ({
  content: [
    { type: "text", text: "before" },
    { type: "image", mimeType: "image/png", data: Buffer.alloc(1234).toString("base64") },
  ],
}));
server.registerTool("notifies", { inputSchema: {} }, async () => {
  await server.server.sendLoggingMessage({ level: "info", data: "half way" });
  server.sendToolListChanged();
  return text("notified");
});
server.registerTool("spawns", { inputSchema: {} }, () => {
  const child = spawn("sleep", ["600"], { stdio: "ignore" });
  return text(String(child.pid));
});
server.registerTool("elicits", { inputSchema: {} }, async () => {
  const answer = await server.server.elicitInput({
    message: "Where to?",
    requestedSchema: {
      type: "object",
      properties: {
        city: { type: "string", enum: ["Rome", "Oslo"] },
        fast: { type: "boolean" },
        seats: { type: "integer" },
      },
      required: ["city", "fast", "seats"],
    },
  });
  return text(JSON.stringify(answer));
});
await server.connect(new StdioServerTransport());
