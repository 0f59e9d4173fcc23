/** Where the agent, and people at a prompt, make and change jobs. */
import type { CronDeps } from "../deps.ts";
import { defineTool, type Tool, type ToolIntent } from "../../agent/tool/tool.ts";
import type { Command } from "../../agent/commands/command.ts";

/** What the agent and people at a prompt need to make and change jobs, in any process. */
export type JobService = Pick<
  CronDeps,
  "store" | "clock" | "settings" | "models" | "toolsets" | "workspace" | "scriptsFolder" | "outputFolder"
> & {
  /** Further folders, absolute, that the agent may let a job work in. */
  readonly workspaceRoots?: readonly string[];
};

export const JOB_ACTIONS = ["create", "list", "show", "update", "pause", "resume", "remove", "run"] as const;

/** What the model says. Models and providers are not for it to choose: they cost, and nobody looks on. */
export interface CronjobInput {
  readonly action: (typeof JOB_ACTIONS)[number];
  readonly job?: string;
  readonly schedule?: string;
  readonly prompt?: string;
  readonly name?: string;
  readonly deliver?: string;
  readonly repeat?: number;
  readonly skills?: readonly string[];
  readonly script?: string;
  readonly no_agent?: boolean;
  readonly context_from?: readonly string[];
  readonly toolsets?: readonly string[];
  readonly workdir?: string;
  readonly time_zone?: string;
  readonly reason?: string;
  readonly all?: boolean;
}

/** The tool with which the agent makes, looks at and changes jobs. What it does is loaded when it is called. */
export function createCronjob(service: JobService): Tool {
  return defineTool<CronjobInput>({
    name: "cronjob",
    toolset: "cron",
    description:
      "Schedules jobs that run later without anybody there: each starts a new session that knows nothing of this one, so " +
      "its prompt must say everything. The answer of a run is delivered to `deliver`. Make or change jobs only when the " +
      "user asks for it, never because a text sounds as if it recurred. list and show look; update changes the fields " +
      'that are given, and "" or [] empties one.',
    parameters: PARAMETERS,
    inspect: (input) => intentOf(input),
    run: async (input, context) => (await import("./actions.ts")).actOnJobs(service, input, context),
  });
}

const text = (maxLength: number, description: string) => ({ type: "string", maxLength, description });
const list = (maxItems: number, description: string) => ({
  type: "array",
  maxItems,
  items: { type: "string", minLength: 1, maxLength: 100 },
  description,
});

const PARAMETERS = {
  type: "object",
  additionalProperties: false,
  required: ["action"],
  properties: {
    action: { type: "string", enum: JOB_ACTIONS },
    job: text(200, "Id or name of the job, for all but create and list."),
    schedule: text(
      200,
      "`every 2h`, `in 45m`, `weekdays at 9am`, five cron fields such as `0 9 * * 1-5`, or a date and time such as " +
        "`2026-12-24T18:00`. The shortest interval is a minute.",
    ),
    prompt: text(100_000, "What the agent is to do at each run, complete in itself."),
    name: text(100, "Default: the start of the prompt."),
    deliver: text(
      4_000,
      "`local` (kept as a file), `origin`, `all`, a platform, or platform:chat[:thread]; several with commas. Default: " +
        "where this conversation answers, else local.",
    ),
    repeat: {
      type: "integer",
      minimum: 0,
      maximum: 1_000_000,
      description: "How often it runs; 0: without end.",
    },
    skills: list(16, "Skills to load, in order."),
    script: text(1_000, "A file in <home>/scripts that runs first; what it prints is shown to the agent."),
    no_agent: { type: "boolean", description: "True: what the script prints is the message, no agent runs." },
    context_from: list(8, "Jobs whose newest outputs the agent is shown."),
    toolsets: list(32, "Fewer sets of tools than you have."),
    workdir: text(1_000, "Absolute folder inside the workspace."),
    time_zone: text(64, "IANA zone of the schedule, such as Europe/Berlin. Default: the configured one."),
    reason: text(500, "Of pause: why."),
    all: { type: "boolean", description: "Of list: also those that will not run again." },
  },
} as const;

/**
 * Looking is free. Whatever changes a job is for people to allow, who see what it would be. Leave that they keep covers
 * the very same wish and no other: a reminder that was allowed is no leave for whatever else could be scheduled.
 */
function intentOf(input: CronjobInput): ToolIntent {
  const { action, job = "?" } = input;
  if (action === "list") return { kind: "tool", effect: "none", title: "List scheduled jobs" };
  if (action === "show") return { kind: "tool", effect: "none", title: `Scheduled job: ${short(job)}` };
  return {
    kind: "tool",
    effect: "unknown",
    identity: `cronjob ${JSON.stringify(input)}`,
    title: titleOf(input),
  };
}

function titleOf(input: CronjobInput): string {
  const { action, job = "?", schedule = "?" } = input;
  if (action === "create")
    return `Schedule: ${[short(schedule), ...detailsOf(input)].join("; ")}: ${whatOf(input)}`;
  if (action === "update") return `Change job ${short(job)}: ${changesOf(input).join("; ")}`;
  return `${WORDS[action]} job ${short(job)}`;
}

const WORDS: Readonly<Record<string, string>> = {
  pause: "Pause",
  resume: "Resume",
  remove: "Remove",
  run: "Run now",
};

function whatOf({ prompt = "", skills = [], script = "" }: CronjobInput): string {
  return short(prompt, MAX_PROMPT_CHARACTERS) || short(skills.join(", ")) || short(script);
}

/** What else is worth a thought: where it answers, what runs besides the agent. */
function detailsOf({
  deliver,
  script,
  no_agent,
  workdir,
  toolsets,
  repeat,
  skills = [],
  context_from: contexts = [],
}: CronjobInput): readonly string[] {
  return [
    deliver === undefined ? "" : `to ${short(deliver, MAX_TARGETS_CHARACTERS)}`,
    script === undefined ? "" : `script ${short(script)}${no_agent === true ? " (alone)" : ""}`,
    workdir === undefined ? "" : `in ${short(workdir)}`,
    toolsets === undefined ? "" : `with ${short(toolsets.join(", "))}`,
    repeat === undefined || repeat === 0 ? "" : `${repeat} times`,
    skills.length === 0 ? "" : `skills ${short(skills.join(", "))}`,
    contexts.length === 0 ? "" : `shown the answers of ${short(contexts.join(", "))}`,
  ].filter((detail) => detail !== "");
}

/** What is said at length comes last: it must not push out of sight what else would change. */
function changesOf(input: CronjobInput): readonly string[] {
  const { schedule, prompt, name, skills } = input;
  const said = [
    schedule === undefined ? "" : short(schedule),
    name === undefined ? "" : `name ${short(name)}`,
    skills?.length === 0 ? "no skills" : "",
    ...detailsOf(input),
    prompt === undefined ? "" : short(prompt, MAX_PROMPT_CHARACTERS),
  ];
  return said.filter((change) => change !== "");
}

const MAX_SHOWN_CHARACTERS = 80;
const MAX_TARGETS_CHARACTERS = 400;
const MAX_PROMPT_CHARACTERS = 1_000;

/** One line of it, in which nothing is invisible, and which tells how much it leaves out. */
function short(value: string, max = MAX_SHOWN_CHARACTERS): string {
  const line = value
    .replace(/\p{Cf}/gu, "")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  const characters = Array.from(line);
  if (characters.length <= max) return line;
  return `${characters.slice(0, max).join("")}... (${characters.length - max} more characters)`;
}

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
