/** `agentd webhook`: routes that are made while the gateway runs, and what came in on all of them. */
import { defineCommand } from "citty";
import { lazyCommand } from "../kit/command.ts";

const subscribe = async () => (await import("./subscribe.ts")).subscribeCommand;
const list = async () => (await import("./list.ts")).listCommand;
const remove = async () => (await import("./list.ts")).removeCommand;

export const webhookCommand = defineCommand({
  meta: { name: "webhook", description: "Subscribe to webhooks, try routes, and look at what came in" },
  subCommands: {
    subscribe: lazyCommand("Make a route for the events of a service, or change it", subscribe),
    add: lazyCommand("The same as subscribe", subscribe),
    list: lazyCommand("List the subscriptions", list),
    ls: lazyCommand("The same as list", list),
    remove: lazyCommand("Remove a subscription", remove),
    rm: lazyCommand("The same as remove", remove),
    test: lazyCommand(
      "Send a signed request to a route, or see what would become of it",
      async () => (await import("./test.ts")).testCommand,
    ),
    deliveries: lazyCommand(
      "List, show and replay what came in",
      async () => (await import("./deliveries.ts")).deliveriesCommand,
    ),
  },
});
