/** How the turns of a session stood at an event, for those who hear of all that came behind it. */
import type { Inflight } from "../../../generated/gateway/types/types.gen.ts";
import { isFinalEvent } from "../../agent/run/event.ts";
import type { NumberedMessage } from "../../agent/session/transcript.ts";
import { textOf, type Message } from "../../agent/message.ts";
import { parseInput } from "../../agent/run/run.ts";
import type { Store } from "../../store/store.ts";
import { STATE_TYPES } from "./gateway-events.ts";
import { MAX_PAGE_CHARACTERS, newestWithin, transcriptOf } from "../session/transcript.ts";

const MAX_EVENTS = 5_000;
const MAX_MESSAGES = 1_000;
/** Turns that begin while a session is looked at. */
const MAX_LATER = 64;
const FINAL_TYPES = STATE_TYPES.filter(isFinalEvent);

/** A place in a session's journal. */
interface Place {
  readonly sessionId: string;
  readonly upTo: number;
}

export interface TurnSoFar {
  /** The turn that was at work, whether it is by now or not. */
  readonly inflight: Inflight | undefined;
  /** Number of the first message of that turn and of those that began since: from there on events tell of them. */
  readonly firstSeq: number | undefined;
}

export async function turnSoFar(store: Store, place: Place): Promise<TurnSoFar> {
  const [atWork, later] = await Promise.all([turnAt(store, place), turnsAfter(store, place)]);
  const runIds = atWork === undefined ? later : [atWork, ...later];
  const [inflight, firstSeq] = await Promise.all([
    atWork === undefined ? undefined : inflightOf(store, place, atWork),
    firstMessage(store, place.sessionId, runIds),
  ]);
  return { inflight, firstSeq };
}

/** The turn that had begun and had no end. */
async function turnAt(store: Store, { sessionId, upTo }: Place): Promise<string | undefined> {
  const started = await store.read
    .selectFrom("events")
    .select(["run_id", "data"])
    .where("session_id", "=", sessionId)
    .where("seq", "<=", upTo)
    .where("type", "=", "run.started")
    .orderBy("seq", "desc")
    .limit(1)
    .executeTakeFirst();
  const runId = started?.run_id ?? undefined;
  const { kind } = JSON.parse(started?.data ?? "{}") as { readonly kind?: string };
  if (runId === undefined || kind === "compression") return undefined;
  const ended = await store.read
    .selectFrom("events")
    .select("seq")
    .where("run_id", "=", runId)
    .where("type", "in", FINAL_TYPES)
    .where("seq", "<=", upTo)
    .executeTakeFirst();
  return ended ? undefined : runId;
}

async function turnsAfter(store: Store, { sessionId, upTo }: Place): Promise<readonly string[]> {
  const started = await store.read
    .selectFrom("events")
    .select("run_id")
    .where("session_id", "=", sessionId)
    .where("seq", ">", upTo)
    .where("type", "=", "run.started")
    .orderBy("seq")
    .limit(MAX_LATER)
    .execute();
  return started.flatMap(({ run_id: runId }) => runId ?? []);
}

async function firstMessage(
  store: Store,
  sessionId: string,
  runIds: readonly string[],
): Promise<number | undefined> {
  if (runIds.length === 0) return undefined;
  const { first } = await store.read
    .selectFrom("messages")
    .select((is) => is.fn.min("seq").as("first"))
    .where("session_id", "=", sessionId)
    .where("run_id", "in", runIds)
    .executeTakeFirstOrThrow();
  return first === null ? undefined : Number(first);
}

async function inflightOf(store: Store, place: Place, runId: string): Promise<Inflight | undefined> {
  const run = await store.find("runs", { id: runId });
  if (!run) return undefined;
  const [said, rows] = await Promise.all([saidIn(store, runId, place), messagesOf(store, runId, place)]);
  const prompt = parseInput(run).prompt.at(-1);
  const messages = newestWithin(transcriptOf(rows), MAX_PAGE_CHARACTERS);
  const user = prompt ? textOf(prompt) : "";
  return { user, assistant: said, streaming: true, messages: [...messages] };
}

async function saidIn(store: Store, runId: string, { upTo }: Place): Promise<string> {
  const rows = await store.read
    .selectFrom("events")
    .select("data")
    .where("run_id", "=", runId)
    .where("type", "=", "message.delta")
    .where("seq", "<=", upTo)
    .orderBy("run_seq", "desc")
    .limit(MAX_EVENTS)
    .execute();
  const deltas = rows.map(({ data }) => (JSON.parse(data) as { readonly delta: string }).delta);
  return deltas.reverse().join("");
}

/** Messages have no place in the journal; they are written together with events, at the same time. */
async function messagesOf(
  store: Store,
  runId: string,
  { sessionId, upTo }: Place,
): Promise<readonly NumberedMessage[]> {
  const last = await store.find("events", { session_id: sessionId, seq: upTo });
  let query = store.read
    .selectFrom("messages")
    .select(["seq", "content"])
    .where("session_id", "=", sessionId)
    .where("run_id", "=", runId);
  if (last) query = query.where("created_at", "<=", last.created_at);
  const rows = await query.orderBy("seq").limit(MAX_MESSAGES).execute();
  return rows.map(({ seq, content }) => ({ seq, message: JSON.parse(content) as Message }));
}
