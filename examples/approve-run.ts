/** Starts a run, follows it, and answers its question about a command: node examples/approve-run.ts [once|deny] */
import process from "node:process";
import { createAgentClient, streamRunEvents } from "@agentd/agentd/client";

const options = {
  baseUrl: process.env["AGENTD_URL"] ?? "http://127.0.0.1:8642",
  apiKey: process.env["API_SERVER_KEY"] ?? "",
};
const choice = process.argv[2] === "once" ? "once" : "deny";
const client = createAgentClient(options);
const { data: run } = await client.createRun({ body: { input: "run: rm -r old-build" } });
const path = { run_id: run.run_id };

// If the connection is cut, the loop continues after the last event.
for await (const event of streamRunEvents(options, run.run_id)) {
  if (event.event === "message.delta") process.stdout.write(event.delta);
  if (event.event === "approval.request") {
    console.log(`\n? ${event.description} -> ${choice}`);
    await client.resolveRunApproval({ path, body: { choice, request_id: event.request_id } });
  }
}
console.log(`\n${(await client.getRun({ path })).data.status}`);
