import {
  agent,
  RequestError,
  type AgentApp,
  type InitializeRequest,
  type InitializeResponse,
} from "@agentclientprotocol/sdk/unstable";
import { acpClaims } from "../../generated/acp/claims.gen.ts";
import { ServiceError } from "../base/errors.ts";
import { type AcpConnection, authMethodsFor, readFeatures } from "./wire/connection.ts";
import type { AcpCall, AcpExtensionHandler, AcpMethod } from "./wire/contract.ts";
import { toRequestError } from "./wire/error.ts";
import type * as Handlers from "./methods.ts";

/**
 * Binds every method of the spec to its handler. `initialize` needs only this file; the rest loads after its response is
 * sent.
 */
export function createAcpAgent(connection: AcpConnection): AgentApp {
  let loaded: typeof Handlers | undefined;
  const handlers = async () => (loaded ??= await import("./methods.ts"));
  const app = agent({ name: acpClaims.title }).onConnect(({ client }) => connection.connected(client));

  app.onRequest("initialize", ({ params, requestId }) => {
    connection.afterAnswer(
      requestId,
      () => void Promise.all([handlers(), connection.deps()]).catch(() => {}),
    );
    return initialized(params, connection);
  });
  for (const method of acpClaims.requests) {
    if (method !== "initialize")
      bind(app, method, async () => (await handlers()).requests[method], connection);
  }
  for (const method of acpClaims.notifications) {
    app.onNotification(method, async (call) => (await handlers()).notifications[method](call, connection));
  }
  for (const method of acpClaims.extensions) {
    const extension = async () => (await handlers()).extensions[method];
    app.onRequest(
      method,
      (params) => params,
      (call) =>
        withProtocolErrors(connection, call.params, async () => {
          const { parse, handle } = (await extension()) as AcpExtensionHandler<unknown, unknown>;
          return handle({ ...call, params: parse(call.params) }, connection);
        }),
    );
  }
  return app.onRequest("*", ({ method }) => {
    throw RequestError.methodNotFound(method);
  });
}

function bind<K extends AcpMethod>(
  app: AgentApp,
  method: K,
  find: () => Promise<(call: never, connection: AcpConnection) => Promise<unknown>>,
  connection: AcpConnection,
): void {
  const handle = (call: AcpCall<K>) =>
    withProtocolErrors(connection, call.params, async () =>
      (await find())(untilDisconnected(method, call, connection) as never, connection),
    );
  app.onRequest(method, handle as never);
}

/** Returns the call; a prompt is also cancelled when the client disconnects. Other calls are short. */
function untilDisconnected<K extends AcpMethod>(
  method: K,
  call: AcpCall<K>,
  { disconnected }: AcpConnection,
): AcpCall<K> {
  return method === "session/prompt"
    ? { ...call, signal: AbortSignal.any([call.signal, disconnected]) }
    : call;
}

/** Turns errors of the agent into errors of the protocol. */
async function withProtocolErrors<T>(
  connection: AcpConnection,
  params: unknown,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestError || error instanceof ServiceError)) connection.onFault(error);
    throw toRequestError(error, (params as { readonly sessionId?: string } | undefined)?.sessionId);
  }
}

/** Returns the response of `initialize`. It names the only supported protocol version, whatever the client requests. */
function initialized(
  { clientCapabilities }: InitializeRequest,
  connection: AcpConnection,
): InitializeResponse {
  connection.features = readFeatures(clientCapabilities);
  const { protocolVersion, title, agentCapabilities, _meta } = acpClaims;
  return {
    protocolVersion,
    agentInfo: { name: title, title, version: connection.version },
    agentCapabilities,
    authMethods: authMethodsFor(connection),
    _meta,
  } as unknown as InitializeResponse;
}
