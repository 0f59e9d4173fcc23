import { headOf } from "../../base/text.ts";
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { SessionInfo, Cursor } from "../../../generated/gateway/types/types.gen.ts";
import { isFinalEvent } from "../../agent/run/event.ts";
import { textOf } from "../../agent/message.ts";
import { eventsUpTo, inputPreviews, lastMessageText } from "../../agent/run/queries.ts";
import { hasAllEvents } from "../../agent/session/queries.ts";
import { parseInput } from "../../agent/run/run.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { Store } from "../../store/store.ts";
import { GatewayReducer, STATE_TYPES, type EntryExtras } from "./gateway-events.ts";

/** Entries that are read back to restore the reducer's state. */
const MAX_STATE_ENTRIES = 1_000;
const MAX_PREVIEW_CHARACTERS = 120;
const MAX_INPUT_CHARACTERS = 65_536;

export interface EventProjectorOptions {
  readonly store: Store;
  readonly sessionId: string;
  /** The last entry that the client has. */
  readonly after: number;
  /** Reads the session as it is now. */
  readonly info: () => Promise<SessionInfo | undefined>;
  /** Returns true for a question that is closed, or shown in another way. */
  readonly isSettled?: (requestId: string, seq: number) => boolean;
}

/** Projects a session's journal from any position: reads the data that the events need and the entries lack. */
export class EventProjector {
  readonly #options: EventProjectorOptions;
  readonly #reducer: GatewayReducer;

  private constructor(options: EventProjectorOptions) {
    this.#options = options;
    this.#reducer = new GatewayReducer(options.sessionId);
  }

  /** `opening` precedes all other events: the part of its last entry that the client may have missed. */
  static async open(
    options: EventProjectorOptions,
  ): Promise<{ readonly projector: EventProjector; readonly opening: readonly GatewayEvent[] }> {
    const projector = new EventProjector(options);
    return { projector, opening: await projector.#restore() };
  }

  async project(entry: JournalEvent): Promise<readonly GatewayEvent[]> {
    return this.#reducer.project(entry, await this.#extraOf(entry));
  }

  async #restore(): Promise<readonly GatewayEvent[]> {
    const { store, sessionId, after, info } = this.#options;
    if (after === 0) return [];
    const entries = await eventsUpTo(
      store,
      { sessionId, upTo: after },
      { types: STATE_TYPES, limit: MAX_STATE_ENTRIES },
    );
    const queued = entries.filter(({ type }) => type === "run.queued").flatMap(({ runId }) => runId ?? []);
    const previews = await this.#previews(queued);
    let hasTrailer = false;
    for (const entry of entries) {
      hasTrailer = entry.seq === after && this.#reducer.hasTrailer(entry);
      this.#reducer.project(entry, { preview: previews.get(entry.runId ?? "") ?? "" });
    }
    const last = hasTrailer ? entries.at(-1) : undefined;
    const now = last && (await info());
    return last && now ? [this.#reducer.trailer(last, now)] : [];
  }

  async #extraOf(entry: JournalEvent): Promise<EntryExtras> {
    const { info, isSettled } = this.#options;
    const now = this.#reducer.wantsInfo(entry) ? await info() : undefined;
    const runId = entry.runId ?? "";
    if (entry.type.endsWith(".request")) {
      return { isSettled: isSettled?.(String(entry.data["request_id"]), entry.seq) ?? false };
    }
    if (entry.type === "run.queued") return { preview: (await this.#previews([runId])).get(runId) ?? "" };
    if (entry.type === "run.started") return this.#promptOf(runId);
    const isCut = isFinalEvent(entry.type) && entry.type !== "run.completed";
    const output = now && isCut ? await lastMessageText(this.#options.store, runId) : undefined;
    return { ...(now ? { info: now } : {}), ...(output === undefined ? {} : { output }) };
  }

  async #previews(runIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const previews = await inputPreviews(this.#options.store, runIds);
    return new Map([...previews].map(([id, text]) => [id, headOf(text, MAX_PREVIEW_CHARACTERS)]));
  }

  async #promptOf(runId: string): Promise<EntryExtras> {
    const row = await this.#options.store.find("runs", { id: runId });
    const prompt = row && parseInput(row).prompt.at(-1);
    if (!prompt) return {};
    return { prompt: { role: prompt.role, text: headOf(textOf(prompt), MAX_INPUT_CHARACTERS) } };
  }
}

/** Where a client resumes. */
export interface ReplayFrom {
  /** The last entry that the client has; the session's last one when the client must start anew. */
  readonly after: number;
  readonly latestSeq: number;
  readonly truncated: boolean;
}

/** Checks whether all events after a cursor are kept. Without a cursor, starts at the session's last event. */
export async function replayFrom(store: Store, sessionId: string, cursor?: Cursor): Promise<ReplayFrom> {
  const latestSeq = (await store.find("sessions", { id: sessionId }))?.last_seq ?? 0;
  if (!cursor) return { after: latestSeq, latestSeq, truncated: false };
  const isKept =
    cursor.epoch === store.epoch &&
    cursor.last_seen <= latestSeq &&
    (await hasAllEvents(store, { sessionId, after: cursor.last_seen, upTo: latestSeq }));
  if (!isKept) return { after: latestSeq, latestSeq, truncated: true };
  return { after: cursor.last_seen, latestSeq, truncated: false };
}

/** Returns the events after `after`, up to the limits. Bytes are UTF-8 bytes. */
export async function readEvents(
  options: EventProjectorOptions,
  limits: { readonly events: number; readonly bytes: number },
): Promise<readonly GatewayEvent[]> {
  const { store, sessionId, after } = options;
  const { projector, opening } = await EventProjector.open(options);
  const { events: limit, bytes: maxBytes } = limits;
  const entries = await store.journal.read({ sessionId }, { after, limit, maxBytes });
  const events = [...opening];
  let bytes = 0;
  let lastSeq = after;
  for (const entry of entries) {
    const next = await projector.project(entry);
    bytes += Buffer.byteLength(JSON.stringify(next));
    if (lastSeq > after && (bytes > limits.bytes || events.length + next.length > limits.events)) break;
    events.push(...next);
    lastSeq = entry.seq;
  }
  return events;
}
