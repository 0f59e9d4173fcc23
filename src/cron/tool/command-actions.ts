/** The actions of the command `/cron`. */
import { ServiceError } from "../../base/errors.ts";
import { usage } from "../../agent/agent.ts";
import { createJobContext, defineJob } from "../job/input.ts";
import { type Job, toolsetNames } from "../job/job.ts";
import { jobLine, jobLines, nameOf, runLine } from "../job/format.ts";
import { Jobs } from "../job/jobs.ts";
import { removeOutputs } from "../run/end.ts";
import { isTicking } from "../tick/status.ts";
import type { JobService } from "../deps.ts";

const MAX_LISTED = 50;
const MAX_RUNS = 20;

/** Resolves to the text for people. ServiceError `command_usage`, and those of {@link Jobs}. */
export async function runCronCommand(
  service: JobService,
  { args, hint, owner }: { readonly args: string; readonly hint: string; readonly owner: string },
): Promise<string> {
  const [, word = "list", rest = ""] = /^(\S*)\s*([\s\S]*)$/.exec(args === "" ? "list" : args) ?? [];
  const act = ACTIONS.get(word.toLowerCase());
  if (!act) throw usage({ name: "cron", hint });
  return act({ service, jobs: new Jobs(service.store, { ...service.settings, owner }), rest: rest.trim() });
}

interface Call {
  readonly service: JobService;
  readonly jobs: Jobs;
  /** The text after the first word. */
  readonly rest: string;
}

const ACTIONS: ReadonlyMap<string, (call: Call) => Promise<string>> = new Map([
  ["list", list],
  ["show", async ({ jobs, rest }) => jobLines(await jobs.find(jobOf(rest, "show"))).join("\n")],
  ["add", add],
  ["create", add],
  ["pause", async ({ jobs, rest }) => `Paused job: ${nameOf(await jobs.pause(jobOf(rest, "pause")))}`],
  ["resume", (call) => moved(call, "Resumed", (ref) => call.jobs.resume(ref))],
  ["run", (call) => moved(call, "Triggered", (ref) => call.jobs.run(ref))],
  ["remove", remove],
  ["runs", runs],
]);

async function list({ service, jobs }: Call): Promise<string> {
  const { jobs: all, broken } = await jobs.list();
  const left = all.length - MAX_LISTED;
  const lines = [
    ...all.slice(0, MAX_LISTED).map(jobLine),
    ...(left > 0 ? [`... and ${left} more; \`agentd cron list\` shows all.`] : []),
    ...(broken.length > 0 ? [`${broken.length} cannot be read; \`agentd cron list\` shows them.`] : []),
  ];
  if (lines.length === 0)
    return "No scheduled jobs. Create one: /cron add every 1h -- Summarize what is new.";
  return [...lines, ...(await noGatewayNotice(service))].join("\n");
}

async function add({ service, jobs, rest }: Call): Promise<string> {
  const [, schedule = "", prompt = ""] = /^([\s\S]*?)\s+--\s+([\s\S]+)$/.exec(rest) ?? [];
  if (prompt.trim() === "") {
    const how = "Give a schedule and a task: /cron add weekdays at 9am -- Summarize what is new.";
    throw new ServiceError("command_usage", `${how} \`agentd cron create\` has more options.`);
  }
  const { clock, settings, models, toolsets, scriptsFolder } = service;
  const jobContext = createJobContext({
    nowMs: clock.now(),
    zone: settings.zone,
    models,
    toolsets: toolsetNames(toolsets),
    findJob: (ref) => jobs.find(ref),
    scriptsFolder,
  });
  const job = await jobs.create(await defineJob({ schedule, prompt }, jobContext));
  return [`Created job: ${job.id}`, ...jobLines(job).slice(1), ...(await noGatewayNotice(service))].join(
    "\n",
  );
}

async function remove({ service, jobs, rest }: Call): Promise<string> {
  const { id, name } = await jobs.remove(jobOf(rest, "remove"));
  await removeOutputs(service.outputFolder, id);
  return `Removed job: ${nameOf({ id, definition: { name } })}`;
}

async function runs({ service, jobs, rest }: Call): Promise<string> {
  const job = rest === "" ? undefined : await jobs.find(rest);
  const { occurrences } = await jobs.history(job?.id, { limit: MAX_RUNS });
  if (occurrences.length === 0) return "Nothing has run yet.";
  const zone = job?.definition.zone ?? service.settings.zone;
  return occurrences.map((each) => runLine(each, { zone, isOneJob: job !== undefined })).join("\n");
}

async function moved(
  { service, rest }: Call,
  word: "Resumed" | "Triggered",
  move: (ref: string) => Promise<Job>,
): Promise<string> {
  const job = await move(jobOf(rest, word === "Resumed" ? "resume" : "run"));
  const next = word === "Resumed" ? [jobLine(job)] : [];
  return [`${word} job: ${nameOf(job)}`, ...next, ...(await noGatewayNotice(service))].join("\n");
}

function jobOf(rest: string, action: string): string {
  if (rest !== "") return rest;
  throw new ServiceError("command_usage", `Name a job: /cron ${action} <id or name>. /cron lists them.`);
}

/** Without a scheduler, jobs would wait silently. */
async function noGatewayNotice({ store, clock }: JobService): Promise<readonly string[]> {
  if (await isTicking(store, clock.now())) return [];
  return ["No gateway is running: jobs run after `agentd gateway` is started."];
}
