/** A host of the gateway: one prompt, its events, and a policy for approvals. node examples/gateway-client.ts */
import process from "node:process";
import { connectGateway, webSocketTransport } from "@agentd/agentd/gateway";

await using gateway = await connectGateway({
  transport: webSocketTransport({
    url: process.env["AGENTD_URL"] ?? "http://127.0.0.1:8642",
    token: process.env["API_SERVER_KEY"] ?? "",
  }),
  questions: { approval: () => ({ choice: "deny" }) }, // other questions are declined
});
const { session_id } = await gateway.call("session.create");
const events = gateway.events({ sessionId: session_id });
await gateway.call("prompt.submit", { session_id, text: process.argv[2] ?? "run: echo hello" });
for await (const event of events) {
  if (event.type === "tool.start") console.log(`\n[${event.payload.name}]`);
  if (event.type === "message.delta") process.stdout.write(event.payload.text);
  if (event.type === "message.complete") break;
}
process.stdout.write("\n");
