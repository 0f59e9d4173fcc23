/** `agentd webhook`: manages subscriptions and inspects deliveries. */
import { defineCommand } from "citty";
import { lazyCommand } from "../kit/command.ts";

const subscribe = async () => (await import("./subscribe.ts")).subscribeCommand;
const list = async () => (await import("./routes.ts")).listCommand;
const remove = async () => (await import("./routes.ts")).removeCommand;

export const webhookCommand = defineCommand({
  meta: { name: "webhook", description: "Manage webhook subscriptions, test routes and inspect deliveries" },
  subCommands: {
    subscribe: lazyCommand("Create or change a subscription", subscribe),
    add: lazyCommand("Alias of subscribe", subscribe),
    list: lazyCommand("List the subscriptions", list),
    ls: lazyCommand("Alias of list", list),
    remove: lazyCommand("Remove a subscription", remove),
    rm: lazyCommand("Alias of remove", remove),
    test: lazyCommand(
      "Send a signed test request to a route, or do a dry run",
      async () => (await import("./test.ts")).testCommand,
    ),
    listen: lazyCommand(
      "Show deliveries of a route as they happen, and send it signed test events",
      async () => (await import("./listen.ts")).listenCommand,
    ),
    deliveries: lazyCommand(
      "List, show and replay deliveries",
      async () => (await import("./deliveries.ts")).deliveriesCommand,
    ),
  },
});
