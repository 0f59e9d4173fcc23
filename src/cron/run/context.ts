/** What other jobs found out, for a job that builds on them. */
import type { Log } from "../../base/observe/log.ts";
import { redact } from "../../base/observe/redact.ts";
import type { Store } from "../../store/store.ts";
import { responseOf } from "../output/output.ts";
import { listOutputs, readOutput } from "../output/outputs.ts";
import type { CronSettings } from "../settings.ts";
import { isSilent } from "./silence.ts";

/** The newest output of a job. */
export interface JobContext {
  readonly name: string;
  /** When it was, as the name of its file says it; undefined: there is none. */
  readonly at?: string;
  /** Undefined: it failed, had nothing to say, or cannot be read. */
  readonly answer?: string;
}

export interface ContextDeps {
  readonly store: Store;
  readonly log: Log;
  readonly outputFolder: string;
  readonly settings: Pick<CronSettings, "silentMatch">;
}

/** In the order of the ids. Never rejects for what is wrong with a file. */
export async function readContexts(
  deps: ContextDeps,
  jobIds: readonly string[],
): Promise<readonly JobContext[]> {
  return Promise.all(jobIds.map((jobId) => readContext(deps, jobId)));
}

async function readContext(deps: ContextDeps, jobId: string): Promise<JobContext> {
  const job = await deps.store.find("cron_jobs", { id: jobId });
  const name = redact(job?.name ?? jobId);
  try {
    const [file] = await listOutputs(deps.outputFolder, jobId);
    if (file === undefined) return { name };
    const at = file.replace(/\.md$/, "");
    const document = await readOutput(deps.outputFolder, { jobId, file });
    const answer = document === undefined ? undefined : responseOf(document);
    const isTold = answer !== undefined && answer !== "" && !isSilent(answer, deps.settings.silentMatch);
    return isTold ? { name, at, answer: redact(answer) } : { name, at };
  } catch (error) {
    deps.log.warn("the output of a job that another builds on cannot be read", { job: jobId, error });
    return { name };
  }
}
