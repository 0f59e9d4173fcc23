/** The handlers of every method but `initialize`, by name. A missing one does not compile. */
import type {
  AcpExtension,
  AcpExtensionHandler,
  AcpGroup,
  AcpMethod,
  AcpNotification,
  AcpNotificationGroup,
} from "./wire/contract.ts";
import { createSessionId } from "../base/text.ts";
import {
  requireProvider,
  afterOpen,
  authenticate,
  openResponse,
  closeOnFailure,
  closeSession,
  openSession,
  forkSession,
  findSession,
  requireUndeleted,
} from "./session/open.ts";
import { fromLatestEvent, liveTurn } from "./prompt/live-turn.ts";
import { replaySession } from "./session/replay.ts";
import { listSessions } from "./session/list.ts";
import { readBlocks, toMessage } from "./prompt/content.ts";
import { invalidParams } from "./wire/error.ts";
import { setMode, setSessionModel, setOption, sessionOptions } from "./session/options.ts";
import type { AcpConnection, AcpSession } from "./wire/connection.ts";
import { runPrompt, runDetached } from "./prompt/prompt.ts";
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable";
import { fileText } from "../agent/attachments/attachment.ts";
import type { UserMessage } from "../agent/engine.ts";
import type { ResourceParams } from "./session/attach.ts";
import { runningTurn } from "../agent/run/run.ts";
import { isRecord } from "../base/data.ts";
import { shorten } from "../base/text.ts";

/** How long active runs of a deleted session may take to stop. */
const STOP_TIMEOUT_MS = 5_000;

export const requests: AcpGroup<Exclude<AcpMethod, "initialize">> = {
  authenticate: async ({ params }, connection) => {
    if (params.methodId !== "provider") {
      const method = JSON.stringify(shorten(params.methodId, 80));
      throw invalidParams("methodId", `Unknown authentication method ${method}. Use "provider".`);
    }
    await authenticate(connection);
    return {};
  },

  "session/new": async ({ params, requestId, signal }, connection) => {
    const { clock } = await requireProvider(connection);
    const id = createSessionId(clock.now());
    // Editors show the mode, so a new session starts in an explicit one: `ask` asks before every edit.
    const seed = { source: "acp", cwd: params.cwd, settings: { mode: "ask" } } as const;
    const session = await openSession(connection, { id, seed, row: undefined }, params, { signal });
    const response = await closeOnFailure(connection, session, () =>
      openResponse(connection, session, signal),
    );
    afterOpen(connection, session, { requestId });
    return { sessionId: id, ...response };
  },

  "session/load": async ({ params, requestId, signal }, connection) => {
    const { session, isNew } = await reopen(connection, params, signal);
    const live = await liveTurn(connection, session);
    const replay = async () => {
      await replaySession(connection, session, { signal, liveRunId: live?.runId });
      return openResponse(connection, session, signal);
    };
    const response = await (isNew ? closeOnFailure(connection, session, replay) : replay());
    afterOpen(connection, session, { requestId, live });
    return { ...response };
  },

  "session/resume": async ({ params, requestId, signal }, connection) => {
    const { session, isNew } = await reopen(connection, params, signal);
    const live = await liveTurn(connection, session);
    const respond = () => openResponse(connection, session, signal);
    const response = await (isNew ? closeOnFailure(connection, session, respond) : respond());
    afterOpen(connection, session, { requestId, live: live && (await fromLatestEvent(connection, live)) });
    return { ...response };
  },

  "session/fork": async ({ params, requestId, signal }, connection) => {
    await requireProvider(connection);
    const parent = await findSession(connection, params.sessionId);
    const { session, response } = await forkSession(connection, parent, { params, signal });
    afterOpen(connection, session, { requestId });
    return { sessionId: session.id, ...response };
  },

  "session/list": ({ params }, connection) => listSessions(connection, params),

  "session/close": async ({ params }, connection) => {
    await closeSession(connection, connection.session(params.sessionId));
    return {};
  },

  "session/delete": async ({ params }, connection) => {
    const { agent, store, owner } = await connection.deps();
    const session = connection.find(params.sessionId);
    if (session) await closeSession(connection, session);
    const row = await store.find("sessions", { id: params.sessionId });
    if (row?.owner !== owner) return {};
    await agent.endRuns(row.id, { reason: "The session was deleted.", timeoutMs: STOP_TIMEOUT_MS });
    await agent.sessions.delete(row.id, owner);
    // The client may have loaded the session again meanwhile.
    const reopened = connection.find(row.id);
    if (reopened) await closeSession(connection, reopened);
    return {};
  },

  "session/set_mode": async ({ params, requestId }, connection) => {
    const session = await requireOpen(connection, params.sessionId, requestId);
    await setMode(connection, session, params.modeId, "modeId");
    return {};
  },

  "session/set_config_option": async ({ params, requestId }, connection) => {
    const session = await requireOpen(connection, params.sessionId, requestId);
    await setOption(connection, session, params);
    return { configOptions: (await sessionOptions(connection, session)).configOptions };
  },

  "session/prompt": runPrompt,
};

export const notifications: AcpNotificationGroup<AcpNotification> = {
  "session/cancel": async ({ params }, connection) => connection.find(params.sessionId)?.interrupt(),
};

interface SetModel {
  readonly sessionId: string;
  readonly modelId: string;
}

/** `session/set_model`, which older clients use. */
const setModel: AcpExtensionHandler<SetModel, object> = {
  parse(params) {
    const { sessionId, modelId } = (params ?? {}) as Partial<Record<keyof SetModel, unknown>>;
    if (typeof sessionId !== "string") throw invalidParams("sessionId", "sessionId must be a string.");
    if (typeof modelId !== "string") throw invalidParams("modelId", "modelId must be a string.");
    return { sessionId, modelId };
  },
  handle: async ({ params, requestId }, connection) => {
    const session = await requireOpen(connection, params.sessionId, requestId);
    await setSessionModel(connection, session, params.modelId, "modelId");
    return {};
  },
};

interface Steering {
  readonly sessionId: string;
  readonly prompt: readonly ContentBlock[];
  /** What to do when no turn is running. */
  readonly whenIdle: "startNewTurn" | "promptRequired";
}

interface SteeringResult {
  readonly outcome: "injected" | "startedNewTurn" | "promptRequired";
  readonly reason?: "noRunningTurn" | "notText";
}

/** `_session/steering`: adds a prompt to the running turn. */
const steering: AcpExtensionHandler<Steering, SteeringResult> = {
  parse(params) {
    const { sessionId, prompt, _meta: meta } = isRecord(params) ? params : {};
    if (typeof sessionId !== "string") throw invalidParams("sessionId", "sessionId must be a string.");
    return { sessionId, prompt: readBlocks(prompt), whenIdle: readWhenIdle(meta) };
  },

  handle: async ({ params, signal, requestId }, connection) => {
    const { sessionId, prompt, whenIdle } = params;
    const session = await requireOpen(connection, sessionId, requestId);
    const message = await toMessage(prompt, { connection, session, signal });
    const text = steeringText(message);
    if (text === "") throw invalidParams("prompt", "prompt is empty.");
    if (text !== undefined && (await steer(connection, session, text))) return { outcome: "injected" };
    if (whenIdle === "promptRequired") {
      // The client sends the prompt again itself: none of it is used here.
      return { outcome: "promptRequired", reason: text === undefined ? "notText" : "noRunningTurn" };
    }
    connection.afterAnswer(requestId, () => void runDetached(connection, session, message));
    return { outcome: "startedNewTurn" };
  },
};

export const extensions: Readonly<Record<AcpExtension, AcpExtensionHandler<unknown, unknown>>> = {
  "session/set_model": setModel,
  "_session/steering": steering,
};

/** Opens a saved session, or an open one again. */
async function reopen(
  connection: AcpConnection,
  params: ResourceParams & { readonly sessionId: string },
  signal: AbortSignal,
): Promise<{ readonly session: AcpSession; readonly isNew: boolean }> {
  await requireProvider(connection);
  const existing = await findSession(connection, params.sessionId);
  const isNew = connection.find(existing.id) === undefined;
  return { session: await openSession(connection, existing, params, { signal }), isNew };
}

/** RequestError -32002 for a session that is not open here, or was deleted. */
async function requireOpen(
  connection: AcpConnection,
  id: string,
  requestId: string | number | null,
): Promise<AcpSession> {
  const session = connection.session(id);
  await requireUndeleted(connection, session, requestId);
  return session;
}

/** RequestError -32602 for an unknown value: the client relies on the behavior it asks for. */
function readWhenIdle(meta: unknown): Steering["whenIdle"] {
  const options = isRecord(meta) ? meta["steering"] : undefined;
  const behavior = isRecord(options) ? options["idleBehavior"] : undefined;
  if (behavior === undefined || behavior === null) return "startNewTurn";
  if (behavior === "promptRequired" || behavior === "startNewTurn") return behavior;
  throw invalidParams(
    "_meta.steering.idleBehavior",
    "_meta.steering.idleBehavior must be promptRequired or startNewTurn.",
  );
}

/** Returns false when no running turn accepts the text, in this or another process. */
async function steer(connection: AcpConnection, { id }: AcpSession, text: string): Promise<boolean> {
  const { agent, store } = await connection.deps();
  const runId = agent.runs.runningIn(id) ?? (await runningTurn(store, id))?.runId;
  return runId !== undefined && agent.runs.steer(runId, text);
}

/** Returns the message with its text files inlined, or undefined if it has images: a running turn accepts only text. */
function steeringText({ text, attachments = [] }: UserMessage): string | undefined {
  if (attachments.some(({ type }) => type === "image")) return undefined;
  return [text.trim(), ...attachments.map(fileText)].filter((part) => part !== "").join("\n\n");
}
