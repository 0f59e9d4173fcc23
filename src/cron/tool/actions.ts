/** The actions of the agent's tool. Touches the machine. */
import { realpath } from "node:fs/promises";
import { isInside } from "../../base/text.ts";
import { ToolError, type ToolContext } from "../../agent/tool/tool.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { createJobContext, changeJob, defineJob, type JobContext } from "../job/input.ts";
import { jobEntry, occurrenceEntry } from "../job/format.ts";
import {
  refusal,
  type Job,
  type JobDefinition,
  jobToolsets,
  type JobInput,
  formatSchedule,
  zonedTime,
  toolsetNames,
} from "../job/job.ts";
import { EVENT_PLATFORMS } from "../job/fields.ts";
import { Jobs } from "../job/jobs.ts";
import { removeOutputs } from "../run/end.ts";
import { isTicking } from "../tick/status.ts";
import type { CronjobInput } from "./input.ts";
import type { JobService } from "../deps.ts";
import { isRunDelivery, readDelivery, type RunInput } from "../../agent/run/run.ts";
import { findAddressProblems } from "../../deliver/address.ts";
import { parseTarget } from "../../deliver/target.ts";
import type { Store } from "../../store/store.ts";
import { readPlan } from "../run/result.ts";

const MAX_LISTED = 100;
const MAX_BROKEN = 10;
const SHOWN_RUNS = 5;
const MAX_PROMPT_CHARACTERS = 4_000;
/** The toolset that runs programs. */
const TERMINAL = "terminal";

/** Returns JSON with `success` and the result: `job`, or `jobs` and `count`. Throws ToolError with `error`. */
export async function actOnJobs(
  service: JobService,
  input: CronjobInput,
  context: Pick<ToolContext, "runId" | "owner" | "cwd">,
): Promise<string> {
  try {
    return JSON.stringify({ success: true, ...(await new JobActions(service, context).act(input)) });
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ToolError(JSON.stringify({ success: false, error: redact(error.message) }));
  }
}

class JobActions {
  readonly #service: JobService;
  readonly #jobs: Jobs;
  readonly #context: Pick<ToolContext, "runId" | "owner" | "cwd">;

  constructor(service: JobService, context: Pick<ToolContext, "runId" | "owner" | "cwd">) {
    this.#service = service;
    this.#jobs = new Jobs(service.store, { ...service.settings, owner: context.owner });
    this.#context = context;
  }

  async act(input: CronjobInput): Promise<object> {
    const { action, job } = input;
    if (action === "list") return this.#list(input.all === true);
    if (action === "show") return this.#show(required(job, action));
    const caller = await this.#caller();
    if (action === "create") return this.#create(input, caller);
    const ref = required(job, action);
    if (action === "update") return this.#update(ref, input, caller);
    if (action === "remove") return this.#remove(ref);
    const changed = await this.#move(action, ref, input);
    return { job: entryOf(changed), ...(action === "pause" ? {} : await this.#notice()) };
  }

  async #list(withOver: boolean): Promise<object> {
    const { jobs, broken } = await this.#jobs.list({ withOver });
    const left = jobs.length - MAX_LISTED;
    return {
      count: jobs.length,
      jobs: jobs.slice(0, MAX_LISTED).map(lineOf),
      ...(left > 0 ? { not_listed: left } : {}),
      ...(broken.length > 0
        ? { broken: broken.slice(0, MAX_BROKEN).map(({ id, name }) => ({ id, name: redact(name) })) }
        : {}),
    };
  }

  async #show(ref: string): Promise<object> {
    const job = await this.#jobs.find(ref);
    const { occurrences } = await this.#jobs.history(job.id, { limit: SHOWN_RUNS });
    return { job: entryOf(job), runs: occurrences.map((each) => occurrenceEntry(each)) };
  }

  async #create(input: CronjobInput, caller: Caller): Promise<object> {
    await this.#requireWorkdir(input.workdir);
    const toolsets = this.#narrow(input.toolsets, caller);
    const jobInput = { ...inputOf(input), origin: caller.origin, toolsets };
    const definition = await defineJob(jobInput, this.#jobContext());
    requireOwnScript(definition, caller);
    const job = await this.#jobs.create(definition);
    return { job: entryOf(job), ...(await this.#notice()) };
  }

  async #update(ref: string, input: CronjobInput, caller: Caller): Promise<object> {
    await this.#requireWorkdir(input.workdir);
    const job = await this.#jobs.edit(ref, async (before) => {
      this.#requireOwnTools(before.definition, caller);
      requireOwnScript(before.definition, caller);
      const { toolsets, deliver } = input;
      const origin = deliver === undefined ? undefined : (before.definition.origin ?? caller.origin);
      const narrowed = toolsets === undefined ? {} : { toolsets: this.#narrow(toolsets, caller) };
      const change = { ...inputOf(input), origin, ...narrowed };
      const definition = await changeJob(before.definition, change, this.#jobContext());
      requireOwnScript(definition, caller);
      return definition;
    });
    return { job: entryOf(job), ...(await this.#notice()) };
  }

  async #remove(ref: string): Promise<object> {
    const { id, name } = await this.#jobs.remove(ref);
    await removeOutputs(this.#service.outputFolder, id);
    return { job: { id, name: redact(name), removed: true } };
  }

  #move(action: "pause" | "resume" | "run", ref: string, { reason }: CronjobInput): Promise<Job> {
    if (action === "pause") return this.#jobs.pause(ref, { reason });
    return action === "resume" ? this.#jobs.resume(ref) : this.#jobs.run(ref);
  }

  /** ServiceError `invalid_request` in a run of a job, unless the configuration allows it: jobs could create jobs forever. */
  async #caller(): Promise<Caller> {
    const caller = await readCaller(this.#service.store, this.#context.runId);
    if (!caller.isJob || this.#service.settings.allowAgentScheduling) return caller;
    throw new ServiceError("invalid_request", "A scheduled run cannot create or change jobs.");
  }

  /** A job gets no toolset that the run which creates it does not have. */
  #narrow(wanted: readonly string[] | undefined, { toolsets: own }: Caller): readonly string[] | undefined {
    if (wanted === undefined) return own && this.#toolsetsOf({}).filter((name) => own.includes(name));
    const foreign = own && wanted.find((name) => !own.includes(name));
    if (foreign === undefined) return wanted;
    const yours = own?.join(", ");
    throw refusal("toolsets", `You do not have the toolset ${JSON.stringify(foreign)}; yours: ${yours}.`);
  }

  #requireOwnTools(definition: JobDefinition, { toolsets: own }: Caller): void {
    const foreign = own && this.#toolsetsOf(definition).find((name) => !own.includes(name));
    if (foreign === undefined) return;
    const why = `The job has tools that you do not have (${foreign})`;
    throw refusal("job", `${why}. A person can change it with \`agentd cron edit\`.`);
  }

  #toolsetsOf(definition: Pick<JobDefinition, "toolsets">): readonly string[] {
    return jobToolsets(definition, this.#service.settings, toolsetNames(this.#service.toolsets));
  }

  /** An unattended run stays in the folders where the agent works anyway. */
  async #requireWorkdir(workdir: string | undefined): Promise<void> {
    if (workdir === undefined || workdir.trim() === "") return;
    const { workspace, workspaceRoots = [] } = this.#service;
    const roots = await Promise.all([workspace, ...workspaceRoots, this.#context.cwd].map(real));
    const path = await real(workdir.trim());
    if (roots.some((root) => isInside(path, root))) return;
    const where = roots.join(" or ");
    throw refusal(
      "workdir",
      `workdir must be a folder in ${where}. To allow others, add them to agent.workspace_roots.`,
    );
  }

  #jobContext(): JobContext {
    const { clock, settings, models, toolsets, scriptsFolder } = this.#service;
    return createJobContext({
      nowMs: clock.now(),
      zone: settings.zone,
      models,
      toolsets: toolsetNames(toolsets),
      findJob: (ref) => this.#jobs.find(ref),
      scriptsFolder,
    });
  }

  async #notice(): Promise<{ readonly notice?: string }> {
    const { store, clock } = this.#service;
    if (await isTicking(store, clock.now())) return {};
    return {
      notice: "No gateway is running: jobs run after `agentd gateway` is started. Tell the user.",
    };
  }
}

/** A script can do whatever the terminal can. */
function requireOwnScript({ script }: JobDefinition, { toolsets: own }: Caller): void {
  if (script === undefined || own === undefined || own.includes(TERMINAL)) return;
  const why = `The job has a script, and you do not have the toolset ${TERMINAL}`;
  throw refusal("script", `${why}. A person can do this with \`agentd cron\`.`);
}

function required(job: string | undefined, action: string): string {
  if (job !== undefined && job.trim() !== "") return job;
  throw refusal("job", `${action} needs job, an id or a name. List the jobs to see them.`);
}

/** Fields that the tool does not have, such as the model, stay unchanged. */
function inputOf(input: CronjobInput): JobInput {
  const { schedule, prompt, name, deliver, repeat, skills, script, workdir } = input;
  return {
    schedule,
    prompt,
    name,
    deliver,
    repeat,
    skills,
    script,
    workdir,
    isScriptOnly: input.no_agent,
    contextFrom: input.context_from,
    zone: input.time_zone,
  };
}

function lineOf(job: Job): object {
  const { id, definition, state } = job;
  return {
    id,
    name: redact(definition.name),
    state,
    schedule: formatSchedule(definition.schedule),
    next_run: nextOf(job),
    deliver: redact(definition.deliver),
    last_status: job.lastStatus ?? null,
  };
}

function entryOf(job: Job): object {
  const prompt = redact(job.definition.prompt);
  const left = prompt.length - MAX_PROMPT_CHARACTERS;
  const cut = left > 0 ? `${prompt.slice(0, MAX_PROMPT_CHARACTERS)}... (${left} more characters)` : prompt;
  const definition = { ...job.definition, prompt: cut };
  return { ...jobEntry({ ...job, definition }), next_run: nextOf(job) };
}

/** In the job's own time zone, for people. */
function nextOf({ state, nextRunAtMs, definition }: Job): string | null {
  const isComing = state === "scheduled" && nextRunAtMs !== undefined;
  return isComing ? zonedTime(nextRunAtMs, definition.zone) : null;
}

/** Returns a path that does not exist unchanged: the check of the folder refuses it. */
async function real(path: string): Promise<string> {
  return realpath(path).catch(() => path);
}

/** The run that calls the tool, and what it may pass on to a job. */
interface Caller {
  /** The toolsets of the run; undefined: all. */
  readonly toolsets: readonly string[] | undefined;
  /** Where the run delivers its own answer, when jobs can deliver there too. */
  readonly origin: string | undefined;
  /** Whether it is a run of a job. */
  readonly isJob: boolean;
}

/** For a sub-agent the run at the top of its family has the targets. */
async function readCaller(store: Store, runId: string): Promise<Caller> {
  const run = await store.find("runs", { id: runId });
  if (!run) return { toolsets: [], origin: undefined, isJob: false };
  const { toolsets, family } = JSON.parse(run.input) as RunInput;
  const root = family ? await store.find("runs", { id: family.root.runId }) : run;
  const delivery = root?.reply_to ?? null;
  const plan = readPlan(delivery);
  const isWebhooks = delivery !== null && isRunDelivery(delivery);
  const targets = plan?.targets ?? (isWebhooks ? readDelivery(delivery).targets : []);
  return { toolsets, origin: targets.find(isReplyTarget), isJob: plan !== undefined };
}

/** Events are over after their answer, and people do not ask from files and logs. */
function isReplyTarget(target: string): boolean {
  const { platform, address } = parseTarget(target);
  return address !== "" && !EVENT_PLATFORMS.includes(platform) && findAddressProblems(target).length === 0;
}
