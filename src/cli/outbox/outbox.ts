/** `agentd deliveries`: messages to people in the outbox, straight from the database, whether the gateway runs or not. */
import { defineCommand } from "citty";
import { lazyCommand } from "../kit/command.ts";

export const deliveriesCommand = defineCommand({
  meta: {
    name: "deliveries",
    description: "Messages to people: how they stand, and what is to become of them",
  },
  subCommands: {
    list: lazyCommand("List messages, newest first", async () => (await import("./list.ts")).listCommand),
    show: lazyCommand(
      "Show a message: how it went, and what to do",
      async () => (await import("./list.ts")).showCommand,
    ),
    retry: lazyCommand(
      "Send messages again, such as those that were given up",
      async () => (await import("./act.ts")).retryCommand,
    ),
    drop: lazyCommand("Owe messages no more", async () => (await import("./act.ts")).dropCommand),
  },
});
