/** Reads the turns of a session at a journal position, for a client that gets all later events. */
import type { Inflight } from "../../../generated/gateway/types/types.gen.ts";
import type { NumberedMessage } from "../../agent/session/transcript.ts";
import { textOf } from "../../agent/message.ts";
import { runAt, runsStartedAfter, streamedText, type JournalPosition } from "../../agent/run/queries.ts";
import { firstMessageOf, messagesOf } from "../../agent/session/queries.ts";
import { parseInput } from "../../agent/run/run.ts";
import type { Store } from "../../store/store.ts";
import { MAX_PAGE_CHARACTERS, newestWithin, transcriptOf } from "../session/transcript.ts";

const MAX_MESSAGES = 1_000;

export interface TurnSoFar {
  /** The turn that was running at that position. */
  readonly inflight: Inflight | undefined;
  /** Number of the first message of that turn and of later ones. Events report the messages from there on. */
  readonly firstSeq: number | undefined;
}

export async function turnSoFar(store: Store, place: JournalPosition): Promise<TurnSoFar> {
  const [atWork, later] = await Promise.all([runAt(store, place), runsStartedAfter(store, place)]);
  const runIds = atWork === undefined ? later : [atWork, ...later];
  const [inflight, firstSeq] = await Promise.all([
    atWork === undefined ? undefined : inflightOf(store, place, atWork),
    firstMessageOf(store, place.sessionId, runIds),
  ]);
  return { inflight, firstSeq };
}

async function inflightOf(
  store: Store,
  place: JournalPosition,
  runId: string,
): Promise<Inflight | undefined> {
  const run = await store.find("runs", { id: runId });
  if (!run) return undefined;
  const [said, rows] = await Promise.all([
    streamedText(store, runId, place.upTo),
    messagesUpTo(store, runId, place),
  ]);
  const prompt = parseInput(run).prompt.at(-1);
  const messages = newestWithin(transcriptOf(rows), MAX_PAGE_CHARACTERS);
  const user = prompt ? textOf(prompt) : "";
  return { user, assistant: said, streaming: true, messages: [...messages] };
}

/** Messages have no journal position. They are written with events, so the time of the event decides. */
async function messagesUpTo(
  store: Store,
  runId: string,
  { sessionId, upTo }: JournalPosition,
): Promise<readonly NumberedMessage[]> {
  const last = await store.find("events", { session_id: sessionId, seq: upTo });
  return messagesOf(store, { sessionId, runId, untilMs: last?.created_at, limit: MAX_MESSAGES });
}
