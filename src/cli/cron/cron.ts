/** `agentd cron`: manages scheduled jobs in the database, whether the gateway runs or not. */
import { defineCommand } from "citty";
import { lazyCommand, lazyService } from "../kit/command.ts";

const create = async () => (await import("./define.ts")).createCommand;
const runs = async () => (await import("./list.ts")).runsCommand;
const remove = async () => (await import("./change.ts")).removeCommand;

export const cronCommand = defineCommand({
  meta: {
    name: "cron",
    description: "Create, list, change and run scheduled jobs",
  },
  subCommands: {
    create: lazyCommand("Create a job", create),
    add: lazyCommand("Alias of create", create),
    list: lazyCommand("List the jobs", async () => (await import("./list.ts")).listCommand),
    show: lazyCommand("Show a job in detail", async () => (await import("./list.ts")).showCommand),
    edit: lazyCommand("Change a job", async () => (await import("./define.ts")).editCommand),
    pause: lazyCommand("Pause a job", async () => (await import("./change.ts")).pauseCommand),
    resume: lazyCommand("Resume a job", async () => (await import("./change.ts")).resumeCommand),
    run: lazyCommand("Run a job now", async () => (await import("./run.ts")).runCommand),
    remove: lazyCommand("Remove a job with its history and outputs", remove),
    rm: lazyCommand("Alias of remove", remove),
    delete: lazyCommand("Alias of remove", remove),
    runs: lazyCommand("List runs and their results", runs),
    history: lazyCommand("Alias of runs", runs),
    status: lazyCommand(
      "Show the status of the scheduler and late jobs",
      async () => (await import("./status.ts")).statusCommand,
    ),
    tick: lazyService("Run all due jobs once", async () => (await import("./tick.ts")).tickCommand),
    import: lazyCommand("Import jobs from a file", async () => (await import("./import.ts")).importCommand),
  },
});
