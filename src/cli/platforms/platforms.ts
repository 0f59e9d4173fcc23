/** `agentd platforms`: the platforms that messages can be sent through. */
import { defineCommand } from "citty";
import { lazyCommand } from "../kit/command.ts";

export const platformsCommand = defineCommand({
  meta: { name: "platforms", description: "Platforms for outbound messages: list them, send a test message" },
  subCommands: {
    list: lazyCommand(
      "List the platforms, their status, and their missing settings",
      async () => (await import("./list.ts")).listCommand,
    ),
    test: lazyCommand(
      "Send a test message through a platform",
      async () => (await import("./test.ts")).testCommand,
    ),
  },
});
