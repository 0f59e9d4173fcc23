/** `agentd cron`: jobs of the clock, straight from the database, whether the gateway runs or not. */
import { defineCommand } from "citty";
import { lazyCommand } from "../kit/command.ts";

const create = async () => (await import("./define.ts")).createCommand;
const runs = async () => (await import("./list.ts")).runsCommand;
const remove = async () => (await import("./change.ts")).removeCommand;

export const cronCommand = defineCommand({
  meta: {
    name: "cron",
    description: "Jobs of the clock: what the agent does by itself, when, and what came of it",
  },
  subCommands: {
    create: lazyCommand("Make a job: a schedule, and what is to be done", create),
    add: lazyCommand("The same as create", create),
    list: lazyCommand("List the jobs", async () => (await import("./list.ts")).listCommand),
    show: lazyCommand(
      "Show a job: all there is to know",
      async () => (await import("./list.ts")).showCommand,
    ),
    edit: lazyCommand("Change a job", async () => (await import("./define.ts")).editCommand),
    pause: lazyCommand("Let a job rest", async () => (await import("./change.ts")).pauseCommand),
    resume: lazyCommand("Let it go on", async () => (await import("./change.ts")).resumeCommand),
    run: lazyCommand("Run a job now", async () => (await import("./run.ts")).runCommand),
    remove: lazyCommand("Remove a job and its outputs", remove),
    rm: lazyCommand("The same as remove", remove),
    delete: lazyCommand("The same as remove", remove),
    runs: lazyCommand("List what ran, and what came of it", runs),
    history: lazyCommand("The same as runs", runs),
    status: lazyCommand(
      "Does the scheduler tick, and what is late?",
      async () => (await import("./status.ts")).statusCommand,
    ),
    tick: lazyCommand("Run what is due, once", async () => (await import("./tick.ts")).tickCommand),
    import: lazyCommand("Take in a file of jobs", async () => (await import("./import.ts")).importCommand),
  },
});
