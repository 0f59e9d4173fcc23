/** Webhooks for the console in Chromium: a receiver that listens, a route, and requests of its sender. */
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import type { Delivery, Route } from "../../generated/http/client/types.gen.ts";
import type { ConsoleTest } from "./browser.ts";

/** Configuration of a receiver on any free port. */
export const RECEIVER = {
  platforms: { webhook: { enabled: true, host: "127.0.0.1", port: 0, routes: {} } },
} as const;

/** Sends a request to the API and resolves to its JSON. Fails on an error answer. */
export async function callApi<T>(
  shown: ConsoleTest,
  path: string,
  body?: object,
  method = "POST",
): Promise<T> {
  const response = await shown.request(path, body ? { method, body: JSON.stringify(body) } : {});
  assert.ok(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
  return (await response.json()) as T;
}

/** A route for issues that were opened. */
export function createIssuesRoute(shown: ConsoleTest): Promise<Route> {
  return callApi(shown, "/v1/webhooks/routes", {
    name: "issues",
    events: ["issues"],
    filters: [{ field: "action", in: ["opened"] }],
    prompt: "Label the issue {issue.title}.",
    deliver: "log",
  });
}

/** Sends an event as GitHub does. Resolves to the status of the answer. */
export async function sendIssue({ url, secret }: Route, action: string, event = "issues"): Promise<number> {
  const body = JSON.stringify({ action, issue: { title: "The build is red", number: 42 } });
  const mac = createHmac("sha256", secret ?? "")
    .update(body)
    .digest("hex");
  const response = await fetch(url ?? "", {
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      "x-github-event": event,
      "x-github-delivery": randomUUID(),
      "x-hub-signature-256": `sha256=${mac}`,
    },
  });
  await response.body?.cancel();
  return response.status;
}

/** Returns the deliveries, newest first. */
export async function deliveriesOf(shown: ConsoleTest): Promise<readonly Delivery[]> {
  return (await callApi<{ readonly data: readonly Delivery[] }>(shown, "/v1/webhooks/deliveries")).data;
}
