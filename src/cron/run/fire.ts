import type { Prompt } from "../../agent/run/prompt.ts";
import type { RunInput } from "../../agent/run/run.ts";
import { ServiceError, toServiceError } from "../../base/errors.ts";
import { createSessionId } from "../../base/ids.ts";
import { redact } from "../../base/observe/redact.ts";
import type { Tx } from "../../store/store.ts";
import type { OccurrenceRow, RunRow } from "../../store/schema/tables.ts";
import type { CronDeps } from "../deps.ts";
import { jobToolsets, type JobDefinition } from "../job/job.ts";
import type { Claimed } from "../tick/claim.ts";
import { endOccurrence } from "./end-occurrence.ts";
import type { Ending } from "./ending.ts";
import { planOccurrence, type DeliveryPlan } from "./plan.ts";
import { blockedEnding, findBlock } from "./preflight.ts";
import { assemblePrompt } from "./prompt.ts";
import { endingOfScript, runJobScript, type ScriptOutcome } from "./script.ts";

/**
 * Runs a claimed occurrence: its script, if it has one, and its agent, unless the script is enough. Resolves when the
 * occurrence has ended, or another process has taken it over; never rejects. Until its script or its run has started, a
 * crash leaves it claimed for another process, and so does an end that cannot be written.
 */
export async function fire(deps: CronDeps, claimed: Claimed): Promise<void> {
  const firing = new Firing(deps, claimed);
  try {
    await firing.run();
  } catch (error) {
    await firing.fail(error).catch((cause: unknown) =>
      deps.log.error("cannot record the end of a job's run", {
        job: claimed.job.id,
        occurrence: claimed.occurrence.id,
        error: cause,
      }),
    );
  }
}

/** Thrown inside the transaction that would start something: another process has the claim now. */
class LostClaim extends Error {
  override readonly name = "LostClaim";
}

const CUT_OFF = "The server was shut down after the script, before the agent started.";

class Firing {
  readonly #deps: CronDeps;
  readonly #claimed: Claimed;
  /** The script has started: nothing of the occurrence may run a second time. */
  #hasStarted = false;
  /** The result, even when it could not be written yet. */
  #ending: Ending | undefined;

  constructor(deps: CronDeps, claimed: Claimed) {
    this.#deps = deps;
    this.#claimed = claimed;
  }

  async run(): Promise<void> {
    const { definition } = this.#claimed.job;
    const block = await findBlock(this.#deps, definition);
    if (block !== undefined) return this.#end(blockedEnding(this.#claimed, block));
    const script = await this.#runScript();
    const ending = script && endingOfScript(definition.isScriptOnly, script);
    if (ending) return this.#end(ending);
    const { text, problem } = await assemblePrompt(this.#deps, this.#claimed, script);
    if (problem !== undefined) return this.#end(blockedEnding(this.#claimed, problem));
    await this.#runAgent(text);
  }

  async fail(error: unknown): Promise<void> {
    if (error instanceof LostClaim) return;
    const { code, message } = toServiceError(error);
    const isStoreDown = code === "state_store_unavailable";
    if ((isStoreDown || code === "server_draining") && !this.#hasStarted) return this.#release();
    if (isStoreDown && this.#ending) return this.#end(this.#ending);
    this.#deps.log.warn("cannot run a job", { job: this.#claimed.job.id, error });
    const text = code === "server_draining" ? CUT_OFF : message;
    await this.#end({ status: "failed", text: redact(text) });
  }

  /** Matches the occurrence while this process holds it and it has no run. */
  get #mine(): Partial<OccurrenceRow> {
    const { id } = this.#claimed.occurrence;
    return { id, lease_owner: this.#deps.store.owner, run_id: null, ended_at: null };
  }

  get #plan(): DeliveryPlan {
    return planOccurrence(this.#claimed, this.#deps);
  }

  async #runScript(): Promise<ScriptOutcome | undefined> {
    const { script, workdir } = this.#claimed.job.definition;
    if (script === undefined) return undefined;
    if (this.#deps.runs.draining) throw new ServiceError("server_draining", "The server is shutting down.");
    await this.#deps.store.write(async (tx) => {
      const started = { status: "running", started_at: tx.nowMs };
      if ((await tx.update("occurrences", { ...this.#mine, status: "claimed" }, started)) === 0)
        throw new LostClaim();
    });
    this.#hasStarted = true;
    const outcome = await runJobScript(this.#deps, script, workdir);
    if (outcome.status === "failed") {
      const { id: job } = this.#claimed.job;
      this.#deps.log.warn("the script of a job failed", { job, script, reason: outcome.reason });
    }
    return outcome;
  }

  /** Resolves when the run has ended. */
  async #runAgent(text: string): Promise<void> {
    const { ends } = this.#deps;
    const { id } = this.#claimed.occurrence;
    const prompt = jobRun(this.#deps, this.#claimed, { plan: this.#plan, text });
    const ended = ends.wait(id);
    try {
      await this.#submit({ ...prompt, alsoRecord: (tx, run) => this.#record(tx, run) });
      await ended;
    } finally {
      ends.resolve(id);
    }
  }

  /** Waits while too many runs are active: a job has no client that could retry. */
  async #submit(prompt: Prompt): Promise<void> {
    const { runs, clock } = this.#deps;
    for (;;) {
      try {
        return void (await runs.submit(prompt));
      } catch (error) {
        if (!(error instanceof ServiceError) || error.code !== "too_many_concurrent_runs") throw error;
        await clock.sleep((error.retryAfterSeconds ?? 1) * 1000);
      }
    }
  }

  async #record(tx: Tx, run: Pick<RunRow, "id" | "session_id" | "status">): Promise<void> {
    const starts = run.status === "running" && !this.#hasStarted;
    const started = starts ? { status: "running", started_at: tx.nowMs } : {};
    const columns = { run_id: run.id, session_id: run.session_id, ...started };
    if ((await tx.update("occurrences", this.#mine, columns)) === 0) throw new LostClaim();
  }

  async #end(ending: Ending): Promise<void> {
    const { store } = this.#deps;
    this.#ending = ending;
    const end = { plan: this.#plan, ending, isMine: true };
    await store.write((tx) => endOccurrence(tx, store, end));
  }

  /** Releases the claim for the next process that looks for claims. */
  async #release(): Promise<void> {
    const free = { lease_owner: null, lease_until: null };
    await this.#deps.store.write((tx) =>
      tx.update("occurrences", { ...this.#mine, status: "claimed" }, free),
    );
  }
}

/** Returns the prompt of an occurrence's run. Each run has a session of its own; `plan` says where its result goes. */
function jobRun(
  deps: CronDeps,
  { occurrence, job }: Claimed,
  { plan, text }: { readonly plan: DeliveryPlan; readonly text: string },
): Prompt {
  const { name, workdir, model } = job.definition;
  const ref = model === undefined ? undefined : deps.models.resolve(model);
  const stamp = (occurrence.output_file ?? "").replace(/\.md$/, "").replaceAll("-", "");
  return {
    address: {
      owner: deps.owner,
      id: createSessionId(deps.clock.now()),
      key: `cron_${job.id}_${stamp}`,
    },
    seed: {
      source: "cron",
      title: name,
      transient: true,
      ...(workdir === undefined ? {} : { cwd: workdir }),
    },
    kind: "run",
    input: inputOf(deps, job.definition, text),
    ...(ref ? { model: ref } : {}),
    delivery: JSON.stringify(plan),
  };
}

function inputOf({ settings, toolsets }: CronDeps, job: JobDefinition, text: string): RunInput {
  const { reasoningEffort, inactivitySeconds, tokenBudget = settings.runTokenBudget } = job;
  return {
    prompt: [{ role: "user", text }],
    settings: reasoningEffort === undefined ? {} : { reasoningEffort },
    toolsets: jobToolsets(job, settings, toolsets()),
    answerable: false,
    isDetached: true,
    inactivityMs: inactivitySeconds === undefined ? settings.inactivityMs : inactivitySeconds * 1000,
    ...(tokenBudget === undefined ? {} : { tokenBudget }),
    slot: { group: "cron" },
  };
}
