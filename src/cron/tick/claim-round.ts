import type { Log } from "../../base/observe/log.ts";
import { redact } from "../../base/observe/redact.ts";
import { isRetryable, isUnavailable } from "../../store/tx/failure.ts";
import { breakJob, claimDue, type ClaimRequest, type ClaimRound } from "./claim.ts";

/**
 * One round of {@link claimDue} in a transaction of its own. A row that the database refuses does not keep the others from
 * running: they are claimed one by one then, and that one is left out.
 */
export async function claimRound(request: ClaimRequest, log: Log): Promise<ClaimRound> {
  try {
    return await claimIn(request);
  } catch (error) {
    if (isUnavailable(error)) throw error;
    return claimOneByOne(request, log);
  }
}

function claimIn(request: ClaimRequest): Promise<ClaimRound> {
  return request.store.write((tx) => claimDue(tx, request));
}

async function claimOneByOne(request: ClaimRequest, log: Log): Promise<ClaimRound> {
  const { store } = request;
  const rounds: ClaimRound[] = [];
  for (const { id, revision } of await dueJobs(request)) {
    try {
      rounds.push(await claimIn({ ...request, limit: 1, jobId: id }));
    } catch (error) {
      if (isUnavailable(error)) throw error;
      // Another transaction was in the way: the next look claims it.
      if (isRetryable(error)) continue;
      log.error("a job could not be claimed; it is left out for an hour", { job: id, error });
      const why = `The job could not be claimed: ${redact(String(error)).slice(0, 200)}.`;
      await store.write((tx) => breakJob(tx, { id, revision }, why));
    }
  }
  return {
    claimed: rounds.flatMap(({ claimed }) => claimed),
    missed: rounds.flatMap(({ missed }) => missed),
    looked: rounds.length,
    nowMs: await store.write((tx) => tx.nowMs, { durable: false }),
  };
}

async function dueJobs({
  store,
  limit,
}: ClaimRequest): Promise<readonly { readonly id: string; readonly revision: number }[]> {
  return store.read
    .selectFrom("cron_jobs")
    .select(["id", "revision"])
    .where("due_at", "is not", null)
    .orderBy("due_at")
    .orderBy("id")
    .limit(limit)
    .execute();
}
