import type { RunEvent, RunSnapshotEvent } from "../../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../../generated/http/contract.gen.ts";
import { isFinalEvent, toRunEvent, isFinalStatus, type RunView } from "../../agent/run/run.ts";
import { nameOfId, textOf } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import { ownerFilter } from "../control/page.ts";
import { SharedMessage } from "../edge/answer.ts";
import { showRun, type RunSubscribers } from "./read.ts";

/**
 * GET /v1/runs/{run_id}/events: replays after the cursor, then follows the run to its final event. A snapshot
 * replaces events that have expired.
 */
export async function streamRunEvents(
  { path, headers, query, ctx, signal }: HttpRequest<"streamRunEvents", HttpContext>,
  deps: HttpDeps,
  { subscribers }: { readonly subscribers: RunSubscribers },
): Promise<HttpResponse<"streamRunEvents">> {
  const run = positionOf(await deps.agent.findRun(path.run_id, ownerFilter(ctx).owner));
  const after =
    headers["last-event-id"] === undefined
      ? cursor(query.after, run, "after")
      : cursor(headers["last-event-id"], run, "Last-Event-ID");
  const first = after >= run.last_seq ? undefined : await firstEvent(run, deps);
  const release = subscribers.enter(run.id);
  signal.addEventListener("abort", release, { once: true });
  return {
    status: 200,
    headers: { "x-agent-run-id": run.id, "x-agent-session-id": nameOfId(run.session_id) },
    stream: follow(run, deps, { after, first, signal, release }),
  };
}

/** What a stream keeps of its run while its client reads: not the output, which may be a megabyte for each reader. */
type RunPosition = Pick<RunView, "id" | "owner" | "session_id" | "status" | "last_seq">;

function positionOf({ id, owner, session_id, status, last_seq }: RunView): RunPosition {
  return { id, owner, session_id, status, last_seq };
}

async function* follow(
  run: RunPosition,
  deps: HttpDeps,
  from: { after: number; first: FirstKept | undefined; signal: AbortSignal; release: () => void },
): AsyncGenerator<SseMessage<RunEvent>> {
  const { signal, release } = from;
  try {
    let { after, first } = from;
    if (isFinalStatus(run.status) && after >= run.last_seq) return;
    if (first && first.seq > after + 1) {
      yield frame(await runSnapshot(deps, run, first));
      after = first.seq - 1;
    }
    for await (const group of deps.store.journal.follow({ runId: run.id }, { after, signal })) {
      for (const entry of group) {
        const seq = entry.runSeq ?? 0;
        if (seq > after + 1) {
          // Events expired before this slow reader got them.
          first = await firstEvent(run, deps);
          yield frame(await runSnapshot(deps, run, first));
          after = first.seq - 1;
        }
        if (seq <= after) continue;
        yield sharedFrame(entry);
        after = seq;
        if (isFinalEvent(entry.type)) return;
      }
    }
  } finally {
    release();
  }
}

/** All followers in this process get the same entries, so each entry is encoded once. */
const shared = new WeakMap<JournalEvent, SharedMessage<RunEvent>>();

function sharedFrame(entry: JournalEvent): SharedMessage<RunEvent> {
  const cached = shared.get(entry);
  if (cached) return cached;
  const message = new SharedMessage(toRunEvent(entry), entry.type, String(entry.runSeq));
  shared.set(entry, message);
  return message;
}

function frame(event: RunEvent): SseMessage<RunEvent> {
  return { data: event, event: event.event, id: String(event.seq) };
}

type FirstKept = NonNullable<Awaited<ReturnType<HttpDeps["runs"]["reads"]["firstKept"]>>>;

/** Finds the first kept event. A run may outlive its events: ServiceError `run_events_expired`. */
async function firstEvent({ id }: RunPosition, deps: HttpDeps): Promise<FirstKept> {
  const first = await deps.runs.reads.firstKept(id);
  if (first) return first;
  throw new ServiceError(
    "run_events_expired",
    `The events of run ${id} have expired. GET /v1/runs/${id} still returns how it ended.`,
  );
}

/** Parses the number of the client's last event: a whole number up to the newest one. */
function cursor(text: string | undefined, row: RunPosition, param: string): number {
  if (text === undefined || text === "") return 0;
  const after = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (after <= row.last_seq) return after;
  throw new ServiceError(
    "invalid_cursor",
    `The cursor ${JSON.stringify(text)} is not the number of an event of this run. Its events are 1 to ${row.last_seq}.`,
    { param },
  );
}

/** Returns the event that replaces all events before `first`: the run as it is, and the text up to there. */
async function runSnapshot(
  deps: HttpDeps,
  { id, owner }: RunPosition,
  first: FirstKept,
): Promise<RunSnapshotEvent & { readonly event: "run.snapshot" }> {
  const row = await deps.agent.findRun(id, owner);
  return {
    event: "run.snapshot",
    run_id: id,
    seq: first.seq - 1,
    timestamp: deps.clock.now() / 1000,
    run: await showRun(row, deps),
    text: await textBefore(deps, row, first),
    truncated: true,
    first_seq: first.seq,
  };
}

const MAX_MESSAGES = 200;
const MAX_CHARACTERS = 1_048_576;

/** Returns the text of the run before its first kept event, cut at the start when it is long. */
async function textBefore({ agent }: HttpDeps, run: RunView, first: FirstKept): Promise<string> {
  const [answers, kept] = await Promise.all([
    agent.sessions.reads.answersOf({
      sessionId: run.session_id,
      runId: run.id,
      untilMs: first.atMs,
      limit: MAX_MESSAGES,
    }),
    agent.sessions.reads.textsFrom(run.id, first),
  ]);
  const texts: string[] = [];
  let left = MAX_CHARACTERS;
  for (const text of withoutKept(answers.map(textOf).filter(Boolean).toReversed(), kept).toReversed()) {
    left -= text.length;
    if (left < 0) break;
    texts.unshift(text);
  }
  return answers.length === 0 ? (run.output ?? "") : texts.join("\n\n");
}

/** A message that was saved in the same millisecond as the first kept event may be in the kept events again. */
function withoutKept(texts: readonly string[], kept: readonly string[]): readonly string[] {
  for (let count = Math.min(texts.length, kept.length); count > 0; count -= 1) {
    const end = texts.slice(-count);
    if (end.every((text, index) => text === kept[index])) return texts.slice(0, -count);
  }
  return texts;
}
