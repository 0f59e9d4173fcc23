/** Notifies a client of changes to its sessions outside of turns, such as a new title, mode or model. */
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { readChoices, type SessionChoices, configOptions, modeState } from "./options.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { AcpSession } from "./session.ts";

/** The delay after a failure, doubled each time. */
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;

/**
 * Follows the session until it is closed here or the client disconnects; resolves when it listens. Reports the client's
 * own changes too, so that every change is reported exactly once.
 */
export async function watchSession(connection: AcpConnection, session: AcpSession): Promise<void> {
  const { store } = await connection.deps();
  const row = await store.find("sessions", { id: session.id });
  void follow(connection, session, row?.last_seq ?? 0);
}

/** Follows the journal and resumes from its cursor after a failure of the store. */
async function follow(connection: AcpConnection, session: AcpSession, from: number): Promise<void> {
  const { store, clock, log } = await connection.deps();
  const { id } = session;
  const signal = AbortSignal.any([session.signal, connection.disconnected]);
  let after = from;
  for (let waitMs = FIRST_RETRY_MS; !signal.aborted; waitMs = Math.min(waitMs * 2, MAX_RETRY_MS)) {
    try {
      for await (const events of store.journal.follow({ sessionId: id }, { after, signal })) {
        await notify(connection, session, events);
        after = events.at(-1)?.seq ?? after;
        waitMs = FIRST_RETRY_MS;
      }
      return;
    } catch (error) {
      if (signal.aborted) return;
      log.warn("cannot watch a session for changes, trying again", { session: id, error });
      await new Promise<void>((resolve) => clock.after(waitMs, resolve));
    }
  }
}

/** Reports changes that arrive together once, with their current values. */
async function notify(
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
  const choices = await readChoices(deps, session);
  const options: SessionUpdate = {
    sessionUpdate: "config_option_update",
    configOptions: configOptions(connection, deps, choices),
  };
  // Clients without a switch for approvals show them as the mode.
  const isMode = has("mode") || (has("yolo") && !connection.features.booleanOptions);
  return isMode ? [options, modeUpdate(connection, choices)] : [options];
}

function modeUpdate({ features }: AcpConnection, choices: SessionChoices): SessionUpdate {
  return { sessionUpdate: "current_mode_update", currentModeId: modeState(choices, features).currentModeId };
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
    const choices = await readChoices(deps, session);
    const options = configOptions(connection, deps, choices);
    const updates: readonly SessionUpdate[] = [
      { sessionUpdate: "config_option_update", configOptions: options },
      modeUpdate(connection, choices),
    ];
    for (const update of updates) {
      if (session.signal.aborted) break;
      await connection.client.notify("session/update", { sessionId: session.id, update }).catch(() => {});
    }
  }
}
