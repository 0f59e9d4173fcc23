/** What a session has spent, and how full its context is. */
import type { GatewayUsage } from "../../generated/gateway/types/types.gen.ts";
import type { RunUsage } from "../../generated/http/client/types.gen.ts";
import { contextTokens } from "../agent/engines/context-size.ts";
import { activeSubagents } from "../agent/family.ts";
import { loadContext } from "../agent/history.ts";
import type { Message } from "../agent/message.ts";
import { formatModel } from "../agent/model.ts";
import type { Store } from "../store/store.ts";
import type { RunRow, SessionRow } from "../store/tables.ts";
import { Memo } from "./memo.ts";
import type { RpcRoom } from "./room.ts";
import { modelRef, type Known } from "./session-model.ts";
import { usageOf } from "./turn-payload.ts";

/** Figures over all turns so far; zero before the first. */
export async function sessionUsage(room: RpcRoom, known: Known): Promise<GatewayUsage> {
  const ref = modelRef(room, known);
  const contextMax = room.agent.parts.models.contextTokensOf(ref);
  const { row } = known;
  const spent = usageOf(row && room.agent.sessions.usage(row), formatModel(ref));
  if (!row) return { ...spent, context_max: contextMax, compressions: 0, active_subagents: 0 };
  const [{ used, compressions }, subagents] = await Promise.all([
    contextOf(room, row),
    subagentsOf(room, row),
  ]);
  const percent = contextMax > 0 ? Math.min(100, Math.round((used / contextMax) * 1_000) / 10) : 100;
  return {
    ...spent,
    ...(used > 0 ? { context_used: used, context_percent: percent } : {}),
    context_max: contextMax,
    compressions,
    active_subagents: subagents,
  };
}

/** Sub-agents work for a turn: without one there are none. */
async function subagentsOf({ store }: RpcRoom, { id, owner, lease_owner }: SessionRow): Promise<number> {
  if (lease_owner === null) return 0;
  return (await activeSubagents(store, { owner, rootSessionId: id })).length;
}

interface Context {
  /** About how many tokens the next call begins with; 0 when nothing was said yet. */
  readonly used: number;
  readonly compressions: number;
}

const MAX_KNOWN = 512;
const contexts = new WeakMap<Store, Memo<Context>>();

/** Looked up again when messages came or went. */
function contextOf(room: RpcRoom, row: SessionRow): Promise<Context> {
  const memo = contexts.get(room.store) ?? new Memo(MAX_KNOWN);
  contexts.set(room.store, memo);
  const version = [row.last_message, row.context_seq, row.summary_seq, row.updated_at].join(":");
  return memo.get(row.id, version, async () => ({
    used: await contextUsed(room, row),
    compressions: row.context_seq > 0 ? await compressionsOf(room.store, row.id) : 0,
  }));
}

/** What the provider counted at the last call and what came since, or an estimate over all. */
async function contextUsed({ store, agent }: RpcRoom, row: SessionRow): Promise<number> {
  const counted = await lastCall(store, row);
  if (counted) {
    const since = await messagesAfter(store, row.id, counted.seq);
    return contextTokens({ instructions: "" }, since, { tokens: counted.tokens, messages: 0 });
  }
  const context = (await loadContext(store, row)).map(({ message }) => message);
  if (context.length === 0) return 0;
  return contextTokens(agent.parts.settings, context);
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
