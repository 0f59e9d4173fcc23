/** `agentd webhook list` and `remove`, and how the other commands find a route. */
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/suggest.ts";
import type { Route } from "../../client/http.ts";
import { subscriptionName } from "../../webhook/routes/subscriptions.ts";
import { withApi, type Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { jsonOption, requiredArgument } from "../kit/options.ts";
import { print, printJson, printTable } from "../kit/output.ts";
import { readPages } from "../kit/pages.ts";
import { oneLine } from "../sessions/text.ts";

export const listCommand = defineApiCommand({
  meta: { name: "list", description: "List the subscriptions, without their secrets" },
  args: { json: jsonOption },
  async run({ args }) {
    const routes = await withWebhooks(listRoutes);
    const subscriptions = routes.filter(({ source }) => source === "subscription");
    const configured = routes.filter(({ source }) => source === "config").map(({ name }) => name);
    if (args.json) printJson({ subscriptions, configured_routes: configured });
    else printList(subscriptions, configured);
  },
});

const HEAD = ["NAME", "STATUS", "EVENTS", "DELIVER", "SENDER", "URL", "DESCRIPTION"] as const;

function printList(subscriptions: readonly Route[], configured: readonly string[]): void {
  if (subscriptions.length === 0)
    print("No dynamic webhook subscriptions. Create one with `agentd webhook subscribe <name>`.");
  else printTable(HEAD, subscriptions.map(cellsOf));
  for (const { name, issues } of subscriptions)
    for (const issue of issues) print(`Problem of ${oneLine(name)}: ${oneLine(issue)}`);
  if (configured.length > 0) print(`Configured routes: ${configured.join(", ")}`);
}

function cellsOf(route: Route): readonly string[] {
  const { name, description, url, events, deliver, deliver_only: isDirect, scheme, auth } = route;
  return [
    oneLine(name),
    statusOf(route),
    events.length > 0 ? oneLine(events.join(", ")) : "(all)",
    `${oneLine(deliver)}${isDirect ? " (no agent)" : ""}`,
    scheme === "auto" ? auth : scheme,
    url ?? "(random port)",
    oneLine(description ?? ""),
  ];
}

function statusOf({ enabled, issues }: Route): string {
  if (issues.length > 0) return "problem";
  return enabled ? "ready" : "disabled";
}

export const removeCommand = defineApiCommand({
  meta: { name: "remove", description: "Remove a subscription with its secret" },
  args: {
    name: requiredArgument("Name of the subscription"),
    json: jsonOption,
  },
  async run({ args }) {
    await withWebhooks(async (api) => {
      const routes = await listRoutes(api);
      const { name, owner } = named(args.name, routes, "subscription") ?? refuse(args.name, routes);
      await api.client.deleteRoute({ path: { route_name: name }, headers: api.ownedBy(owner) });
      if (args.json) printJson({ name, removed: true });
      else print(`  Removed webhook subscription: ${name}`);
    });
  },
});

function refuse(text: string, routes: readonly Route[]): never {
  const hint = named(text, routes, "config")
    ? "It is a configured route. Remove it from platforms.webhook."
    : "This command cannot remove configured routes.";
  const names = routes.filter(({ source }) => source === "subscription").map(({ name }) => name);
  const near = suggest(text, names).replace(/^; /, " ");
  throw new ServiceError("not_found", `  No subscription named '${text}'.${near}\n  ${hint}`);
}

/** Runs `work` with the API. ServiceError `invalid_config` when the receiver is off. */
export function withWebhooks<T>(work: (api: Api) => Promise<T>): Promise<T> {
  return withApi(async (api) => {
    const { effective } = (await api.client.getConfig()).data;
    const { webhook } = effective["platforms"] as { readonly webhook?: { readonly enabled?: unknown } };
    if (webhook?.enabled !== true) throw notEnabled(api);
    return work(api);
  });
}

function notEnabled({ target }: Api): ServiceError {
  const where = target === undefined ? "" : ` on the server at ${target.url}`;
  return new ServiceError(
    "invalid_config",
    [
      `Webhooks are not enabled${where}.`,
      ...(target === undefined ? ["  Run `agentd gateway setup`, or do it manually:"] : []),
      "  set platforms.webhook.enabled to true with `agentd config set`, or set WEBHOOK_ENABLED=true in the environment,",
      "  and restart `agentd gateway`.",
    ].join("\n"),
  );
}

/** Returns all routes, by name. */
export async function listRoutes({ client, anyOwner: headers }: Api): Promise<readonly Route[]> {
  return (await readPages((query) => client.listRoutes({ query, headers }))).rows;
}

/** Returns the route with this name, as typed or as `subscribe` would normalize it. ServiceError `not_found`. */
export async function findRoute(api: Api, text: string): Promise<Route> {
  const routes = await listRoutes(api);
  const found = named(text, routes);
  if (found) return found;
  const names = routes.map(({ name }) => name);
  throw new ServiceError("not_found", `Unknown route ${JSON.stringify(text)}${suggest(text, names)}`);
}

function named(text: string, routes: readonly Route[], source?: Route["source"]): Route | undefined {
  const normalized = subscriptionName(text);
  const among = routes.filter((route) => source === undefined || route.source === source);
  return among.find(({ name }) => name === text) ?? among.find(({ name }) => name === normalized);
}
