import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { Memo } from "../../base/lru.ts";
import type { Store } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { contextTokens } from "../engines/context-size.ts";
import { loadContext } from "../session/transcript.ts";
import type { Message } from "../message.ts";
import type { AgentDeps, AgentSettings } from "../deps.ts";

export interface ContextUse {
  /** About how many tokens the next call begins with; 0 when nothing was said yet. */
  readonly used: number;
  readonly compressions: number;
}

const MAX_KNOWN = 512;
const contexts = new WeakMap<Store, Memo<ContextUse>>();

/** How full the context of a session is. Looked up again when messages came or went. */
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

/** What the provider counted at the last call and what came since, or an estimate over all. */
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

/** Tokens in and out of the newest call that ended, and the last message that it counted; undefined where unknown. */
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
  // What it counted was summed up, forgotten or taken back since.
  if (seq === null || Number(seq) <= from) return undefined;
  const tokens = await tokensOfLastCall(store, run);
  return tokens === undefined ? undefined : { tokens, seq: Number(seq) };
}

/** The run's figures are sums over its calls; before the last call it told how far they were. */
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
  const told = before ? (JSON.parse(before.data) as { readonly usage: Partial<RunUsage> }).usage : {};
  const of = (figure: "model_calls" | "input_tokens" | "output_tokens") =>
    (whole[figure] ?? 0) - (told[figure] ?? 0);
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

/** Each left a summary. */
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
