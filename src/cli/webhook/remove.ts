/** `agentd webhook remove`: takes a route out of the file of subscriptions; a running gateway answers 404 from then on. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/nearest.ts";
import { subscriptionName, type Subscriptions } from "../../webhook/routes/subscription.ts";
import { changeSubscriptions } from "../../webhook/routes/files.ts";
import { print, printJson } from "../kit/output.ts";
import { openWebhookHome, type WebhookHome } from "./home.ts";

export const removeCommand = defineCommand({
  meta: { name: "remove", description: "Remove a subscription, with its secret" },
  args: {
    name: { type: "positional", required: true, description: "Name of the subscription" },
    json: { type: "boolean", description: "Print JSON" },
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
