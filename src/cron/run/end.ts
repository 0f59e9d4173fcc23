/** Ends occurrences, and keeps their output files. Touches the machine. */
import { UNLEASED } from "../../store/tx/tx.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow, OccurrenceRow, OutboxRow, RunRow } from "../../store/schema/tables.ts";
import {
  isSilent,
  type Ending,
  endingOfAnswer,
  clip,
  messageText,
  type MessageContext,
  keptOutput,
  OUTPUT_TARGET,
  readKeptOutput,
  type KeptOutput,
  isJobFolderName,
  isOutputFileName,
  type DeliveryPlan,
  readPlan,
} from "./result.ts";
import {
  toJob,
  type DeliveryStatus,
  formatSchedule,
  dueAtMs,
  changeOccurrence,
  recordJob,
} from "../job/job.ts";
import { isPlan, messagesOf, missedCountAt, type OccurrenceMessage } from "../queries.ts";
import type { Outcome, RunTrigger } from "../../agent/run/run.ts";
import type { ProviderFailure, RunUsage } from "../../../generated/http/client/types.gen.ts";
import { join } from "node:path";
import { lstat, readdir, readFile, rm } from "node:fs/promises";
import { writePrivateFile } from "../../config/home.ts";
import { fileProblem, folderProblem, writeFailure } from "../../deliver/targets/local.ts";
import { answerPayload, messagePayload, type SendOutcome, type Target } from "../../deliver/target.ts";

export interface OccurrenceEnd {
  readonly plan: DeliveryPlan;
  readonly ending: Ending;
  /** True: only while this process holds the lease. The end of a run needs none: the run has a lease of its own. */
  readonly isMine?: boolean;
  /** Working folder of the session, absolute, or null, when the text is an agent's answer: it may name files there. */
  readonly filesFrom?: string | null;
}

/**
 * Ends an occurrence in `tx`: enqueues its output file and its messages, and updates the job. A failure that will be retried
 * is reported after the last attempt. False when the occurrence had ended already, or another process holds it.
 */
export async function endOccurrence(tx: Tx, store: Store, end: OccurrenceEnd): Promise<boolean> {
  const { plan, ending } = end;
  // Locks the job before reading it: the second of two ends builds on the first. Jobs before occurrences, as in claims.
  await tx.increment("cron_jobs", { id: plan.jobId }, "lock_version", 0);
  const row = await tx.find("cron_jobs", { id: plan.jobId });
  const againAtMs = row && ending.canRetry === true ? againAt(row, plan, tx.nowMs) : undefined;
  const targets = againAtMs === undefined ? notifiedTargets(plan, ending) : [];
  const reason = reasonOf(ending, againAtMs === undefined ? undefined : againAtMs - tx.nowMs);
  const columns = {
    status: ending.status,
    reason,
    ended_at: tx.nowMs,
    ...UNLEASED,
    delivery_status: firstDeliveryStatus(plan, ending, targets),
    delivery_error: null,
  };
  const mine = end.isMine === true ? { lease_owner: store.owner } : {};
  if (!(await changeOccurrence(tx, { id: plan.ref, ended_at: null, ...mine }, columns))) return false;
  const from = { owner: plan.owner, ref: plan.ref };
  await store.outbox.enqueue(tx, { ...from, target: OUTPUT_TARGET, payload: keptOutput(plan, ending) });
  const failureStreak = streakOf(row, ending, againAtMs);
  if (targets.length > 0) {
    const context = { failureStreak, ...(await missedBefore(tx, plan)) };
    for (const target of targets) {
      const hidesReason = !plan.informedTargets.includes(target);
      const text = messageText(plan, ending, { ...context, hidesReason });
      const { filesFrom: cwd } = end;
      const isAnswer = cwd !== undefined && ending.status === "ok";
      const payload = isAnswer ? answerPayload(text, { cwd }) : messagePayload(text);
      await store.outbox.enqueue(tx, { ...from, target, payload });
    }
  }
  if (row) await updateJob(tx, row, { plan, ending, reason, failureStreak, againAtMs });
  return true;
}

const MAX_REASON_CHARACTERS = 500;

/** Also undefined if the job has another schedule now, or cannot be read: a retry would be another run. */
function againAt(row: CronJobRow, plan: DeliveryPlan, nowMs: number): number | undefined {
  const { schedule, zone } = toJob(row)?.definition ?? {};
  if (!schedule || formatSchedule(schedule) !== plan.schedule || zone !== plan.zone) return undefined;
  return retryAtMs(row, { plan, nowMs });
}

/** Failures are always delivered; only a success can be silent. */
function notifiedTargets(plan: DeliveryPlan, ending: Ending): readonly string[] {
  if (ending.isQuiet === true || isSilentEnd(plan, ending)) return [];
  return ending.status === "ok" ? plan.targets : plan.failureTargets;
}

function isSilentEnd({ silentMatch }: DeliveryPlan, { status, text, isQuiet }: Ending): boolean {
  return status === "ok" && (isQuiet === true || isSilent(text, silentMatch));
}

function firstDeliveryStatus(plan: DeliveryPlan, ending: Ending, targets: readonly string[]): DeliveryStatus {
  if (targets.length > 0) return "pending";
  return isSilentEnd(plan, ending) ? "silent" : "none";
}

function reasonOf({ status, text }: Ending, waitMs: number | undefined): string | null {
  if (status === "ok") return null;
  const again = waitMs === undefined ? "" : ` It is retried in ${Math.round(waitMs / 60_000)} minutes.`;
  return `${clip(text, MAX_REASON_CHARACTERS - again.length)}${again}`;
}

function streakOf(row: CronJobRow | undefined, { status }: Ending, againAtMs: number | undefined): number {
  if (status === "ok") return 0;
  // All attempts at one instant count as one failure.
  return (row?.failure_streak ?? 0) + (againAtMs === undefined ? 1 : 0);
}

/** The claim of a run that catches up recorded what it replaces. */
async function missedBefore(tx: Tx, { jobId, atMs, timing }: DeliveryPlan): Promise<MessageContext> {
  const missedCount = timing === "catch_up" ? await missedCountAt(tx, jobId, atMs) : undefined;
  return missedCount === undefined ? {} : { missedCount };
}

/** Only a change that affects later runs grows the lock version, so that it seldom conflicts with other changes of the job. */
async function updateJob(
  tx: Tx,
  row: CronJobRow,
  end: OccurrenceEnd & {
    readonly reason: string | null;
    readonly failureStreak: number;
    readonly againAtMs: number | undefined;
  },
): Promise<void> {
  const { plan, ending, reason, failureStreak, againAtMs } = end;
  const columns: Partial<CronJobRow> = {
    last_status: ending.lastStatus ?? LAST[ending.status],
    last_error: reason,
    last_delivery_error: null,
    last_occurrence: plan.ref,
    failure_streak: failureStreak,
    retries: retriesOf(row, plan, againAtMs),
    updated_at: tx.nowMs,
    ...retryColumns(row, againAtMs, tx.nowMs),
  };
  if (againAtMs === undefined && (await isFinished(tx, row))) {
    Object.assign(columns, { state: "completed", lock_version: row.lock_version + 1 });
  }
  await tx.update("cron_jobs", { id: plan.jobId }, columns);
  if (columns.state !== undefined) recordJob(tx, "updated", { ...row, state: columns.state });
}

const LAST = { ok: "ok", failed: "error", unknown: "unknown" } as const;

/** A manual run between two retries does not change their count. */
function retriesOf(row: CronJobRow, plan: DeliveryPlan, againAtMs: number | undefined): number {
  if (againAtMs !== undefined) return retryAfterMs(row, plan).retries;
  return row.retry_at === null ? 0 : row.retries;
}

function retryColumns(row: CronJobRow, againAtMs: number | undefined, nowMs: number): Partial<CronJobRow> {
  const job = againAtMs === undefined ? undefined : toJob({ ...row, retry_at: againAtMs });
  if (!job) return {};
  return {
    retry_at: againAtMs ?? null,
    due_at: dueAtMs(job, job, nowMs) ?? null,
    lock_version: row.lock_version + 1,
  };
}

/** Whether the job has no instant left and no open occurrence. */
async function isFinished(tx: Tx, row: CronJobRow): Promise<boolean> {
  const upcoming = [row.next_run_at, row.retry_at, row.manual_at];
  if (row.state !== "scheduled" || upcoming.some((at) => at !== null)) return false;
  const open: Partial<OccurrenceRow> = { job_id: row.id, ended_at: null };
  return (await tx.find("occurrences", open)) === undefined;
}

const RETRY_DELAYS_MS = [300_000, 900_000, 1_800_000] as const;

/** Returns how long to wait after the failure of `plan`, and the number of the retry, from 1. Undefined after the last. */
function retryAfterMs(
  { retries }: Pick<CronJobRow, "retries">,
  { cause }: Pick<DeliveryPlan, "cause">,
): { readonly waitMs: number | undefined; readonly retries: number } {
  const done = cause === "retry" ? retries : 0;
  return { waitMs: RETRY_DELAYS_MS[done], retries: done + 1 };
}

/**
 * Returns when a run that never reached a model is retried; undefined when it is not. A manual run is not retried because a
 * person sees its failure, a one-shot had its instant, and a retry never comes after the next instant.
 */
function retryAtMs(
  row: Pick<CronJobRow, "state" | "retries" | "retry_at" | "next_run_at">,
  { plan, nowMs }: { readonly plan: Pick<DeliveryPlan, "cause" | "isOnce">; readonly nowMs: number },
): number | undefined {
  if (plan.isOnce || plan.cause === "manual" || row.state !== "scheduled") return undefined;
  const { waitMs } = retryAfterMs(row, plan);
  if (waitMs === undefined || row.retry_at !== null) return undefined;
  const atMs = nowMs + waitMs;
  return row.next_run_at === null || atMs < row.next_run_at ? atMs : undefined;
}

/**
 * Updates the delivery status of an occurrence, and of its job while that shows this occurrence, after one of its messages
 * was sent, given up, dropped or requeued. A failed delivery does not repeat the run, and is not a failure of the run.
 */
export async function closeSettledOccurrence(tx: Tx, { ref }: Pick<OutboxRow, "ref">): Promise<void> {
  if (ref === null) return;
  // Locks the row before reading it: its messages may end at once in several processes.
  if ((await tx.increment("occurrences", { id: ref }, "covers_count", 0)) === undefined) return;
  const row = await tx.find("occurrences", { id: ref });
  if (!row) return;
  const { status, error } = deliveryOf(await messagesOf(tx, ref));
  const columns = { delivery_status: status ?? row.delivery_status, delivery_error: error };
  if (columns.delivery_status === row.delivery_status) await tx.update("occurrences", { id: ref }, columns);
  else await changeOccurrence(tx, { id: ref }, columns);
  // The job keeps the columns of its newest occurrence. A failed run stays failed, however its message ends.
  const mine = { id: row.job_id, last_occurrence: ref };
  await tx.update("cron_jobs", mine, { last_delivery_error: error });
  const [from, to] = error === null ? ["delivery_failed", "ok"] : ["ok", "delivery_failed"];
  await tx.update("cron_jobs", { ...mine, last_status: from }, { last_status: to });
}

interface Delivery {
  /** Undefined when no message goes to people: the occurrence has the reason. */
  readonly status: DeliveryStatus | undefined;
  /** What did not arrive, or may not have. */
  readonly error: string | null;
}

const PENDING: ReadonlySet<string> = new Set(["due", "leased"]);
const LOST: ReadonlySet<string> = new Set(["dead", "dropped"]);
const MAX_DELIVERY_ERROR_CHARACTERS = 500;

function deliveryOf(messages: readonly OccurrenceMessage[]): Delivery {
  const toPeople = messages.filter(({ target }) => target !== OUTPUT_TARGET);
  const lost = messages.filter(({ status }) => LOST.has(status));
  const uncertain = messages.filter(({ status }) => status === "unknown");
  const all = [...lost, ...uncertain].map(errorOf).join(" ");
  const error = all === "" ? null : clip(all, MAX_DELIVERY_ERROR_CHARACTERS);
  if (toPeople.length === 0) return { status: undefined, error };
  if (toPeople.some(({ status }) => PENDING.has(status))) return { status: "pending", error };
  if (lost.length > 0) return { status: "failed", error };
  // Only a confirmed message counts as delivered.
  return { status: uncertain.length > 0 ? "unknown" : "delivered", error };
}

/** The last error of a dropped message is not why it ended. */
function errorOf({ target, status, last_error: error }: OccurrenceMessage): string {
  return `${target}: ${status === "dropped" ? "It was dropped." : (error ?? "It was given up.")}`;
}

/** Returns the trigger that updates the occurrence of a run when the run starts and ends, in any process. */
export function createCronTrigger({
  store,
  ends,
}: {
  readonly store: Store;
  readonly ends: RunEnds;
}): RunTrigger {
  return {
    owns: isPlan,

    async started(tx: Tx, run: RunRow) {
      const plan = readPlan(run.reply_to);
      if (!plan) return;
      const started = { status: "running", started_at: tx.nowMs };
      await changeOccurrence(tx, { id: plan.ref, status: "claimed" }, started);
    },

    async ended(tx: Tx, run: RunRow, outcome: Outcome) {
      const plan = readPlan(run.reply_to);
      if (!plan) return;
      const session = await tx.find("sessions", { id: run.session_id });
      const files = outcome.status === "completed" ? { filesFrom: session?.cwd ?? null } : {};
      await endOccurrence(tx, store, { plan, ending: endingOf(outcome), ...files });
      tx.afterCommit(() => ends.resolve(plan.ref));
    },
  };
}

interface RunEnd {
  readonly error?: { readonly message: string };
  readonly reason?: string;
  readonly usage?: RunUsage;
  readonly failure?: ProviderFailure;
}

function endingOf({ status, set, event }: Outcome): Ending {
  if (status === "completed") return endingOfAnswer(set.output ?? "");
  const end: RunEnd = event.data;
  const text = end.error?.message ?? end.reason ?? `The run ended as ${status}.`;
  if (status === "interrupted") return { status: "unknown", text };
  return { status: "failed", text, ...(hasReachedNoModel(end) ? { canRetry: true } : {}) };
}

/** Whether a temporary failure ended the run before the model produced or did anything. */
function hasReachedNoModel({ failure, usage }: RunEnd): boolean {
  if (!failure || !TRANSIENT.has(failure.kind)) return false;
  // The failed call counts too.
  return !usage || (usage.model_calls <= 1 && usage.tool_calls === 0 && usage.output_tokens === 0);
}

const TRANSIENT: ReadonlySet<ProviderFailure["kind"]> = new Set(["network", "overloaded", "rate_limit"]);

/** Lets the scheduler of this process wait for the ends of occurrences. */
export class RunEnds {
  readonly #waiting = new Map<string, () => void>();

  /** Resolves when a run of this process ends the occurrence, or {@link resolve} is called for it. */
  wait(occurrenceId: string): Promise<void> {
    return new Promise((resolve) => this.#waiting.set(occurrenceId, resolve));
  }

  resolve(occurrenceId: string): void {
    const resolve = this.#waiting.get(occurrenceId);
    this.#waiting.delete(occurrenceId);
    resolve?.();
  }
}

export interface OutputTargetOptions {
  /** `<home>/cron/output`, absolute. */
  readonly folder: string;
  /** How many of the newest files of a job are kept. */
  readonly keep: number;
  /** Whether the job still exists: a file written after its removal would stay forever. */
  readonly hasJob: (id: string) => Promise<boolean>;
  /** For tests. */
  readonly write?: typeof writePrivateFile;
}

/**
 * Returns the target that writes `<folder>/<job>/<file>`, readable for its user only. It writes atomically, writes the same
 * output to the same file, and does not follow links.
 */
export function createOutputTarget(options: OutputTargetOptions): Target {
  return {
    name: OUTPUT_TARGET,
    isOrdered: false,
    supportsIdempotency: true,
    async send({ payload }) {
      const output = readKeptOutput(payload);
      if (!output) return { status: "permanent", error: "The message is not an output of a job." };
      if (!isJobFolderName(output.jobId))
        return { status: "permanent", error: "The id of the job cannot name a folder." };
      if (!isOutputFileName(output.file))
        return { status: "permanent", error: "The name of the output cannot name a file." };
      return keep(output, options);
    },
  };
}

async function keep(
  { jobId, file, text }: KeptOutput,
  { folder: root, keep: count, hasJob, write = writePrivateFile }: OutputTargetOptions,
): Promise<SendOutcome> {
  const folder = join(root, jobId);
  const path = join(folder, file);
  try {
    if (!(await hasJob(jobId))) return { status: "delivered" };
    const problem = (await folderProblem(root)) ?? (await folderProblem(folder)) ?? (await fileProblem(path));
    if (problem !== undefined) return { status: "permanent", error: problem };
    await write(path, text);
    // The job may have been removed before the file existed.
    if (!(await hasJob(jobId))) await removeOutputs(root, jobId);
    else await pruneOutputs(folder, { keep: count, besides: file });
    return { status: "delivered" };
  } catch (error) {
    return { status: "retry", error: writeFailure(error, path) };
  }
}

/** Returns the names of a job's output files, newest first. */
export async function listOutputs(root: string, jobId: string): Promise<readonly string[]> {
  if (!isJobFolderName(jobId)) return [];
  return (await namesIn(join(root, jobId))).filter(isOutputFileName).sort().reverse();
}

/** Longest output that is read. */
const MAX_BYTES = 8_388_608;

/** Returns a whole output file; undefined when it does not exist, is too large, or is a link. */
export async function readOutput(
  root: string,
  { jobId, file }: { readonly jobId: string; readonly file: string },
): Promise<string | undefined> {
  if (!isJobFolderName(jobId) || !isOutputFileName(file)) return undefined;
  const folder = join(root, jobId);
  const path = join(folder, file);
  try {
    if (!(await lstat(folder)).isDirectory()) return undefined;
    const found = await lstat(path);
    return found.isFile() && found.size <= MAX_BYTES ? await readFile(path, "utf8") : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Removes all output files of a job. When its folder is a link, only the link is removed. */
export async function removeOutputs(root: string, jobId: string): Promise<void> {
  if (isJobFolderName(jobId)) await rm(join(root, jobId), { recursive: true, force: true });
}

/** A temporary file that an interrupted write left behind. */
const REST = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.md\.\d+$/;

/** Removes all but the newest `keep` output files of a job and `besides`. Other files stay. */
export async function pruneOutputs(
  folder: string,
  { keep, besides }: { readonly keep: number; readonly besides: string },
): Promise<void> {
  const names = await namesIn(folder);
  const outputs = names.filter(isOutputFileName).sort().reverse();
  const old = outputs.filter((name) => name !== besides).slice(Math.max(0, keep - 1));
  const oldest = outputs.at(keep - 1);
  const rests = oldest === undefined ? [] : names.filter((name) => REST.test(name) && name < oldest);
  for (const name of [...old, ...rests]) await rm(join(folder, name), { force: true });
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  const { code } = Object(error) as { readonly code?: unknown };
  return code === "ENOENT" || code === "ENOTDIR";
}
