/** All commands of `agentd`. */
import { defineCommand, type CommandDef } from "citty";
import { lazyCommand, lazyService } from "./kit/command.ts";

// Commands load on demand: `agentd version` must not wait for the service.
export const rootCommand: CommandDef = defineCommand({
  meta: {
    name: "agentd",
    description: "One AI agent for any program, over HTTP, JSON-RPC, ACP, webhooks and cron.",
  },
  subCommands: {
    gateway: lazyService(
      "Run the service; `agentd gateway setup` sets up webhooks and message platforms",
      async () => (await import("./gateway/gateway.ts")).gatewayCommand,
    ),
    chat: lazyCommand(
      "Chat with the agent in a terminal or through pipes",
      async () => (await import("./chat/chat.ts")).chatCommand,
    ),
    rpc: lazyService(
      "Serve the TUI gateway on standard input and output",
      async () => (await import("./gateway/rpc.ts")).rpcCommand,
    ),
    acp: lazyService(
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
    skills: lazyCommand(
      "List and show the skills of the agent",
      async () => (await import("./model/tooling.ts")).skillsCommand,
    ),
    tools: lazyCommand(
      "List the tools of the agent",
      async () => (await import("./model/tooling.ts")).toolsCommand,
    ),
    mcp: lazyCommand(
      "List and reload the MCP servers of the running gateway",
      async () => (await import("./model/tooling.ts")).mcpCommand,
    ),
    config: lazyCommand(
      "Read, change and validate the configuration",
      async () => (await import("./home/config.ts")).configCommand,
    ),
    status: lazyCommand(
      "Show what runs here: the gateway, its model, open runs, jobs and messages",
      async () => (await import("./status/status.ts")).statusCommand,
    ),
    usage: lazyCommand(
      "Show the tokens and the cost of the runs",
      async () => (await import("./status/usage.ts")).usageCommand,
    ),
    logs: lazyCommand(
      "Show and follow the log of the gateway",
      async () => (await import("./service/logs.ts")).logsCommand,
    ),
    runs: lazyCommand(
      "List, show, follow, approve, deny and stop runs",
      async () => (await import("./runs/runs.ts")).runsCommand,
    ),
    questions: lazyCommand(
      "List, show and answer the questions of runs",
      async () => (await import("./runs/questions.ts")).questionsCommand,
    ),
    grants: lazyCommand(
      "List and revoke approvals that hold for all sessions",
      async () => (await import("./runs/questions.ts")).grantsCommand,
    ),
    events: lazyCommand(
      "List or follow the changes of all resources",
      async () => (await import("./runs/events.ts")).eventsCommand,
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
    service: lazyCommand(
      "Run the gateway as a service of your user",
      async () => (await import("./service/service.ts")).serviceCommand,
    ),
    context: lazyCommand(
      "Save servers, and choose the one that commands work on",
      async () => (await import("./home/contexts.ts")).contextCommand,
    ),
    keys: lazyCommand(
      "List, create, rotate and revoke API keys",
      async () => (await import("./home/keys.ts")).keysCommand,
    ),
    open: lazyCommand(
      "Open the console of the running gateway in the browser",
      async () => (await import("./home/open.ts")).openCommand,
      { aliases: ["console"] },
    ),
    backup: lazyCommand(
      "Back up the home and its database into one file while services run",
      async () => (await import("./home/backup.ts")).backupCommand,
    ),
    restore: lazyCommand(
      "Restore the home and its database from a backup",
      async () => (await import("./home/restore.ts")).restoreCommand,
    ),
    mock: lazyCommand(
      "Serve a scripted agent for tests of hosts and clients",
      async () => (await import("./testing/mock.ts")).mockCommand,
    ),
    conformance: lazyCommand(
      "Check any server against the contracts",
      async () => (await import("./testing/conformance.ts")).conformanceCommand,
    ),
    spec: lazyCommand(
      "Print a machine-readable description of an interface",
      async () => (await import("./home/spec.ts")).specCommand,
    ),
    completion: lazyCommand("Print a completion script for bash, zsh or fish", async () =>
      (await import("./help/completion.ts")).completionCommand(rootCommand),
    ),
    help: lazyCommand("Show the usage of a command", async () =>
      (await import("./help/help.ts")).helpCommand(rootCommand),
    ),
    version: lazyCommand("Print the version", async () => (await import("./kit/version.ts")).versionCommand),
  },
});
