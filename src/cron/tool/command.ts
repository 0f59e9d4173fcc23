import type { Command } from "../../agent/commands/command.ts";
import type { JobService } from "./job-service.ts";

const HINT = "[list | show <job> | add <schedule> -- <prompt> | pause|resume|run|remove <job> | runs [job]]";

/** `/cron`, for people at a prompt. What it does is loaded when it is called. */
export function cronCommand(service: JobService): Command {
  return {
    name: "cron",
    description: "List, make and change scheduled jobs",
    category: "Tools",
    hint: HINT,
    subcommands: ["list", "show", "add", "pause", "resume", "run", "remove", "runs"],
    run: async ({ args }) => {
      const { runCronCommand } = await import("./command-actions.ts");
      return { type: "exec", output: await runCronCommand(service, { args, hint: HINT }) };
    },
  };
}
