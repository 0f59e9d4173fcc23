/** `agentd webhook list` and `remove`. */
import process from "node:process";
import { defineCommand } from "citty";
import {
  type Subscription,
  subscriptionName,
  type Subscriptions,
  changeSubscriptions,
  checkEntry,
  problemsOf,
} from "../../webhook/routes/subscriptions.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";
import { jsonOption, requiredArgument } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { oneLine } from "../sessions/text.ts";
import { receiverUrl, routeUrl } from "../../webhook/routes/route.ts";
import { openWebhookHome, recordRouteChange, type WebhookHome } from "./home.ts";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/suggest.ts";

export const listCommand = defineCommand({
  meta: { name: "list", description: "List the subscriptions, without their secrets" },
  args: { json: jsonOption },
  async run({ args }) {
    const webhookHome = await openWebhookHome();
    const { path, problem, settings, subscriptions } = webhookHome;
    const listed = Object.entries(subscriptions).map(([name, entry]) => toListed(webhookHome, name, entry));
    const routes = Object.keys(settings.routes);
    if (args.json) printJson({ subscriptions: listed, configured_routes: routes });
    else printList(listed, routes);
    if (problem === undefined) return;
    warn(`${path} is invalid: ${problem}. Correct it. A running gateway keeps the previous contents.`);
    process.exitCode = EXIT_FAILURE;
  },
});

interface ListedSubscription {
  readonly name: string;
  readonly url: string;
  readonly description: string | null;
  readonly events: readonly string[];
  readonly deliver: string;
  readonly deliver_only: boolean;
  /** The service whose signature it accepts; null: any that its headers identify. */
  readonly scheme: string | null;
  readonly auth: string;
  readonly script: string | null;
  readonly enabled: boolean;
  readonly created_at: string | null;
  /** Why the subscription does not work, or not as written. */
  readonly problems: readonly string[];
}

/** Returns a subscription with its problems. The file may have been edited by hand. */
function toListed(
  { settings, defaults }: WebhookHome,
  name: string,
  entry: Subscription,
): ListedSubscription {
  const checked = checkEntry(name, entry, defaults);
  const isHidden = Object.hasOwn(settings.routes, name);
  const route = "route" in checked ? checked.route : undefined;
  const { description, created_at: createdAt } = entry as Readonly<Record<string, unknown>>;
  return {
    name,
    url: routeUrl(receiverUrl(settings), name),
    description: typeof description === "string" && description !== "" ? description : null,
    events: route?.events ?? [],
    deliver: route?.deliver ?? "log",
    deliver_only: route?.deliverOnly ?? false,
    scheme: route?.sender?.name ?? null,
    auth: route?.auth ?? "signature",
    script: route?.script ?? null,
    enabled: route?.isEnabled ?? false,
    created_at: typeof createdAt === "string" ? createdAt : null,
    problems: [...problemsOf(checked), ...(isHidden ? ["a configured route of this name overrides it"] : [])],
  };
}

const HEAD = ["NAME", "STATUS", "EVENTS", "DELIVER", "SENDER", "URL", "DESCRIPTION"] as const;

function printList(listed: readonly ListedSubscription[], routes: readonly string[]): void {
  if (listed.length === 0)
    print("No dynamic webhook subscriptions. Create one with `agentd webhook subscribe <name>`.");
  else printTable(HEAD, listed.map(cellsOf));
  for (const { name, problems } of listed)
    for (const problem of problems) print(`Problem of ${oneLine(name)}: ${oneLine(problem)}`);
  if (routes.length > 0) print(`Configured routes: ${routes.join(", ")}`);
}

function cellsOf(each: ListedSubscription): readonly string[] {
  const { name, description, url, events, deliver, deliver_only: isDirect, scheme, auth } = each;
  return [
    oneLine(name),
    statusOf(each),
    events.length > 0 ? oneLine(events.join(", ")) : "(all)",
    `${oneLine(deliver)}${isDirect ? " (no agent)" : ""}`,
    scheme ?? auth,
    url,
    oneLine(description ?? ""),
  ];
}

function statusOf({ enabled, problems }: ListedSubscription): string {
  if (problems.length > 0) return "problem";
  return enabled ? "ready" : "disabled";
}

export const removeCommand = defineCommand({
  meta: { name: "remove", description: "Remove a subscription with its secret" },
  args: {
    name: requiredArgument("Name of the subscription"),
    json: jsonOption,
  },
  async run({ args }) {
    const webhookHome = await openWebhookHome();
    let removed = args.name;
    let entry: Subscription | undefined;
    await changeSubscriptions(webhookHome.path, (subscriptions) => {
      removed = find(subscriptions, args.name) ?? refuse(webhookHome, args.name);
      entry = subscriptions[removed];
      return Object.fromEntries(Object.entries(subscriptions).filter(([name]) => name !== removed));
    });
    await recordRouteChange("route.deleted", removed, entry ?? {});
    if (args.json) printJson({ name: removed, removed: true });
    else print(`  Removed webhook subscription: ${removed}`);
  },
});

/** Finds the name as typed, otherwise as `subscribe` would normalize it. */
function find(subscriptions: Subscriptions, text: string): string | undefined {
  return [text, subscriptionName(text)].find(
    (name) => name !== undefined && Object.hasOwn(subscriptions, name),
  );
}

function refuse({ settings, subscriptions }: WebhookHome, name: string): never {
  const hint = Object.hasOwn(settings.routes, name)
    ? "It is a configured route. Remove it from platforms.webhook."
    : "This command cannot remove configured routes.";
  const near = suggest(name, Object.keys(subscriptions)).replace(/^; /, " ");
  throw new ServiceError("not_found", `  No subscription named '${name}'.${near}\n  ${hint}`);
}
