/** Every handler but that of `initialize`, by the names of the claims: one that is missing does not compile. */
import type {
  AcpExtension,
  AcpExtensionHandler,
  AcpGroup,
  AcpMethod,
  AcpNotification,
  AcpNotificationGroup,
} from "./contract.ts";
import { authMethods } from "./methods/auth.ts";
import { configMethods, setModel } from "./methods/config.ts";
import { historyMethods } from "./methods/history.ts";
import { promptMethods, promptNotifications } from "./methods/prompt.ts";
import { sessionMethods } from "./methods/session.ts";
import { steering } from "./methods/steering.ts";

export const requests: AcpGroup<Exclude<AcpMethod, "initialize">> = {
  ...authMethods,
  ...sessionMethods,
  ...historyMethods,
  ...configMethods,
  ...promptMethods,
};

export const notifications: AcpNotificationGroup<AcpNotification> = promptNotifications;

export const extensions: Readonly<Record<AcpExtension, AcpExtensionHandler<unknown, unknown>>> = {
  "session/set_model": setModel,
  "_session/steering": steering,
};
