/** All commands of `agentd`. */
import { defineCommand } from "citty";
import { lazyCommand } from "./kit/command.ts";

// Commands load on demand: `agentd version` must not wait for the service.
export const rootCommand = defineCommand({
  meta: {
    name: "agentd",
    description: "One AI agent for any program, over HTTP, JSON-RPC, ACP, webhooks and cron.",
  },
  subCommands: {
    gateway: lazyCommand(
      "Run the service",
      async () => (await import("./gateway/gateway.ts")).gatewayCommand,
    ),
    chat: lazyCommand(
      "Chat with the agent in a terminal or through pipes",
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
      "Check the installation for problems",
      async () => (await import("./doctor/doctor.ts")).doctorCommand,
    ),
    model: lazyCommand(
      "Show, list, select and test models",
      async () => (await import("./model/model.ts")).modelCommand,
    ),
    config: lazyCommand(
      "Read, change and validate the configuration",
      async () => (await import("./home/config.ts")).configCommand,
    ),
    sessions: lazyCommand(
      "List, show, export and delete saved sessions",
      async () => (await import("./sessions/sessions.ts")).sessionsCommand,
    ),
    cron: lazyCommand(
      "Create, list, change and run scheduled jobs",
      async () => (await import("./cron/cron.ts")).cronCommand,
    ),
    webhook: lazyCommand(
      "Manage webhook subscriptions, test routes and inspect deliveries",
      async () => (await import("./webhook/webhook.ts")).webhookCommand,
    ),
    outbox: lazyCommand(
      "List outbound messages, retry them, drop them",
      async () => (await import("./outbox/outbox.ts")).outboxCommand,
      { aliases: ["deliveries"] },
    ),
    platforms: lazyCommand(
      "List and test message platforms",
      async () => (await import("./platforms/platforms.ts")).platformsCommand,
    ),
    backup: lazyCommand(
      "Back up the home and its database while services run",
      async () => (await import("./home/backup.ts")).backupCommand,
    ),
    spec: lazyCommand(
      "Print a machine-readable description of an interface",
      async () => (await import("./home/spec.ts")).specCommand,
    ),
    version: lazyCommand("Print the version", async () => (await import("./kit/version.ts")).versionCommand),
  },
});
