/** `agentd outbox`: outbound messages, read and changed in the database, whether the gateway runs or not. */
import { defineCommand } from "citty";
import { lazyCommand } from "../kit/command.ts";

export const outboxCommand = defineCommand({
  meta: {
    name: "outbox",
    description: "Outbound messages: list them, show them, retry them, drop them",
  },
  subCommands: {
    list: lazyCommand("List messages, newest first", async () => (await import("./list.ts")).listCommand),
    show: lazyCommand(
      "Show a message: its attempts, and what to do next",
      async () => (await import("./list.ts")).showCommand,
    ),
    retry: lazyCommand("Send messages again", async () => (await import("./act.ts")).retryCommand),
    drop: lazyCommand("Drop messages: never send them", async () => (await import("./act.ts")).dropCommand),
  },
});
