/** Methods that choose what applies to a session. */
import { chooseMode, chooseModel, chooseOption, sessionOptions } from "../settings/config-options.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { AcpExtensionHandler, AcpGroup } from "../wire/contract.ts";
import { invalidParams } from "../wire/error.ts";
import type { AcpSession } from "../session/session.ts";
import { requireUndeleted } from "../session/open.ts";

export const configMethods: AcpGroup<"session/set_mode" | "session/set_config_option"> = {
  "session/set_mode": async ({ params, requestId }, connection) => {
    const session = await opened(connection, params.sessionId, requestId);
    await chooseMode(connection, session, params.modeId, "modeId");
    return {};
  },
  "session/set_config_option": async ({ params, requestId }, connection) => {
    const session = await opened(connection, params.sessionId, requestId);
    await chooseOption(connection, session, params);
    return { configOptions: (await sessionOptions(connection, session)).configOptions };
  },
};

interface SetModel {
  readonly sessionId: string;
  readonly modelId: string;
}

/** How older clients choose the model. */
export const setModel: AcpExtensionHandler<SetModel, object> = {
  parse(params) {
    const { sessionId, modelId } = (params ?? {}) as Partial<Record<keyof SetModel, unknown>>;
    if (typeof sessionId !== "string") throw invalidParams("sessionId", "sessionId must be a text.");
    if (typeof modelId !== "string") throw invalidParams("modelId", "modelId must be a text.");
    return { sessionId, modelId };
  },
  handle: async ({ params, requestId }, connection) => {
    const session = await opened(connection, params.sessionId, requestId);
    await chooseModel(connection, session, params.modelId, "modelId");
    return {};
  },
};

/** RequestError -32002 for a session that is not open here, or was deleted. */
async function opened(
  connection: AcpConnection,
  id: string,
  requestId: string | number | null,
): Promise<AcpSession> {
  const session = connection.session(id);
  await requireUndeleted(connection, session, requestId);
  return session;
}
