/** Methods that choose what holds for a session. */
import { choose, chooseModel, chooseOption, sessionOptions } from "../config-options.ts";
import type { AcpExtensionHandler, AcpGroup } from "../contract.ts";
import { invalidParams } from "../error.ts";
import { readMode } from "../modes.ts";

export const configMethods: AcpGroup<"session/set_mode" | "session/set_config_option"> = {
  "session/set_mode": async ({ params }, connection) => {
    const session = connection.session(params.sessionId);
    await choose(connection, session, { mode: readMode(params.modeId, "modeId") });
    return {};
  },
  "session/set_config_option": async ({ params }, connection) => {
    const session = connection.session(params.sessionId);
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
  handle: async ({ params }, connection) => {
    await chooseModel(connection, connection.session(params.sessionId), params.modelId, "modelId");
    return {};
  },
};
