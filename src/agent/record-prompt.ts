import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import type { SessionRow } from "../store/tables.ts";
import type { Lane, Started } from "./lane.ts";
import { formatModel } from "./model.ts";
import type { AgentParts } from "./parts.ts";
import type { Prompt } from "./prompt.ts";
import { newRun, type RunInput } from "./run.ts";
import { newSession } from "./session.ts";

export interface RecordWork {
  readonly parts: AgentParts;
  readonly lane: Lane;
}

export interface RecordRequest {
  readonly prompt: Prompt;
  /** The session that the prompt is for, when there is one. */
  readonly found: SessionRow | undefined;
  /** True: there is no room for the run yet. */
  readonly waits: boolean;
}

/** A prompt that will not be lost. */
export interface Recorded extends Started {
  readonly isNew: boolean;
  /** The session's lease is this process's. */
  readonly isLeased: boolean;
  /** In the session's queue, 1 for the next; 0: the run begins now. */
  readonly position: number;
}

/**
 * Writes a prompt with its run, and its session if there is none yet, in one transaction, with all that the prompt brings
 * to be recorded with it. ServiceError `session_busy` where prompts to a busy session are refused, `queue_full`.
 */
export async function recordPrompt(
  { parts, lane }: RecordWork,
  { prompt, found, waits }: RecordRequest,
): Promise<Recorded> {
  const { store, clock } = parts;
  const runId = prompt.runId ?? createId("run", clock.now());
  const made = newSession(prompt.address, prompt.seed, clock.now());
  prompt.beforeStart?.(runId);
  return store.write(async (tx) => {
    const existing = found ?? (await lane.existing(tx, made));
    const session = existing ?? made;
    const input = inputOf(prompt, !existing);
    const { kind, metadata = {}, webhook, delivery } = prompt;
    const model = modelFor(prompt, session, parts);
    const about = { kind, model, input, metadata, webhook, delivery };
    const run = newRun(runId, session, { ...about, nowMs: tx.nowMs });
    const startsNow = !existing && !waits;
    await prompt.alsoRecord?.(tx, startsNow ? { ...run, status: "running" } : run);
    await prompt.admit?.(tx);
    const starts = { run, session, input, isNew: !existing, isLeased: true, position: 0 };
    if (!existing) {
      if (!waits) await lane.open(tx, starts);
      else await lane.openQueued(tx, starts);
      return waits ? { ...starts, position: 1 } : starts;
    }
    await lane.keep(tx, session);
    const isLeased = await lane.lease(tx, session.id);
    if (isLeased && !waits) {
      await lane.begin(tx, run, input);
      return starts;
    }
    const position = await lane.enqueue(tx, run, queueLimit(prompt, parts));
    return { ...starts, isLeased, position };
  });
}

function queueLimit(prompt: Prompt, { settings }: AgentParts): number {
  if ((prompt.whenBusy ?? settings.whenBusy) !== "reject") return settings.maxQueuePerSession;
  throw new ServiceError("session_busy", "The session is at work. Wait for its run to end.", {
    retryAfterSeconds: 1,
  });
}

function modelFor(prompt: Prompt, session: SessionRow, { models }: AgentParts): string {
  const own = session.model === null ? undefined : models.resolve(session.model);
  return formatModel(prompt.model ?? own ?? models.default);
}

function inputOf({ input: { opening = [], ...input } }: Prompt, isNew: boolean): RunInput {
  return isNew ? { ...input, prompt: [...opening, ...input.prompt] } : input;
}
