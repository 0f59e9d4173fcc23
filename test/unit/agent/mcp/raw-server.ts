/** A server that misbehaves as its argument says. */
import { createInterface } from "node:readline";
import process from "node:process";

const mode = process.argv[2];
const send = (message: unknown) => process.stdout.write(`${JSON.stringify(message)}\n`);
const tool = (name: string, inputSchema: unknown = { type: "object" }) => ({ name, inputSchema });

function toolsOf(): unknown[] {
  if (mode === "many") return Array.from({ length: 10_000 }, (_, index) => tool(`tool_${index}`));
  if (mode === "schemas")
    return [
      tool("pattern", { type: "object", properties: { a: { type: "string", pattern: "(" } } }),
      tool("reference", { type: "object", properties: { a: { $ref: "#/$defs/none" } } }),
      tool("array", { type: "array", required: 5 }),
    ];
  return [tool("any")];
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line) as { id?: number; method: string };
  if (mode === "hang") return;
  if (mode === "garbage") {
    process.stdout.write(
      'not json\n[1,2]\n"text"\nnull\n{"jsonrpc":"2.0","id":999,"result":{}}\n{"id":[]}\n',
    );
  }
  if (mode === "shapes" && method === "tools/list") return send({ jsonrpc: "2.0", id, result: { tools: 7 } });
  if (method === "initialize") {
    const result = {
      protocolVersion: "2025-06-18",
      capabilities: { tools: {} },
      serverInfo: { name: "raw", version: "1" },
    };
    return send({ jsonrpc: "2.0", id, result });
  }
  if (method === "tools/list") return send({ jsonrpc: "2.0", id, result: { tools: toolsOf() } });
  if (method === "tools/call" && mode === "line") return void process.stdout.write("x".repeat(50_000_000));
  if (method === "tools/call" && mode === "mute") return;
  if (method === "tools/call")
    send({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "ok" }] } });
});
