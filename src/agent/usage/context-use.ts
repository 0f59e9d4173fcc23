import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { Memo } from "../../base/lru.ts";
import type { Store } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { contextTokens } from "../engines/conversation.ts";
import { loadContext } from "../session/transcript.ts";
import type { Message } from "../message.ts";
import type { AgentDeps, AgentSettings } from "../deps.ts";

interface ContextUse {
  /** Approximate size of the next call's context in tokens; 0 for an empty session. */
  readonly used: number;
  readonly compressions: number;
}

const MAX_KNOWN = 512;
const contexts = new WeakMap<Store, Memo<ContextUse>>();

/** Returns how full a session's context is. Cached until its messages change. */
export function contextUse(
  { store, settings }: Pick<AgentDeps, "store" | "settings">,
  row: SessionRow,
): Promise<ContextUse> {
  const memo = contexts.get(store) ?? new Memo(MAX_KNOWN);
  contexts.set(store, memo);
  const version = [row.last_message, row.context_seq, row.summary_seq, row.updated_at].join(":");
  return memo.get(row.id, version, async () => ({
    used: await contextUsed(store, settings, row),
    compressions: row.context_seq > 0 ? await compressionsOf(store, row.id) : 0,
  }));
}

/** Returns the provider's count of the last call plus an estimate for newer messages, or an estimate for all. */
async function contextUsed(
  store: Store,
  settings: Pick<AgentSettings, "instructions">,
  row: SessionRow,
): Promise<number> {
  const counted = await lastCall(store, row);
  if (counted) {
    const since = await messagesAfter(store, row.id, counted.seq);
    return contextTokens({ instructions: "" }, since, { tokens: counted.tokens, messages: 0 });
  }
  const context = (await loadContext(store, row)).map(({ message }) => message);
  if (context.length === 0) return 0;
  return contextTokens(settings, context);
}

/** Returns the tokens of the newest ended call and its last message; undefined when unknown. */
async function lastCall(
  store: Store,
  { id, context_seq: from }: SessionRow,
): Promise<{ readonly tokens: number; readonly seq: number } | undefined> {
  const run = await store.read
    .selectFrom("runs")
    .select(["id", "kind", "usage"])
    .where("session_id", "=", id)
    .where("ended_at", "is not", null)
    .where("started_at", "is not", null)
    .orderBy("created_at", "desc")
    .limit(1)
    .executeTakeFirst();
  if (!run || run.usage === null || run.kind === "compression") return undefined;
  const { max: seq } = await store.read
    .selectFrom("messages")
    .select((is) => is.fn.max("seq").as("max"))
    .where("session_id", "=", id)
    .where("run_id", "=", run.id)
    .executeTakeFirstOrThrow();
  // Its messages were summarised, forgotten or undone since.
  if (seq === null || Number(seq) <= from) return undefined;
  const tokens = await tokensOfLastCall(store, run);
  return tokens === undefined ? undefined : { tokens, seq: Number(seq) };
}

/** A run's usage sums its calls; subtracts the last total reported before the final call. */
async function tokensOfLastCall(
  store: Store,
  { id, usage }: Pick<RunRow, "id" | "usage">,
): Promise<number | undefined> {
  const whole = JSON.parse(usage ?? "{}") as Partial<RunUsage>;
  const before = await store.read
    .selectFrom("events")
    .select("data")
    .where("run_id", "=", id)
    .where("type", "=", "usage.updated")
    .orderBy("run_seq", "desc")
    .limit(1)
    .executeTakeFirst();
  const reported = before ? (JSON.parse(before.data) as { readonly usage: Partial<RunUsage> }).usage : {};
  const of = (field: "model_calls" | "input_tokens" | "output_tokens") =>
    (whole[field] ?? 0) - (reported[field] ?? 0);
  return of("model_calls") === 1 && of("input_tokens") > 0
    ? of("input_tokens") + of("output_tokens")
    : undefined;
}

async function messagesAfter(store: Store, sessionId: string, seq: number): Promise<readonly Message[]> {
  const rows = await store.read
    .selectFrom("messages")
    .select("content")
    .where("session_id", "=", sessionId)
    .where("seq", ">", seq)
    .orderBy("seq")
    .execute();
  return rows.map(({ content }) => JSON.parse(content) as Message);
}

/** Counts summaries: each compression writes one. */
async function compressionsOf(store: Store, sessionId: string): Promise<number> {
  const { count } = await store.read
    .selectFrom("messages")
    .select((is) => is.fn.countAll<number | string>().as("count"))
    .where("session_id", "=", sessionId)
    .where("role", "=", "user")
    .where("content", "like", '%"origin":"summary"%')
    .executeTakeFirstOrThrow();
  return Number(count);
}
