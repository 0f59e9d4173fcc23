/** What the tests of webhook routes over the control API share. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { FeedEvent, Route } from "../../generated/http/client/types.gen.ts";
import { list } from "./control.ts";
import { post } from "./runs.ts";
import { KEY, type TestService } from "./service.ts";
import { untilVisible } from "./changes.ts";

const OTHER = "another-key-0123456789";
const HOOKS = "webhook-key-0123456789";
export const other = { authorization: `Bearer ${OTHER}` };
export const hooks = { authorization: `Bearer ${HOOKS}` };
export const keys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
  { key: HOOKS, name: "hooks", owner: "a", scopes: ["webhooks", "read"] },
];
export const ROUTES = "/v1/webhooks/routes";

/** Creates a route. */
export async function createRoute(service: TestService, body: object, headers: Record<string, string> = {}) {
  const response = await post(service, ROUTES, body, headers);
  assert.equal(response.status, 201, await response.clone().text());
  return (await response.json()) as Route & { secret: string };
}

export async function readRoute(
  service: TestService,
  name: string,
  headers: Record<string, string> = {},
): Promise<Route> {
  const response = await service.request(`${ROUTES}/${name}`, { headers });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Route;
}

/** The subscriptions file. */
export const file = (service: TestService) => join(service.home, "agentd", "webhook_subscriptions.json");

/** The changes of routes. In PostgreSQL an event can be read once all older transactions of the server have ended. */
export async function routeEvents(service: TestService): Promise<FeedEvent[]> {
  await untilVisible(service.service.store);
  return list<FeedEvent>(service, "/v1/events?types=route.*", { accept: "application/json" });
}
