import { defineRpc } from "./contract.ts";
import { cliMethods } from "./methods/cli.ts";
import { commandMethods } from "./methods/commands.ts";
import { configMethods } from "./methods/config.ts";
import { connectionMethods } from "./methods/connection.ts";
import { delegationMethods } from "./methods/delegation.ts";
import { modelMethods } from "./methods/models.ts";
import { processMethods } from "./methods/processes.ts";
import { promptMethods } from "./methods/prompt.ts";
import { reloadMethods } from "./methods/reload.ts";
import { replyMethods } from "./methods/replies.ts";
import { sessionEditMethods } from "./methods/session-edit.ts";
import { sessionLiveMethods } from "./methods/session-live.ts";
import { sessionMethods } from "./methods/session.ts";
import { terminalMethods } from "./methods/terminal.ts";
import type { RpcContext } from "./room.ts";

/** Every method of specs/gateway.openrpc.yaml, bound to its handler. One without a handler is a compile error. */
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
  ...reloadMethods,
  ...processMethods,
  ...delegationMethods,
  ...terminalMethods,
  ...modelMethods,
});
