import { RequestError, type SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { readForward, type TranscriptRow } from "../../agent/session/transcript.ts";
import { settingsOf } from "../../agent/session/session.ts";
import { redact } from "../../base/observe/redact.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { sessionNotFound } from "../wire/error.ts";
import { macrotask } from "../questions/question.ts";
import { Replay, type ReplayOptions, type RunFacts } from "./replay.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "../session/session.ts";
import { planOf } from "../prompt/update.ts";

/** Images may ride with every message. */
const PAGE = 32;

/**
 * Tells the client the whole conversation, oldest first, and its plan. `liveRunId`: the turn at work, of which only the
 * prompt is told. RequestError -32800 when the client does not want it any more, -32002 when it closed the session.
 */
export async function replaySession(
  connection: AcpConnection,
  session: AcpSession,
  { signal, liveRunId }: { readonly signal: AbortSignal; readonly liveRunId?: string | undefined },
): Promise<void> {
  const deps = await connection.deps();
  const { id: sessionId, seed } = session;
  const tell = async (updates: readonly SessionUpdate[]) => {
    for (const update of updates) {
      if (signal.aborted) throw RequestError.requestCancelled();
      if (session.signal.aborted) throw sessionNotFound(sessionId);
      await connection.client.notify("session/update", { sessionId, update });
    }
  };
  const replay = new Replay({ cwd: seed.cwd, describe: describer(deps, seed.cwd), liveRunId });
  let facts: ReadonlyMap<string, RunFacts> = new Map();
  for (let after = 0; ;) {
    const rows = await readForward(deps.store, sessionId, { after, limit: PAGE });
    facts = await factsOf(deps, rows, facts);
    for (const row of rows) await tell(replay.take(row, facts.get(row.runId ?? "") ?? NO_FACTS));
    after = rows.at(-1)?.seq ?? after;
    // The client may say meanwhile that it does not want to know.
    await macrotask();
    if (rows.length < PAGE) break;
  }
  await tell(replay.end());
  const row = await deps.store.find("sessions", { id: sessionId });
  const todos = row ? (settingsOf(row).todos ?? []) : [];
  if (todos.length > 0) await tell([planOf(todos)]);
}

const NO_FACTS: RunFacts = { started: new Map(), completed: new Map(), status: undefined };

/** Of the runs of a page. Those of the page before are `known`: a long turn goes on over many pages. */
async function factsOf(
  { store }: AcpDeps,
  rows: readonly TranscriptRow[],
  known: ReadonlyMap<string, RunFacts>,
): Promise<ReadonlyMap<string, RunFacts>> {
  const ids = [...new Set(rows.flatMap(({ runId }) => runId ?? []))];
  const facts = new Map(ids.flatMap((id) => (known.has(id) ? [[id, known.get(id) ?? NO_FACTS]] : [])));
  const unknown = ids.filter((id) => !facts.has(id));
  if (unknown.length === 0) return facts;
  const runs = await store.read
    .selectFrom("runs")
    .select(["id", "status", "error"])
    .where("id", "in", unknown)
    .execute();
  const events = await store.read
    .selectFrom("events")
    .select(["run_id", "type", "data"])
    .where("run_id", "in", unknown)
    .where("type", "in", ["tool.started", "tool.completed"])
    .execute();
  const calls = events.map(({ run_id: runId, type, data }) => ({
    runId,
    type,
    data: JSON.parse(data) as JournalEvent["data"],
  }));
  for (const id of unknown) {
    const run = runs.find((row) => row.id === id);
    const of = (type: string) =>
      new Map(
        calls
          .filter((call) => call.runId === id && call.type === type)
          .map(({ data }) => [String(data["tool_call_id"]), data]),
      );
    const reason = reasonOf(run?.error ?? null);
    facts.set(id, {
      started: of("tool.started"),
      completed: of("tool.completed"),
      status: run?.status,
      ...(reason === undefined ? {} : { reason }),
    });
  }
  return facts;
}

function reasonOf(error: string | null): string | undefined {
  return error === null ? undefined : (JSON.parse(error) as { readonly message?: string }).message;
}

/** Tools are known here that the journal has forgotten to have worked; some may be gone by now. */
function describer({ agent }: AcpDeps, cwd: string): ReplayOptions["describe"] {
  const tools = new Map(agent.deps.tools().map((tool) => [tool.name, tool]));
  return (name, input) => {
    const tool = tools.get(name);
    if (!tool) return {};
    const kind = tool.kind === undefined ? {} : { kind: tool.kind };
    try {
      const { title, reads = [], writes = [] } = tool.inspect(input as never, { cwd });
      return { ...kind, preview: redact(title), paths: [...new Set([...writes, ...reads])].map(redact) };
    } catch {
      // Arguments that did not fit then do not fit now.
      return kind;
    }
  };
}
