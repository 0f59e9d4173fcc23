import type { Prompt } from "../../agent/run/prompt.ts";
import { ServiceError, toServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import type { Tx } from "../../store/store.ts";
import type { OccurrenceRow, RunRow } from "../../store/schema/tables.ts";
import { assemblePrompt } from "./assemble-prompt.ts";
import type { Claimed } from "../tick/claim.ts";
import { endOccurrence } from "./end-occurrence.ts";
import type { Ending } from "./ending.ts";
import { jobRun } from "./job-run.ts";
import { planOccurrence, type DeliveryPlan } from "./plan.ts";
import { blockedEnding, findBlock } from "./preflight.ts";
import type { CronDeps } from "../deps.ts";
import { endingOfScript, runJobScript, type ScriptOutcome } from "./script.ts";

/**
 * Runs a claimed occurrence: its script, if it has one, and its agent, unless the script says it all. Resolves when it has
 * ended here, or is another process's; never rejects. Until its script or its run has begun a crash leaves it claimed, for
 * whoever takes it over; so does an end that cannot be written.
 */
export async function fire(deps: CronDeps, claimed: Claimed): Promise<void> {
  const firing = new Firing(deps, claimed);
  try {
    await firing.run();
  } catch (error) {
    await firing.fail(error).catch((cause: unknown) =>
      deps.log.error("what became of a job's run could not be recorded", {
        job: claimed.job.id,
        occurrence: claimed.occurrence.id,
        error: cause,
      }),
    );
  }
}

/** Thrown inside the transaction that would begin something: the claim is another process's by now. */
class LostClaim extends Error {
  override readonly name = "LostClaim";
}

const CUT_OFF = "The server was shut down behind the script, before the agent was asked.";

class Firing {
  readonly #deps: CronDeps;
  readonly #claimed: Claimed;
  /** The script was started: nothing of the occurrence is done a second time. */
  #hasBegun = false;
  /** What it came to, be it that this could not be written down yet. */
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
    await this.#ask(text);
  }

  async fail(error: unknown): Promise<void> {
    if (error instanceof LostClaim) return;
    const { code, message } = toServiceError(error);
    const isAway = code === "state_store_unavailable";
    if ((isAway || code === "server_draining") && !this.#hasBegun) return this.#release();
    if (isAway && this.#ending) return this.#end(this.#ending);
    this.#deps.log.warn("a job could not be run", { job: this.#claimed.job.id, error });
    const text = code === "server_draining" ? CUT_OFF : message;
    await this.#end({ status: "failed", text: redact(text) });
  }

  /** The occurrence while it is this process's, and nothing of it has a run. */
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
      const begun = { status: "running", started_at: tx.nowMs };
      if ((await tx.update("occurrences", { ...this.#mine, status: "claimed" }, begun)) === 0)
        throw new LostClaim();
    });
    this.#hasBegun = true;
    const outcome = await runJobScript(this.#deps, script, workdir);
    if (outcome.status === "failed") {
      const { id: job } = this.#claimed.job;
      this.#deps.log.warn("the script of a job failed", { job, script, reason: outcome.reason });
    }
    return outcome;
  }

  /** Resolves when the run that comes of it has ended. */
  async #ask(text: string): Promise<void> {
    const { ends } = this.#deps;
    const { id } = this.#claimed.occurrence;
    const prompt = jobRun(this.#deps, this.#claimed, { plan: this.#plan, text });
    const ended = ends.wait(id);
    try {
      await this.#submit({ ...prompt, alsoRecord: (tx, run) => this.#record(tx, run) });
      await ended;
    } finally {
      ends.told(id);
    }
  }

  /** A job waits where somebody at the wire would be told to come back. */
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
    const starts = run.status === "running" && !this.#hasBegun;
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

  /** Gives the claim to whoever looks for claims next. */
  async #release(): Promise<void> {
    const free = { lease_owner: null, lease_until: null };
    await this.#deps.store.write((tx) =>
      tx.update("occurrences", { ...this.#mine, status: "claimed" }, free),
    );
  }
}
