/** What an editor does: starts `agentd acp`, opens a session, and sends a prompt. node examples/acp-client.ts */
import { spawn } from "node:child_process";
import process from "node:process";
import { Readable, Writable } from "node:stream";
import { client, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const editor = client()
  .onNotification("session/update", ({ params: { update } }) => {
    if (update.sessionUpdate === "tool_call") console.log(`\n[${update.title}]`);
    if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text") {
      process.stdout.write(update.content.text);
    }
  })
  .onRequest("session/request_permission", ({ params: { toolCall, options } }) => {
    console.log(`? ${toolCall.title} -> deny`);
    const optionId = options.find(({ kind }) => kind === "reject_once")?.optionId;
    return { outcome: optionId === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId } };
  });

const child = spawn("agentd", ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const output = Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>;
const { agent } = editor.connect(ndJsonStream(Writable.toWeb(child.stdin), output));
await agent.request("initialize", { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
const { sessionId } = await agent.request("session/new", { cwd: process.cwd(), mcpServers: [] });
const text = process.argv[2] ?? "run: rm -r old-build";
const { stopReason } = await agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
console.log(`\n${stopReason}`);
child.stdin.end();
