/** The rows of the session and model pickers. */
import { cleanLine } from "./clean-text.ts";
import type { GatewayCall } from "./gateway.ts";
import type { ModelPickerRow, SessionPickerRow } from "./state.ts";

const MAX_SESSIONS = 100;
const MAX_MODELS = 2_000;

/** Returns open and saved sessions, most recent first. */
export async function listSessions(
  call: GatewayCall,
  currentId: string | undefined,
): Promise<readonly SessionPickerRow[]> {
  const [saved, open] = await Promise.all([
    call("session.list", { limit: MAX_SESSIONS }),
    call("session.active_list", currentId === undefined ? {} : { current_session_id: currentId }),
  ]);
  const live = new Map(open.sessions.map((row) => [row.id, row]));
  const savedRows = saved.sessions.map((row) => ({
    ...shownRow(row),
    lastActiveMs: (row.last_active ?? row.started_at) * 1_000,
    isCurrent: row.id === currentId,
    ...(live.has(row.id) ? { liveStatus: live.get(row.id)?.status ?? "idle" } : {}),
  }));
  const ids = new Set(savedRows.map(({ id }) => id));
  const openRows = open.sessions
    .filter(({ id, message_count: count }) => !ids.has(id) && (count > 0 || id === currentId))
    .map((row) => ({
      ...shownRow(row),
      lastActiveMs: row.last_active * 1_000,
      isCurrent: row.id === currentId,
      liveStatus: row.status,
    }));
  return [...savedRows, ...openRows].toSorted((a, b) => b.lastActiveMs - a.lastActiveMs);
}

function shownRow(row: {
  readonly id: string;
  readonly title: string;
  readonly preview: string;
  readonly model?: string;
  readonly message_count: number;
}) {
  return {
    id: row.id,
    title: cleanLine(row.title),
    preview: cleanLine(row.preview),
    model: cleanLine(row.model ?? ""),
    messageCount: row.message_count,
  };
}

/** Returns the models of all providers. */
export async function listModels(
  call: GatewayCall,
  sessionId: string | undefined,
): Promise<readonly ModelPickerRow[]> {
  const { providers, model, provider } = await call(
    "model.options",
    sessionId === undefined ? {} : { session_id: sessionId },
  );
  const rows = providers.flatMap((each) =>
    each.models
      .map((known) => modelName(known, each.slug))
      .map((name) => ({
        id: `${each.slug}:${name}`,
        provider: cleanLine(each.name),
        model: cleanLine(name),
        isCurrent: each.slug === provider && name === model,
        ...(each.warning === undefined ? {} : { warning: cleanLine(each.warning) }),
      })),
  );
  return rows.slice(0, MAX_MODELS);
}

/** Removes the provider's prefix, if any. */
function modelName(known: string, provider: string): string {
  return known.startsWith(`${provider}:`) ? known.slice(provider.length + 1) : known;
}
