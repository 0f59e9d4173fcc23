/** Sends a signed event as GitHub does: node examples/send-webhook.ts pushes SECRET */
import { createHmac, randomUUID } from "node:crypto";
import process from "node:process";

const [route = "pushes", secret = process.env["WEBHOOK_SECRET"] ?? ""] = process.argv.slice(2);
const url = process.env["AGENTD_WEBHOOK_URL"] ?? "http://127.0.0.1:8644";
const body = JSON.stringify({ ref: "refs/heads/main", pusher: { name: "octocat" } });

const response = await fetch(`${url}/webhooks/${route}`, {
  method: "POST",
  headers: {
    "content-type": "application/json",
    "x-github-event": "push",
    // The same id again is answered as a duplicate, and starts nothing.
    "x-github-delivery": randomUUID(),
    // Over the bytes that are sent: a body that is parsed and written anew would not fit.
    "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
  },
  body,
});
console.log(response.status, await response.text());
