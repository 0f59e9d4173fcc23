import type { Prompt } from "../agent/prompt.ts";
import { ServiceError } from "../base/errors.ts";
import type { Tx } from "../store/store.ts";
import type { Identity } from "./auth.ts";

/** How soon a run may have ended. */
const RETRY_SECONDS = 1;

/**
 * The prompt as its key may have it run: recording it throws ServiceError `too_many_concurrent_runs` while as many runs
 * of the key's name are at work as it may have. They are counted in the transaction that records the run, so that of
 * requests made at once no more get through.
 */
export function limitRuns(prompt: Prompt, { name, maxConcurrentRuns: limit }: Identity): Prompt {
  if (limit === undefined) return prompt;
  return {
    ...prompt,
    admit: async (tx) => {
      if ((await countAtWork(tx, name)) >= limit) throw tooMany(name, limit);
    },
  };
}

/** Runs of an owner that take up room now: neither waiting for their turn nor part of another run. */
async function countAtWork(tx: Tx, owner: string): Promise<number> {
  const counted = await tx.db
    .selectFrom("runs")
    .select((runs) => runs.fn.countAll().as("count"))
    .where("owner", "=", owner)
    .where("ended_at", "is", null)
    .where("status", "!=", "queued")
    .where("kind", "!=", "subagent")
    .executeTakeFirst();
  return Number(counted?.count ?? 0);
}

function tooMany(name: string, limit: number): ServiceError {
  return new ServiceError(
    "too_many_concurrent_runs",
    `${limit} runs of the key ${JSON.stringify(name)} are at work, which is its limit (max_concurrent_runs). Try again when one has ended.`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
}
