/** `agentd platforms`: what messages can be sent through, and whether it works. */
import { defineCommand } from "citty";
import { lazyCommand } from "../kit/command.ts";

export const platformsCommand = defineCommand({
  meta: { name: "platforms", description: "What messages can be sent through: list it, try it" },
  subCommands: {
    list: lazyCommand(
      "List the platforms: which are ready, what the others lack",
      async () => (await import("./list.ts")).listCommand,
    ),
    test: lazyCommand(
      "Send a real message through a platform, now",
      async () => (await import("./test.ts")).testCommand,
    ),
  },
});
