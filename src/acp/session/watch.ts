/** What a client is told of a session that happens outside of its turns: whoever chose or named something. */
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { chosenOf, type Chosen } from "../settings/chosen.ts";
import { configOptions } from "../settings/config-options.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { modeState } from "../settings/modes.ts";
import type { AcpSession } from "./session.ts";

/** After a failure the watch waits so long before it looks again; each time longer. */
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;

/**
 * Follows the session from now on until it is closed here or the client leaves; resolves once it listens. What this client chooses itself
 * comes this way too, so that every change is told once.
 */
export async function watchSession(connection: AcpConnection, session: AcpSession): Promise<void> {
  const { store } = await connection.deps();
  const row = await store.find("sessions", { id: session.id });
  void follow(connection, session, row?.last_seq ?? 0);
}

/** A store that fails for a while costs no change: what came meanwhile is read again. */
async function follow(connection: AcpConnection, session: AcpSession, from: number): Promise<void> {
  const { store, clock, log } = await connection.deps();
  const { id } = session;
  const signal = AbortSignal.any([session.signal, connection.leaving]);
  let after = from;
  for (let waitMs = FIRST_RETRY_MS; !signal.aborted; waitMs = Math.min(waitMs * 2, MAX_RETRY_MS)) {
    try {
      for await (const events of store.journal.follow({ sessionId: id }, { after, signal })) {
        await tell(connection, session, events);
        after = events.at(-1)?.seq ?? after;
        waitMs = FIRST_RETRY_MS;
      }
      return;
    } catch (error) {
      if (signal.aborted) return;
      log.warn("a session cannot be watched for changes", { session: id, error });
      await new Promise<void>((resolve) => clock.after(waitMs, resolve));
    }
  }
}

/** Changes that come together are told once, as they stand now. */
async function tell(
  connection: AcpConnection,
  session: AcpSession,
  events: readonly JournalEvent[],
): Promise<void> {
  const changes = events.filter(({ type }) => type === "session.updated");
  if (changes.length === 0) return;
  const updates = [...titleUpdate(changes), ...(await choiceUpdates(connection, session, changes))];
  for (const update of updates) {
    if (session.signal.aborted) return;
    await connection.client.notify("session/update", { sessionId: session.id, update });
  }
}

function titleUpdate(changes: readonly JournalEvent[]): readonly SessionUpdate[] {
  const named = changes.findLast(({ data }) => data["title"] !== undefined);
  if (!named) return [];
  const updatedAt = new Date(named.atMs).toISOString();
  return [{ sessionUpdate: "session_info_update", title: String(named.data["title"]), updatedAt }];
}

const CHOICES = ["model", "reasoning_effort", "yolo", "mode"];

async function choiceUpdates(
  connection: AcpConnection,
  session: AcpSession,
  changes: readonly JournalEvent[],
): Promise<readonly SessionUpdate[]> {
  const has = (key: string) => changes.some(({ data }) => data[key] !== undefined);
  if (!CHOICES.some(has)) return [];
  const deps = await connection.deps();
  const chosen = await chosenOf(deps, session);
  const options: SessionUpdate = {
    sessionUpdate: "config_option_update",
    configOptions: configOptions(connection, deps, chosen),
  };
  // Without a switch for approvals, clients show them as the mode.
  const isMode = has("mode") || (has("yolo") && !connection.offers.booleanOptions);
  return isMode ? [options, modeUpdate(connection, chosen)] : [options];
}

function modeUpdate({ offers }: AcpConnection, chosen: Chosen): SessionUpdate {
  return { sessionUpdate: "current_mode_update", currentModeId: modeState(chosen, offers).currentModeId };
}

/** Whether approvals were off for all sessions when the client was last notified of it. */
const lastOff = new WeakMap<AcpConnection, boolean>();

/** Notifies the client when approvals were switched for all sessions, which no session records. */
export async function announceApprovals(connection: AcpConnection): Promise<void> {
  const deps = await connection.deps();
  const isOff = deps.agent.deps.switches.yolo;
  if ((lastOff.get(connection) ?? false) === isOff) return;
  lastOff.set(connection, isOff);
  for (const session of connection.sessions) {
    const chosen = await chosenOf(deps, session);
    const options = configOptions(connection, deps, chosen);
    const updates: readonly SessionUpdate[] = [
      { sessionUpdate: "config_option_update", configOptions: options },
      modeUpdate(connection, chosen),
    ];
    for (const update of updates) {
      if (session.signal.aborted) break;
      await connection.client.notify("session/update", { sessionId: session.id, update }).catch(() => {});
    }
  }
}
