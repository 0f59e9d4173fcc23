import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import type { Tx } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import type { SessionQueue, Started } from "./session-queue.ts";
import { formatModel } from "../model.ts";
import type { AgentDeps, BusyMode } from "../deps.ts";
import type { Prompt } from "./prompt.ts";
import { requestStopIn } from "./control.ts";
import { newRun, type RunInput } from "./run.ts";
import { claimSession, newSession } from "../session/session.ts";
import type { EntryOnDemand } from "./concurrency.ts";

export interface RecordWork {
  readonly deps: AgentDeps;
  readonly queue: SessionQueue;
}

export interface RecordRequest {
  readonly prompt: Prompt;
  /** Asked for when the run starts, or is to wait for room. */
  readonly entry: EntryOnDemand;
  /** True: nothing is written when a turn is at work in the session, which may take the text. */
  readonly steersFirst: boolean;
}

/** A prompt that will not be lost. */
export interface Recorded extends Started {
  readonly isNew: boolean;
  /** The session's lease is this process's. */
  readonly isLeased: boolean;
  /** In the session's queue, 1 for the next; 0: the run begins now. */
  readonly position: number;
  /** The run that was asked to stop in favour of this one. */
  readonly interrupted?: string | undefined;
}

/** Why a run stops that a newer prompt interrupts. */
export const INTERRUPTED = "A newer prompt took over.";

/**
 * Writes a prompt with its run, and its session if there is none yet, in one transaction, with all that the prompt brings
 * to be recorded with it. Undefined: see {@link RecordRequest.steersFirst}. ServiceError `session_busy` where prompts to a
 * busy session are refused, `queue_full`, and `too_many_concurrent_runs` for a run that would start.
 */
export async function recordPrompt(
  work: RecordWork,
  { prompt, entry, steersFirst }: RecordRequest,
): Promise<Recorded | undefined> {
  const { store, clock } = work.deps;
  const runId = prompt.runId ?? createId("run", clock.now());
  const made = newSession(prompt.address, prompt.seed, clock.now());
  let isAnnounced = false;
  return store.write(async (tx) => {
    const existing = await claimSession(tx, prompt.address);
    // Whoever was told of the run waits for it: from then on there is one.
    if (steersFirst && !isAnnounced && existing && existing.lease_owner !== null) return undefined;
    if (!isAnnounced) prompt.beforeStart?.(runId);
    isAnnounced = true;
    const session = existing ?? made;
    const input = inputOf(prompt, !existing);
    const { kind, metadata = {}, webhook, delivery } = prompt;
    const model = modelFor(prompt, session, work.deps);
    const about = { kind, model, input, metadata, webhook, delivery };
    const run = newRun(runId, session, { ...about, nowMs: tx.nowMs });
    const asked = { prompt, entry, starts: { run, session, input } };
    return existing ? join(tx, work, asked) : open(tx, work, asked);
  });
}

interface Asked {
  readonly prompt: Prompt;
  readonly entry: EntryOnDemand;
  readonly starts: Started;
}

/** In a session that is new. */
async function open(tx: Tx, { queue }: RecordWork, { prompt, entry, starts }: Asked): Promise<Recorded> {
  const { waits } = entry.take();
  const { run } = starts;
  await prompt.alsoRecord?.(tx, waits ? run : running(run));
  await prompt.admit?.(tx);
  await (waits ? queue.openQueued(tx, starts) : queue.open(tx, starts));
  return { ...starts, isNew: true, isLeased: true, position: waits ? 1 : 0 };
}

/** In a session that there is: at once, or in its queue. */
async function join(tx: Tx, work: RecordWork, { prompt, entry, starts }: Asked): Promise<Recorded> {
  const { queue, deps } = work;
  const { run, session, input } = starts;
  const recorded = { ...starts, isNew: false };
  const limit = deps.settings.maxQueuePerSession;
  await prompt.alsoRecord?.(tx, run);
  await queue.keep(tx, session);
  if (!(await queue.lease(tx, session.id)))
    return { ...recorded, ...(await waitInQueue(tx, work, prompt, run)) };
  const { waits } = entry.take();
  await prompt.admit?.(tx);
  if (waits) return { ...recorded, isLeased: true, position: await queue.enqueue(tx, run, { limit }) };
  await queue.begin(tx, run, input);
  return { ...recorded, isLeased: true, position: 0 };
}

/** Behind the run at work, or next in its place. */
async function waitInQueue(
  tx: Tx,
  { deps, queue }: RecordWork,
  prompt: Prompt,
  run: RunRow,
): Promise<Pick<Recorded, "isLeased" | "position" | "interrupted">> {
  const { settings, store } = deps;
  const mode = busyModeOf(prompt, deps);
  if (mode === "reject") throw busy();
  const isNext = mode === "interrupt";
  const position = await queue.enqueue(tx, run, { limit: settings.maxQueuePerSession, isNext });
  const interrupted = isNext ? await requestStopIn(tx, store, run.session_id, INTERRUPTED) : undefined;
  return { isLeased: false, position, interrupted };
}

export function busyModeOf({ whenBusy }: Prompt, { settings }: AgentDeps): BusyMode {
  return whenBusy ?? settings.whenBusy;
}

function busy(): ServiceError {
  return new ServiceError("session_busy", "The session is at work. Wait for its run to end.", {
    retryAfterSeconds: 1,
  });
}

const running = (run: RunRow): RunRow => ({ ...run, status: "running" });

function modelFor(prompt: Prompt, session: SessionRow, { models }: AgentDeps): string {
  const own = session.model === null ? undefined : models.resolve(session.model);
  return formatModel(prompt.model ?? own ?? models.default);
}

function inputOf({ input: { opening = [], ...input } }: Prompt, isNew: boolean): RunInput {
  return isNew ? { ...input, prompt: [...opening, ...input.prompt] } : input;
}
