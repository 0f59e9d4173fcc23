/** All commands of `agentd`. */
import { defineCommand } from "citty";
import { lazyCommand } from "./kit/command.ts";

// Commands are loaded when they are called: `agentd version` must not wait for the service.
export const rootCommand = defineCommand({
  meta: {
    name: "agentd",
    description:
      "One AI agent, driven by any program: HTTP, JSON-RPC, ACP, webhooks and the clock over one core.",
  },
  subCommands: {
    gateway: lazyCommand(
      "Run the service",
      async () => (await import("./gateway/gateway.ts")).gatewayCommand,
    ),
    chat: lazyCommand(
      "Talk with the agent, at a terminal or through pipes",
      async () => (await import("./chat/chat.ts")).chatCommand,
    ),
    rpc: lazyCommand(
      "Serve the TUI gateway on standard input and output",
      async () => (await import("./gateway/rpc.ts")).rpcCommand,
    ),
    acp: lazyCommand(
      "Serve an editor on standard input and output",
      async () => (await import("./acp/acp.ts")).acpCommand,
    ),
    setup: lazyCommand(
      "Set up a provider and a model",
      async () => (await import("./setup/setup.ts")).setupCommand,
    ),
    doctor: lazyCommand(
      "Look for what is wrong",
      async () => (await import("./doctor/doctor.ts")).doctorCommand,
    ),
    model: lazyCommand(
      "Show, list, choose and try models",
      async () => (await import("./model/model.ts")).modelCommand,
    ),
    config: lazyCommand(
      "Read, change and check the configuration",
      async () => (await import("./home/config.ts")).configCommand,
    ),
    sessions: lazyCommand(
      "List, show, export and delete saved sessions",
      async () => (await import("./sessions/sessions.ts")).sessionsCommand,
    ),
    cron: lazyCommand(
      "Jobs of the clock: make, list, change, run them",
      async () => (await import("./cron/cron.ts")).cronCommand,
    ),
    webhook: lazyCommand(
      "Subscribe to webhooks, try routes, look at what came in",
      async () => (await import("./webhook/webhook.ts")).webhookCommand,
    ),
    outbox: lazyCommand(
      "List outbound messages, retry them, drop them",
      async () => (await import("./outbox/outbox.ts")).outboxCommand,
      { aliases: ["deliveries"] },
    ),
    platforms: lazyCommand(
      "List what messages can be sent through, and try it",
      async () => (await import("./platforms/platforms.ts")).platformsCommand,
    ),
    backup: lazyCommand(
      "Copy the home and its database, while services go on",
      async () => (await import("./home/backup.ts")).backupCommand,
    ),
    spec: lazyCommand(
      "Print a machine-readable description of an interface",
      async () => (await import("./home/spec.ts")).specCommand,
    ),
    version: lazyCommand("Print the version", async () => (await import("./kit/version.ts")).versionCommand),
  },
});
