import { defineRpc, type RpcContext } from "../deps.ts";
import { apiMethods } from "./api.ts";
import { cliMethods } from "./cli.ts";
import { commandMethods } from "./commands.ts";
import { configMethods, modelMethods, reloadMethods, skillMethods } from "./settings.ts";
import { connectionMethods } from "./connection.ts";
import { delegationMethods } from "./delegation.ts";
import { processMethods } from "./processes.ts";
import { promptMethods } from "./prompt.ts";
import { replyMethods } from "./replies.ts";
import { sessionEditMethods } from "./session-edit.ts";
import { sessionLiveMethods } from "./session-live.ts";
import { sessionMethods } from "./session.ts";
import { terminalMethods } from "./terminal.ts";

/** Binds each method of specs/gateway.openrpc.yaml to its handler. A missing handler is a compile error. */
export const rpcHandlers = defineRpc<RpcContext>({
  ...connectionMethods,
  ...promptMethods,
  ...sessionMethods,
  ...sessionLiveMethods,
  ...sessionEditMethods,
  ...replyMethods,
  ...configMethods,
  ...commandMethods,
  ...cliMethods,
  ...apiMethods,
  ...reloadMethods,
  ...processMethods,
  ...delegationMethods,
  ...terminalMethods,
  ...modelMethods,
  ...skillMethods,
});
