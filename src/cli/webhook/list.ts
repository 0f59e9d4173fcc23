/** `agentd webhook list`: the subscriptions, without their secrets. */
import process from "node:process";
import { defineCommand } from "citty";
import {
  type Subscription,
  subscriptionName,
  type Subscriptions,
} from "../../webhook/routes/subscription.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { oneLine } from "../sessions/text.ts";
import { checkEntry, openWebhookHome, receiverUrl, routeUrl, type WebhookHome } from "./home.ts";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/nearest.ts";
import { changeSubscriptions } from "../../webhook/routes/subscriptions.ts";

export const listCommand = defineCommand({
  meta: { name: "list", description: "List the subscriptions; their secrets are not shown" },
  args: { json: jsonOption },
  async run({ args }) {
    const place = await openWebhookHome();
    const { path, problem, settings, subscriptions } = place;
    const listed = Object.entries(subscriptions).map(([name, entry]) => listedOf(place, name, entry));
    const routes = Object.keys(settings.routes);
    if (args.json) printJson({ subscriptions: listed, configured_routes: routes });
    else print(textOf(listed, routes));
    if (problem === undefined) return;
    warn(`${path} cannot be used: ${problem}. Correct it; a running gateway keeps what it said before.`);
    process.exitCode = EXIT_FAILURE;
  },
});

interface Listed {
  readonly name: string;
  readonly url: string;
  readonly description: string | null;
  readonly events: readonly string[];
  readonly deliver: string;
  readonly deliver_only: boolean;
  readonly script: string | null;
  readonly enabled: boolean;
  readonly created_at: string | null;
  /** What keeps it from being served, or from doing what it says. */
  readonly problems: readonly string[];
}

/** Hands may have written anything into the file: what has not the right form is told by its flaws alone. */
function listedOf({ settings, defaults }: WebhookHome, name: string, entry: Subscription): Listed {
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
      ...(isHidden ? ["the configuration has a route of this name, which counts"] : []),
    ],
  };
}

function textOf(listed: readonly Listed[], routes: readonly string[]): string {
  const head =
    listed.length === 0
      ? ["  No dynamic webhook subscriptions.", "  Make one with `agentd webhook subscribe <name>`."]
      : [`  ${listed.length} webhook subscription(s):`, ...listed.flatMap(linesOf)];
  const configured = routes.length === 0 ? [] : ["", `  Routes of the configuration: ${routes.join(", ")}`];
  return [...head, ...configured].join("\n");
}

function linesOf(each: Listed): readonly string[] {
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
    ...problems.map((problem) => `    Flaw:    ${oneLine(problem)}`),
  ];
}

export const removeCommand = defineCommand({
  meta: { name: "remove", description: "Remove a subscription, with its secret" },
  args: {
    name: { type: "positional", required: true, description: "Name of the subscription" },
    json: jsonOption,
  },
  async run({ args }) {
    const place = await openWebhookHome();
    let removed = args.name;
    await changeSubscriptions(place.path, (subscriptions) => {
      removed = find(subscriptions, args.name) ?? refuse(place, args.name);
      return Object.fromEntries(Object.entries(subscriptions).filter(([name]) => name !== removed));
    });
    if (args.json) printJson({ name: removed, removed: true });
    else print(`  Removed webhook subscription: ${removed}`);
  },
});

/** As it is written, which hands may have done in other letters, else as subscribe would write it. */
function find(subscriptions: Subscriptions, text: string): string | undefined {
  return [text, subscriptionName(text)].find(
    (name) => name !== undefined && Object.hasOwn(subscriptions, name),
  );
}

function refuse({ settings, subscriptions }: WebhookHome, name: string): never {
  const hint = Object.hasOwn(settings.routes, name)
    ? "It is a route of the configuration, which is not removed here: take it out of platforms.webhook."
    : "Routes of the configuration cannot be removed here.";
  const near = suggest(name, Object.keys(subscriptions)).replace(/^; /, " ");
  throw new ServiceError("not_found", `  No subscription named '${name}'.${near}\n  ${hint}`);
}
