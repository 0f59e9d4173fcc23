import { headOf } from "../../base/text.ts";
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { SessionInfo } from "../../../generated/gateway/types/types.gen.ts";
import { isFinalEvent } from "../../agent/run/event.ts";
import { textOf } from "../../agent/message.ts";
import { parseInput } from "../../agent/run/run.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { Store } from "../../store/store.ts";
import type { EventRow } from "../../store/schema/tables.ts";
import { GatewayReducer, STATE_TYPES, type EntryFacts } from "./gateway-events.ts";

/** Entries that are read back to know how a session stood. */
const MAX_STATE_ENTRIES = 1_000;
const MAX_PREVIEW_CHARACTERS = 120;
const MAX_INPUT_CHARACTERS = 65_536;
const MAX_CUT_EVENTS = 5_000;

export interface EventProjectorOptions {
  readonly store: Store;
  readonly sessionId: string;
  /** The last entry that the listener knows. */
  readonly after: number;
  /** The session as it is now. */
  readonly info: () => Promise<SessionInfo | undefined>;
  /** Whether a question that is told of is closed by now, or shown in another way. */
  readonly isSettled?: (requestId: string, seq: number) => boolean;
}

/** Tells of a session's journal from any place in it: reads up what the events need that does not stand in them. */
export class EventProjector {
  readonly #options: EventProjectorOptions;
  readonly #fold: GatewayReducer;

  private constructor(options: EventProjectorOptions) {
    this.#options = options;
    this.#fold = new GatewayReducer(options.sessionId);
  }

  /** `opening` comes before all others: what the listener may have missed of its last entry. */
  static async open(
    options: EventProjectorOptions,
  ): Promise<{ readonly projector: EventProjector; readonly opening: readonly GatewayEvent[] }> {
    const projector = new EventProjector(options);
    return { projector, opening: await projector.#restore() };
  }

  async tell(entry: JournalEvent): Promise<readonly GatewayEvent[]> {
    return this.#fold.tell(entry, await this.#factsOf(entry));
  }

  async #restore(): Promise<readonly GatewayEvent[]> {
    const { store, sessionId, after, info } = this.#options;
    if (after === 0) return [];
    const rows = await store.read
      .selectFrom("events")
      .selectAll()
      .where("session_id", "=", sessionId)
      .where("seq", "<=", after)
      .where("type", "in", [...STATE_TYPES])
      .orderBy("seq", "desc")
      .limit(MAX_STATE_ENTRIES)
      .execute();
    const entries = rows.reverse().map(toEntry);
    const queued = entries.filter(({ type }) => type === "run.queued").flatMap(({ runId }) => runId ?? []);
    const previews = await this.#previews(queued);
    let hasTrailer = false;
    for (const entry of entries) {
      hasTrailer = entry.seq === after && this.#fold.hasTrailer(entry);
      this.#fold.tell(entry, { preview: previews.get(entry.runId ?? "") ?? "" });
    }
    const last = hasTrailer ? entries.at(-1) : undefined;
    const now = last && (await info());
    return last && now ? [this.#fold.trailer(last, now)] : [];
  }

  async #factsOf(entry: JournalEvent): Promise<EntryFacts> {
    const { info, isSettled } = this.#options;
    const now = this.#fold.wantsInfo(entry) ? await info() : undefined;
    const runId = entry.runId ?? "";
    if (entry.type.endsWith(".request")) {
      return { isSettled: isSettled?.(String(entry.data["request_id"]), entry.seq) ?? false };
    }
    if (entry.type === "run.queued") return { preview: (await this.#previews([runId])).get(runId) ?? "" };
    if (entry.type === "run.started") return this.#promptOf(runId);
    const isCut = isFinalEvent(entry.type) && entry.type !== "run.completed";
    const output = now && isCut ? await this.#saidIn(runId) : undefined;
    return { ...(now ? { info: now } : {}), ...(output === undefined ? {} : { output }) };
  }

  async #previews(runIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (runIds.length === 0) return new Map();
    const rows = await this.#options.store.read
      .selectFrom("runs")
      .select(["id", "input_preview"])
      .where("id", "in", runIds)
      .execute();
    return new Map(
      rows.map(({ id, input_preview: text }) => [id, headOf(text ?? "", MAX_PREVIEW_CHARACTERS)]),
    );
  }

  async #promptOf(runId: string): Promise<EntryFacts> {
    const row = await this.#options.store.read
      .selectFrom("runs")
      .selectAll()
      .where("id", "=", runId)
      .executeTakeFirst();
    const prompt = row && parseInput(row).prompt.at(-1);
    if (!prompt) return {};
    return { prompt: { role: prompt.role, text: headOf(textOf(prompt), MAX_INPUT_CHARACTERS) } };
  }

  /** Text of the last message of a run that was cut. */
  async #saidIn(runId: string): Promise<string> {
    const rows = await this.#options.store.read
      .selectFrom("events")
      .select(["type", "data"])
      .where("run_id", "=", runId)
      .where("type", "in", ["message.started", "message.delta"])
      .orderBy("run_seq", "desc")
      .limit(MAX_CUT_EVENTS)
      .execute();
    const from = rows.findIndex(({ type }) => type === "message.started");
    const last = (from < 0 ? rows : rows.slice(0, from)).reverse();
    return last.map(({ data }) => (JSON.parse(data) as { readonly delta: string }).delta).join("");
  }
}

function toEntry(row: EventRow): JournalEvent {
  return {
    sessionId: row.session_id,
    seq: row.seq,
    runId: row.run_id,
    runSeq: row.run_seq,
    type: row.type,
    data: JSON.parse(row.data) as Record<string, unknown>,
    atMs: row.created_at,
  };
}
