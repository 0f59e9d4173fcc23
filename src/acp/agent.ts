import {
  agent,
  RequestError,
  type AgentApp,
  type InitializeRequest,
  type InitializeResponse,
  type NewSessionResponse,
} from "@agentclientprotocol/sdk/unstable";
import { acpClaims } from "../../generated/acp/claims.gen.ts";
import { createSessionId } from "../base/ids.ts";
import { answering, SESSION_NOT_FOUND, toRequestError } from "./error.ts";
import { runPrompt } from "./prompt.ts";
import type { AcpRoom } from "./room.ts";
import { AcpSession } from "./session.ts";
import { checkFolder } from "./folder.ts";

export interface AcpOptions {
  /** Of agentd. */
  readonly version: string;
  /** Loads the agent. Called once; nothing needs it before a client asks for a session. */
  readonly load: () => Promise<AcpRoom>;
  /** The open sessions of this client, by id. */
  readonly sessions: Map<string, AcpSession>;
}

/** Every method that the claims name, bound to the agent. */
export function createAcpAgent({ version, load, sessions }: AcpOptions): AgentApp {
  let loaded: Promise<AcpRoom> | undefined;
  const room = () => (loaded ??= load());

  const find = (id: string): AcpSession => {
    const session = sessions.get(id);
    if (!session) throw new RequestError(SESSION_NOT_FOUND, `Session not found: ${id}`, { sessionId: id });
    return session;
  };

  return agent({ name: "agentd" })
    .onRequest("initialize", ({ params }) => {
      // The client's next request needs the agent: it is loaded behind this answer.
      setImmediate(() => void room().catch(() => {}));
      return initialized(params, version);
    })
    .onRequest("authenticate", async ({ params }) => {
      if (params.methodId !== "provider") {
        throw RequestError.invalidParams({ methodId: params.methodId }, "There is no such way to sign in.");
      }
      await room();
      return {};
    })
    .onRequest("session/new", async ({ params }): Promise<NewSessionResponse> => {
      const cwd = await checkFolder(params.cwd);
      const { clock } = await room();
      const id = createSessionId(clock.now());
      sessions.set(id, new AcpSession(id, { source: "acp", cwd }));
      return { sessionId: id };
    })
    .onRequest("session/prompt", async ({ params, client, signal }) => {
      const session = find(params.sessionId);
      const core = await room();
      return answering(session.id, () => runPrompt(core, session, params.prompt, { client, signal }));
    })
    .onNotification("session/cancel", async ({ params }) => {
      const session = sessions.get(params.sessionId);
      if (!session) return;
      const { agent: core } = await room();
      for (const runId of session.cancel()) await core.turns.stop(runId, "The editor cancelled.");
    })
    .onRequest("*", ({ method }) => {
      throw RequestError.methodNotFound(method);
    });
}

export { toRequestError };

function initialized({ clientCapabilities }: InitializeRequest, version: string): InitializeResponse {
  const { protocolVersion, title, agentCapabilities, authMethods, _meta } = acpClaims;
  const setup = clientCapabilities?.auth?.terminal === true ? [authMethods.setup] : [];
  return {
    protocolVersion,
    agentInfo: { name: title, title, version },
    agentCapabilities,
    authMethods: [authMethods.provider, ...setup],
    _meta,
  } as unknown as InitializeResponse;
}
