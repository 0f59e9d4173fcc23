/** `agentd webhook list` and `remove`. */
import process from "node:process";
import { defineCommand } from "citty";
import {
  type Subscription,
  subscriptionName,
  type Subscriptions,
} from "../../webhook/routes/subscription.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, requiredArgument } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { oneLine } from "../sessions/text.ts";
import { checkEntry, openWebhookHome, receiverUrl, routeUrl, type WebhookHome } from "./home.ts";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/nearest.ts";
import { changeSubscriptions } from "../../webhook/routes/files.ts";

export const listCommand = defineCommand({
  meta: { name: "list", description: "List the subscriptions, without their secrets" },
  args: { json: jsonOption },
  async run({ args }) {
    const webhookHome = await openWebhookHome();
    const { path, problem, settings, subscriptions } = webhookHome;
    const listed = Object.entries(subscriptions).map(([name, entry]) => toListed(webhookHome, name, entry));
    const routes = Object.keys(settings.routes);
    if (args.json) printJson({ subscriptions: listed, configured_routes: routes });
    else print(textOf(listed, routes));
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
    script: route?.script ?? null,
    enabled: route?.isEnabled ?? false,
    created_at: typeof createdAt === "string" ? createdAt : null,
    problems: [
      ...("problems" in checked ? checked.problems : checked.warnings),
      ...(isHidden ? ["a configured route of this name overrides it"] : []),
    ],
  };
}

function textOf(listed: readonly ListedSubscription[], routes: readonly string[]): string {
  const head =
    listed.length === 0
      ? ["  No dynamic webhook subscriptions.", "  Create one with `agentd webhook subscribe <name>`."]
      : [`  ${listed.length} webhook subscription(s):`, ...listed.flatMap(linesOf)];
  const configured = routes.length === 0 ? [] : ["", `  Configured routes: ${routes.join(", ")}`];
  return [...head, ...configured].join("\n");
}

function linesOf(each: ListedSubscription): readonly string[] {
  const { name, description, url, events, deliver, deliver_only: isDirect, script, enabled, problems } = each;
  const isServed = enabled || problems.length > 0;
  return [
    "",
    `  ◆ ${oneLine(name)}${isServed ? "" : " (disabled)"}`,
    ...(description === null ? [] : [`    ${oneLine(description)}`]),
    `    URL:     ${url}`,
    `    Events:  ${events.length > 0 ? oneLine(events.join(", ")) : "(all)"}`,
    `    Deliver: ${oneLine(deliver)}${isDirect ? " (direct — no agent)" : ""}`,
    ...(script === null ? [] : [`    Script:  ${oneLine(script)}`]),
    ...problems.map((problem) => `    Problem: ${oneLine(problem)}`),
  ];
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
    await changeSubscriptions(webhookHome.path, (subscriptions) => {
      removed = find(subscriptions, args.name) ?? refuse(webhookHome, args.name);
      return Object.fromEntries(Object.entries(subscriptions).filter(([name]) => name !== removed));
    });
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
